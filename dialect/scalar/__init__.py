"""dialect / scalar."""
