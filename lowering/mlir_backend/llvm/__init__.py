"""`bufferized` to `llvmdialect` to `asm`: vectors, tiles and threads in MLIR, then LLVM compiles for the host CPU.

*Takes* a bufferized module.
*Gives* a module of the LLVM dialect, then machine code that is loaded in this process; or affine loops.
*Refuses* buffers above the memory limits, and what LLVM cannot translate or link.

Read in this order:

- `bufferized_to_llvmdialect.py`: the list of passes. `llvmdialect_to_asm.py`: LLVM compiles and loads.
- `bufferized_to_llvmdialect_upstream.py`: the stage of pipeline `upstream`, by upstream's passes alone.
- `bufferized_to_poly.py`: affine loops to read, in pipeline `poly` alone.
- `single_assignment.py`: one buffer per value, for `poly`, and whether its nests may be fused.
- `contraction_tiling.py`: contractions as tiles of vectors.
- `accumulated_products.py`, `loop_contractions.py`: products of imperative functions, as contractions to tile.
- `gathered_windows.py`, `window_views.py`: convolutions as contractions, by a matrix of windows or views of the image.
- `pairs.py`: products of narrow integers. `vector_transposes.py`: in-register transposes.
- `thread_chunks.py`: parallel loops as chunks for OpenMP's threads.
- `kept_loops.py`: outer loops that LLVM must not write out.
- `elementary.py`: exp, log, sin and others as arithmetic that LLVM vectorises.
- `allocations.py`: allocations out of loops; a failed allocation becomes an error.

`lowering/pipelines.py` and `mlirtri/compiler` may import it.
"""
