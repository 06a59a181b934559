"""lowering / linalg."""
