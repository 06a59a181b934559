"""lowering / schedule / meta."""
