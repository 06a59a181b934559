"""The functions of `mlirtri.tile` on values, and the loops of tile kernels in the syntax tree.

*Takes* operands that are lowered already, and the `Language` of the function. *Gives* `tri` operations in place: a tile
is an array of compile-time shape with memory. *Refuses* operands that do not fit, with both shapes and, for tiles, the
lines of their allocations.

Read in this order:

- `loop_nests.py`: a `for` per axis of a grid, before anything is lowered.
- `allocation.py`: allocation of tiles, and what is known of each: its memory space and its line.
- `copies.py`: regions of arrays, `copy` and `atomic_add` of tiles, whose parts out of bounds are left out.
- `guards.py`: elements out of bounds, which read zero and are not written.
- `reductions.py`: `gemm`, reductions and prefix sums.
- `elements.py`: functions of elements, casts, sizes.
- `function_table.py`: the table of all functions by name.

`lowering.frontend` may import it.
"""
