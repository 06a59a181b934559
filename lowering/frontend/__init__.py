"""lowering / frontend."""
