"""The `tri` dialect and the vocabulary around it: dtypes, the op table, dtype promotion and library spellings.

The folder installs as `mlirtri.dialect`. Depends on MLIR's bindings and `mlirtri.errors`, but neither on TVM nor on the
lowerings.
*Gives* the dialect to MLIR contexts, and to the frontend the meaning of NumPy, torch and `math` calls.
*Refuses* operands that an operation does not take, with `KernelTypeError` and `KernelValueError`.

Read in this order: the packages `base`, `bindings`, `scalar`, `ops`; then

- `definition.py`: the MLIR dialect, built from the op table; contexts in which it is registered.
- `working_context.py`: the context that compilations share.
- `builder.py`: `TriBuilder`, which creates `tri` operations at MLIR's insertion point.
- `tri.py`: the empty module that MLIR's bindings import for the dialect. `tri.irdl.mlir`: the dialect as IRDL.

then the packages `promotion` and `spellings`. Every lowering and `mlirtri/` may import this package.
"""
