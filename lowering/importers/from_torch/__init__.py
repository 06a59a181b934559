"""lowering / importers / from_torch."""
