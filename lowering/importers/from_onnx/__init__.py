"""ONNX models to the torch dialect, through torch-mlir's importer; `from_torch` lowers the rest.

*Takes* an `onnx.ModelProto` that passed ONNX's checker. *Gives* a module of the torch dialect. *Refuses* values that
are no tensors, other domains than ONNX's, and nodes that torch-mlir does not lower, all at once. `mlirtri/programs`
imports this package.

- `graph.py`: the model to an `OnnxGraph`, with weights as inputs
- `repairs.py`: nodes that torch-mlir lowers incorrectly, rewritten or refused
- `onnx_to_torch.py`: an `OnnxGraph` to the torch dialect
"""
