"""TIR analysis and construction, shared by `bridge`, `relax`, `schedule` and `codegen`.

*Takes* and *gives* PrimFuncs, blocks, statements and expressions of TIR. *Refuses*, by `NotApplicableError`, what a
schedule rule cannot take. Knows no schedule and no stage.

Read in this order:

- `statements.py`: indices, sequences, copies with fresh names, small buffers.
- `primfunc.py`: a PrimFunc of one loop nest around one block.
- `blocks.py`: facts of the blocks of a PrimFunc; errors of rules that do not apply.
- `linear_forms.py`: index expressions as sums of variables.
- `product_recognition.py`, `contraction.py`: blocks that are products of tensors, as data.
- `padded_images.py`: images of convolutions that are padded where they are read.
- `reducers.py`: the term of a reduction, and how partial results combine.
- `tiles.py`, `vectors.py`: loops over tiles; vector loads and stores, prefetches.
- `arithmetic.py`, `bfloat16_storage.py`: arithmetic that TVM's simplifier must not change; bf16 in 16 bits.

All packages of the TVM section, and `lowering/elementary`, may import it.
"""
