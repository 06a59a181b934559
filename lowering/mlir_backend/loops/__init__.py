"""Structured operations on memrefs to loops: the form that the imperative bridge and the `mlir` pipeline read.

*Takes* a bufferized module.
*Gives* scf loops and branches, loads and stores on whole buffers, scalar arith and math, in place.
*Refuses* nothing of its own.

Read in this order:

- `bufferized_to_loops.py`: the entry point; selects of buffers become branches.
- `argmax.py`: argmax and argmin as two reductions that LLVM can vectorise.
- `order.py`: the loop order of reductions. `structured.py`: one loop nest per `linalg.generic`.
- `copies.py`: removes copies that the loops make superfluous.

`lowering/mlir_backend/llvm` and `lowering/bridge` may import it.
"""
