"""mlirtri / compiler."""
