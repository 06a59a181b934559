"""TIR passes of ours that run before, within or after TVM's lowering of TIR.

*Takes* and *gives* a PrimFunc. *Refuses* nothing.

In the order in which they run:

- `buffers.py`, `source_spans.py`: before TVM's passes: tensors of any alignment, small buffers on the stack, lines for
  the assembly.
- `arithmetic.py`: within them: no fused multiply-add where the source rounds twice, indices narrowed without overflow,
  integers that wrap.
- `argument_checks.py`, `even_tasks.py`, `streaming_stores.py`: after them, on host functions: what a call checks, tasks
  of parallel loops, stores that bypass the caches.

Only `codegen` imports it.
"""
