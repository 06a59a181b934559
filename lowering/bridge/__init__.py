"""lowering / bridge."""
