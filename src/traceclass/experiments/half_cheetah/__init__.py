"""A value function on R^17 from 100 choices of an expert: the paper's Table 2."""
