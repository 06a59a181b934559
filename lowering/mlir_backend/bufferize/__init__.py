"""`fused` to `bufferized`: tensors become memrefs by upstream's one-shot bufferization.

*Takes* a module of MLIR on tensors.
*Gives* the same functions over memrefs; results are arguments that they write, updated arguments are written in place.
*Refuses* what upstream's bufferization refuses.

Read in this order:

- `fused_to_bufferized.py`: the entry point, its passes and attributes.
- `destinations.py`: results are computed in their destination buffers, or in separate ones.
- `carried_buffers.py`: loop-carried tensors keep one buffer.
- `reuse.py`: fewer buffers and copies.
- `reshaped_updates.py`: arrays that are updated in another shape are not copied.
- `fused_to_bufferized_upstream.py`: the stage of pipeline `upstream`, by upstream's passes alone.
- `kernels.py`: how many kernels a function has, and what each reads, writes and computes.
- `timed_nests.py`: how long each kernel takes.

`lowering/mlir_backend/llvm`, `lowering/bridge`, `lowering/pipelines.py` and `mlirtri/measure` may import it.
"""
