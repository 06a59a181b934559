"""lowering / importers / normalize / arithmetic."""
