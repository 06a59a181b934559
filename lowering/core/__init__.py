"""lowering / core."""
