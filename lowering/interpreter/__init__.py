"""lowering / interpreter."""
