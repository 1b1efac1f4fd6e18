"""The version of this library; what it writes carries it."""

__version__ = "0.1.0"
