"""The `tri` dialect and the vocabulary around it: dtypes, the op table, dtype promotion and library spellings.

Takes nothing of the compiler: it knows MLIR's bindings and `mlirtri.errors`, neither TVM nor the lowerings.
Gives the dialect to MLIR contexts, and to the frontend what a call of NumPy, torch or `math` means.
Refuses operands that an operation does not take, with `KernelTypeError` and `KernelValueError`.

Read in this order: the packages `base`, `bindings`, `scalar`, `ops`; then

* `definition.py`: the dialect as MLIR has it, made from the op table; contexts in which it is registered.
* `builder.py`: `TriBuilder`, which creates `tri` operations at MLIR's insertion point.
* `bare.py`: removes the attributes of ours that other tools do not know.
* `tri.py`: the empty module that MLIR's bindings import for the dialect. `tri.irdl.mlir`: the dialect as IRDL.

then the packages `promotion` and `spellings`. Every lowering and `mlirtri/` may import this package.
"""
