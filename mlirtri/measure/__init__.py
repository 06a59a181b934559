"""mlirtri / measure."""
