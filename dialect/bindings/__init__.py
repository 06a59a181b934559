"""dialect / bindings."""
