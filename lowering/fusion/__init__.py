"""`linalg` → `fused`: upstream's elementwise fusion, and rewrites that let it fuse more or cost less.

*Takes* a module of one function of linalg on tensors. *Gives* the same dialects with fewer, larger operations.
*Refuses* nothing.

- `linalg_to_fused.py`: the stage, a list of passes, with small rewrites; it calls the others in this order
- `linalg_to_fused_upstream.py`: the stage of pipeline `upstream`, by upstream's passes alone
- `transposed_convolutions.py`: convolutions of dilated images → dense ones
- `widened_products.py`: products of widened copies → products of 16-bit floats
- `channels_last.py`: convolutions between transposes
- `hoist_invariants.py`: what no iteration changes → before the loop
- `cheap_producers.py`: cheap operations of dynamic size, once per reader
- `slices_of_heads.py`: slices of columns that are then split → slices of heads
- `flatten_batches.py`: products of a batch with one matrix → one product
- `merge_products.py`: products of one matrix with several weights
- `cancel_reshapes.py`: reshapes of dynamic sizes that undo each other
- `spread_reshapes.py`: reshapes that are undone after several readers
- `cost_guard.py`: producers that must not fuse
- `explain_operations.py`: why two operations fused, or did not

Imported by `lowering/pipelines.py`, `mlirtri/kernels`, and for its names by MLIR's bufferization.
"""
