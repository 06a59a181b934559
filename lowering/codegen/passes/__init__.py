"""lowering / codegen / passes."""
