"""lowering / importers / from_torch / graph_passes."""
