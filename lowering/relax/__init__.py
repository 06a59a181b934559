"""lowering / relax."""
