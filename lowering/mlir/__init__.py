"""lowering / mlir."""
