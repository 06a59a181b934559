"""lowering / importers / from_torch / decompositions."""
