"""lowering / importers / from_onnx."""
