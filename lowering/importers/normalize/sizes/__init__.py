"""lowering / importers / normalize / sizes."""
