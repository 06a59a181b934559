"""TIR analysis and construction, shared by `bridge`, `relax`, `schedule` and `codegen`.

*Takes* and *gives* PrimFuncs, blocks, statements and expressions of TIR. *Refuses*, by `NotApplicableError`, what a
schedule rule cannot take. Knows no schedule and no stage.

Read in this order:

- `statements`: indices, sequences, copies with fresh names, small buffers.
- `primfunc`: a PrimFunc of one loop nest around one block.
- `blocks`: facts of the blocks of a PrimFunc; errors of rules that do not apply.
- `linear_forms`: index expressions as sums of variables.
- `products`, `contraction`: blocks that are products of tensors, as data.
- `tiles`, `vectors`: loops over tiles; vector loads and stores, prefetches.
- `arithmetic`, `bfloat16_storage`: arithmetic that TVM's simplifier must not change; bf16 in 16 bits.

All packages of the TVM section may import it.
"""
