"""mlirtri / opt."""
