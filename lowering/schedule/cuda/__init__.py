"""Schedule rules for CUDA: row kernels, scans, argmax and tensor cores of our own, TVM's Dlight for the rest.

*Takes* a PrimFunc and a target, with TVM's target in scope. *Gives* a `Schedule` bound to blocks and threads, or None
where a rule does not apply. *Refuses* nothing: the rule `OneThread` takes every function.

Read in this order:

- `cuda_rules.py`: the tuple of rules, and the check that a schedule can be launched.
- `common/`: kernels as phases between barriers, instructions, copies of tiles.
- `rows.py`: row kernels.
- `scans.py`: prefix sums along an axis.
- `argmax.py`: reductions into several results, such as a maximum and its index.
- `elementwise.py`: elementwise kernels with vector loads and stores; transposes through tiles in shared memory.
- `tensor_cores/`: products of tensors, on tensor cores or in registers.
- `product_blocks.py`: products of imperative functions, as loops over blocks that `tiles/` maps.
- `element_loops.py`: imperative functions, a launch for each parallel loop; `largest_sizes.py` bounds its sizes,
  `row_blocks.py` gives long rows a block of threads each.
- `tiles/`: tile kernels, and updates of elements that blocks share.

`schedule` and `schedule.meta` may import it.
"""
