"""Three priors with about 20,000 parameters each on one data set."""
