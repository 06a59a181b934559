"""lowering / mlir_backend / loops."""
