"""TIR passes that TVM lacks, which run before, within or after its own lowering of TIR.

*Takes* and *gives* a PrimFunc or a module of them. *Refuses* nothing.

- `host_functions.py`: around TVM's passes: tensors of any alignment, small buffers on the stack, tasks of parallel
  loops.
- `repeated_statements.py`: before them: statements that a function repeats, as functions that it calls.
- `descending_indices.py`: before them: quotients and rests of descending indices by ascending ones.
- `argument_checks.py`: after them: what a function checks of the tensors that it is given. `field_words.py`: their
  fields compared eight bytes at a time.
- `source_locations.py`: before them: lines for the assembly; after them: `#line` in CUDA source.
- `arithmetic.py`: within them: no fused multiply-add where the source rounds twice, indices narrowed without overflow,
  integers that wrap.
- `exact_doubles.py`: before and after CUDA source is printed: float64 constants to the last bit.
- `streaming_stores.py`: after them: stores that bypass the caches.

Only `codegen` imports it.
"""
