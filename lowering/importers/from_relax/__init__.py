"""lowering / importers / from_relax."""
