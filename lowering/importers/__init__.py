"""lowering / importers."""
