"""mlirtri / calls."""
