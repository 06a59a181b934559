"""Structured operations on memrefs to loops: the form that the imperative bridge and the `mlir` pipeline read.

*Takes* a bufferized module.
*Gives* scf loops and branches, loads and stores on whole buffers, scalar arith and math, in place.
*Refuses* nothing of its own.

Read in this order:

- `bufferized_to_loops.py`: the entry point. `selected_buffers.py`: selects of buffers become branches.
- `argmax.py`: argmax and argmin as two reductions that LLVM can vectorise.
- `order.py`: the loop order of reductions. `joined_reductions.py`: one loop of reductions over several open axes.
- `structured.py`: one loop nest per `linalg.generic`.
- `copies.py`: removes copies of buffers that are not needed once the operations around them are loops.
- `private_arrays.py`: allocates in a parallel loop what only its iterations use.
- `reduction_chunks.py`: loops in chunks for threads, with partial results. `carried_reductions.py`: which loop-carried
  values are reductions. `loop_memory.py`: whether iterations are independent, and what they combine in memory.
- `tasks.py`: lists parallel loops and the serial parts between them.

`lowering/mlir_backend/llvm`, `lowering/spirv` and `lowering/bridge` may import it.
"""
