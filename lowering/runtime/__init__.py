"""lowering / runtime."""
