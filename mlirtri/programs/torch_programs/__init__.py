"""mlirtri / programs / torch_programs."""
