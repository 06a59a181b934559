"""mlirtri / programs."""
