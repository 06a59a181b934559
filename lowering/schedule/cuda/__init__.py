"""Schedule rules for CUDA: row kernels, scans, argmax and tensor cores of our own, TVM's Dlight for the rest.

*Takes* a PrimFunc and a target, with TVM's target in scope. *Gives* a `Schedule` bound to blocks and threads, or None
where a rule does not apply. *Refuses* nothing: the rule `OneThread` takes every function.

Read in this order:

- `cuda_rules.py`: the tuple of rules, and the check that a schedule can be launched.
- `phases.py`: kernels as phases between barriers, with which the next three files write theirs.
- `rows.py`: row kernels.
- `scans.py`: prefix sums along an axis.
- `argmax.py`: reductions into several results, such as a maximum and its index.
- `elementwise.py`: elementwise kernels with vector loads and stores; transposes through tiles in shared memory.
- `matmul.py`: products of 16-bit floats and int8 on tensor cores; `tensor_core_kernel.py` writes them, `operands.py`
  copies tiles into shared memory, `product_results.py` stores the sums, `instructions.py` holds the instructions.
  `warpgroup_kernel.py`: those of sm_90a. `register_tiles.py`: products of fp32.
- `product_blocks.py`: products of imperative functions, as loops over blocks that `tile_programs.py` maps.
- `element_loops.py`: imperative functions, a launch for each parallel loop; `largest_sizes.py` bounds its sizes,
  `row_blocks.py` gives long rows a block of threads each. `atomic_updates.py`: updates of elements that iterations or
  blocks share, as the functions of `atomic_calls.py`.
- `tile_programs.py`: tile kernels; `tile_statements.py`, `tile_products.py`: the statements and products of a block,
  `products_in_blocks.py` writes these. `fragments.py`: tiles in registers, `fragment_uses.py`: the statements that take
  them, `row_vectors.py`: numbers of each of their rows. `whole_copies.py`: copies of tiles that reach over an array's
  edge, `live_ranges.py`: a buffer for each live range.

`schedule` and `schedule.meta` may import it.
"""
