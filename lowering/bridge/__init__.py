"""`fused` or `tri` to `relax`: the one place where MLIR becomes Relax and TIR.

*Takes* a module of MLIR on tensors: func, linalg, tensor, arith, math, scf, complex, or `tri`.
*Gives* a Relax module: straight-line code as bindings that call PrimFuncs or Relax operators, functions with loops and
updates as one imperative PrimFunc. Names of variables and source locations survive.
*Refuses* operations without a rule, all in one error, before anything is translated.

Read in this order:

- `fused_to_relax.py`, `tri_to_relax.py`: the two entry points; one Relax function per `func.func`.
- `builder.py`: the state of a translation and its table of rules.
- `structured.py`, `tensor_rules.py`, `external_rules.py`: the rules of linalg and arith, tensor, external calls.
- `imperative_to_relax.py`: a function with loops, branches or writes in place as one call of an imperative PrimFunc,
  one with the attribute `mlirtri.imperative`.
- `external_bodies.py`: what such a function calls of Relax and TensorIR is compiled with it.
- `outlining.py`: loops between straight-line code to functions of their own.
- `unread_results.py`: drops results of `linalg.generic` that nobody reads.
- `scalar/`: operations on scalars to TIR expressions. `loops/`: loops over memrefs to TIR statements.

`lowering/pipelines.py`, the interpreter, `mlirtri/kernels` and `mlirtri/pages` may import it.
"""
