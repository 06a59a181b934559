"""mlirtri / kernels."""
