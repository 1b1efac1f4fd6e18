"""Value functions of mountain car: three priors by three kernels, and how well they drive."""
