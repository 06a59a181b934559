"""Tile kernels on a GPU: loops over blocks whose statements work on tiles in shared memory and in registers.

*Takes* a PrimFunc with loops over blocks. *Gives* a `Schedule` bound to blocks and threads. *Refuses* with a
`KernelError` a tile that cannot be laid out in the registers of two uses, and more shared memory than there is.

Read in this order:

- `tile_programs.py`: the rule.
- `tile_statements.py`: the statements of a block. `tile_products.py`: its products.
- `fragments.py`: tiles in registers; `fragment_uses.py`: the statements that take them; `row_vectors.py`: numbers of
  each of their rows.
- `live_ranges.py`: a buffer for each live range.
- `atomic_updates.py`: updates of elements that iterations or blocks share.

`schedule.cuda` imports it.
"""
