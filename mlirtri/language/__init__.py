"""mlirtri / language."""
