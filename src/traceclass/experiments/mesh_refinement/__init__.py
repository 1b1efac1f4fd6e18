"""Acceptance and effective samples as the function and the grid are refined."""
