"""lowering / mlir_backend / llvm."""
