"""lowering / tir."""
