"""lowering / external."""
