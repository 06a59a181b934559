"""lowering / elementary."""
