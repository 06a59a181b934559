"""mlirtri / pages."""
