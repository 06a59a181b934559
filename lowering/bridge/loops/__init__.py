"""Loops over memrefs to one imperative PrimFunc, statement by statement.

*Takes* a function in the loops form of `lowering/mlir_backend/loops`: scf, memref, arith, math.
*Gives* a PrimFunc of For, While, IfThenElse and BufferStore.
*Refuses* operations without a rule, all in one error.

Read in this order:

- `loops_to_primfunc.py`: the entry point.
- `function_translation.py`: the translation of one function and its table of rules; memory and complex values.
- `control_flow.py`: the rules of scf.
- `values.py`: which expression an SSA value is, and when it is evaluated.
- `memory.py`: the buffers behind memrefs and their views.
- `addresses.py`: index arithmetic, which does not wrap around.
- `size_symbols.py`: sizes known at run time as TVM's symbols.

`lowering/bridge` and `mlirtri/pages` may import it.
"""
