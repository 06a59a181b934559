"""lowering / importers / from_stablehlo."""
