"""dialect / promotion."""
