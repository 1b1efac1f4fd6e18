"""Draws from the priors: the paper's two figures, and galleries of our own."""
