"""Our kernels and BlackJAX's on nine posteriors; see `__main__` for the command."""
