"""Lower the `tri` dialect to linalg on tensors.

*Takes* a module of func, `tri` and `scf`. *Gives* a new module of func, linalg, tensor, arith, math and scf on signless
tensors, each operation with the location of the one that it comes from. Fuses nothing. *Refuses* at the operation what
a rule refuses.

Read in this order:

- `tri_to_linalg.py`: the lowering of a module, operation by operation.
- `rewrites.py`: composite operations in terms of others; ``x[mask]`` as `where`, so that no elements are gathered.
- `imperative_functions.py`: functions with loops and branches, in which rank-0 tensors are scalars.
- `elementwise.py`: the registry of rules; elementwise operations, creation, shapes.
- `reductions.py`, `matmul.py`, `windows.py`, `arrays.py`, `indexing.py`: the other rules by topic.
- `scans_as_reductions.py`: scans, for CUDA devices.

Imported by `lowering.bridge`, which shares the decomposition, and by `lowering.importers.normalize`.
"""
