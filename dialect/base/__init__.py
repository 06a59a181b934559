"""dialect / base."""
