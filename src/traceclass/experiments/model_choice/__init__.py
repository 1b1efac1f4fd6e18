"""Evidence and held-out scores over alpha, variance and width, and what is inferred."""
