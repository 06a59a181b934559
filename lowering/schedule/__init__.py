"""lowering / schedule."""
