"""The CPU rule for imperative functions: the loops that a user wrote, parallelised, vectorised and tiled.

An imperative function is a PrimFunc of statements, with loops, branches and stores, instead of one SBlock per tensor.

*Takes* a PrimFunc with the attribute ``mlirtri.imperative`` (`bridge.loops`). *Gives* a `Schedule` of the same function
with other loops. *Refuses* other functions with None; a loop that is not proven independent keeps its order.

Read in this order:

- `rule.py`: the scheduler, from the outermost loop on. The analyses of loops are in `schedule.imperative`.
- `prefetches.py`: the next row is fetched where several passes go over each.
- `carried_reductions.py`: partial results of reductions that a loop carries.
- `checked_reductions.py`: sums and extrema in a fast version, and in the exact one where its result is in doubt.
- `row_groups.py`: several rows of open length at once, where all that is done with a row is to reduce it.
- `first_index.py`: searches for the first index with a property.
- `in_range_branches.py`: branches past the bounds checks of loaded indices, in scalar loops.
- `transposed_loops.py`: loops whose loads and stores are contiguous along different loops.
- `dynamic_products.py`: matrix products of dynamic sizes as contractions.
- `nested_products.py`: those of static sizes in loops.
- `named_products.py`: names for products of sizes in indices, so that strides are known.
- `column_strips.py`: sums over rows, for all columns; `narrow_columns.py`: those in fp64 that are read as fp32.
- `clipped_tiles.py`: tile kernels whose last blocks and steps reach over an edge: loops of their own for those.
- `shared_copies.py`: copies of operands that several iterations of a parallel loop read.
- `convolutions.py`: convolutions of a dynamic number of images.

`schedule.cpu` may import it.
"""
