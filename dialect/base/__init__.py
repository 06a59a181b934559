"""Types without MLIR: dtypes, symbolic sizes, tensor types, and the registry of rules.

*Takes* dtypes by any of their names (ours, NumPy's, torch's, MLIR's), shapes of ints and symbolic sizes. *Gives*
`DType`, `Size`, `TensorType`, `Registry`. *Refuses* unknown dtypes, shapes that do not broadcast, and a second rule for
one name.

Read in this order:

- `dtypes.py`: the table of element types, with their names in NumPy, torch, MLIR and TVM.
- `sizes.py`: sizes known only at run time, as linear expressions of bounded symbols.
- `tensor_type.py`: a shape with a dtype; broadcasting.
- `registry.py`: the mapping from names to rules behind every registry.

Every package may import this one.
"""
