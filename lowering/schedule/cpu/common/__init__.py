"""lowering / schedule / cpu / common."""
