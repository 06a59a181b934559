"""lowering / schedule / cpu / attention."""
