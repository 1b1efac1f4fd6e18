"""The permeability of an aquifer from 33 hydraulic heads: both priors, five kernels."""
