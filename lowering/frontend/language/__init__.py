"""lowering / frontend / language."""
