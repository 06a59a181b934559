"""lowering / schedule / rows."""
