"""lowering / codegen."""
