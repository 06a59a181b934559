"""dialect / ops."""
