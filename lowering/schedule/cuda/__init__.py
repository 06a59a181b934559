"""lowering / schedule / cuda."""
