"""Imported Relax → `linalg`: TVM's models for MLIR's tools. The inverse of the bridge.

*Takes* a Relax module of operators and unscheduled PrimFuncs. *Gives* the normal form of `normalize`. *Refuses* packed
functions, closures, and TIR that is scheduled, vectorised or bound to GPU threads.

- `normalize_relax.py`: the stage `relax`: one Relax function, large constants as parameters
- `relax_to_linalg.py`: the stage `linalg`: Relax functions → `func.func`
- `operators.py`: rules of operators that TVM has no TIR for, or worse TIR
- `primfunc_to_linalg.py`: a call of a PrimFunc → linalg and `scf`
- `primfunc_frame.py`: the buffers and variables of the call
- `primfunc_nests.py`: which loop nests are one `linalg.generic`
- `primfunc_generics.py`: these nests as `linalg.generic`, slices and padding
- `tir_to_scalar.py`: TIR expressions and functions → `arith` and `math`
- `types.py`: dtypes, constants and Relax types → MLIR

Imported by `lowering/pipelines.py`, `lowering/bridge` and `mlirtri/programs`.
"""
