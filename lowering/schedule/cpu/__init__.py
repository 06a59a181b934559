"""lowering / schedule / cpu."""
