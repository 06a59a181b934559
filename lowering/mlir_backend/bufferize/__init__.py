"""lowering / mlir_backend / bufferize."""
