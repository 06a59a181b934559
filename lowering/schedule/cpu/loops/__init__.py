"""lowering / schedule / cpu / loops."""
