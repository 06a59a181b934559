"""ONNX models to the torch dialect, through torch-mlir's importer; `from_torch` lowers the rest.

*Takes* an `onnx.ModelProto` that passed ONNX's checker. *Gives* a module of the torch dialect. *Refuses* values that
are no tensors, other domains than ONNX's, and nodes that torch-mlir does not lower, all at once. `mlirtri/programs`
imports this package.

- `nodes.py`: reading nodes and the types of values, building nodes
- `known_inputs.py`: inputs that decide shapes, as constants
- `expand.py`: operators replaced by ONNX's own definitions of them
- `fold.py`, `unroll.py`: what is known before the graph runs, also how often loops do
- `loops.py`, `torch_loops.py`: loops that remain, with results in buffers that they carry, as torch's
- `repairs.py`: nodes that torch-mlir lowers incorrectly or not at all, rewritten or refused; by family `casts.py`,
  `detection.py`, `quantization.py`, `pools.py`, `layers.py`, `indexing.py`, `recurrences.py` with `recurrent_cells.py`,
  `resize.py`, `samples.py`, `selection.py` and `transforms.py`
- `graph.py`: the model to an `OnnxGraph`, by all of these, with weights as inputs
- `onnx_to_torch.py`: an `OnnxGraph` to the torch dialect
"""
