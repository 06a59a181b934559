"""lowering / schedule / cpu / rows."""
