"""mlirtri / cli."""
