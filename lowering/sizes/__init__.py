"""lowering / sizes."""
