"""lowering / importers / normalize."""
