"""lowering / mlir_backend."""
