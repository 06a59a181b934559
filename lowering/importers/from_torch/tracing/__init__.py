"""lowering / importers / from_torch / tracing."""
