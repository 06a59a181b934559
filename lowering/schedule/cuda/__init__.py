"""Schedule rules for CUDA: row kernels, scans, argmax and tensor cores of our own, TVM's Dlight for the rest.

*Takes* a PrimFunc and a target, with TVM's target in scope. *Gives* a `Schedule` bound to blocks and threads, or None
where a rule does not apply. *Refuses* nothing: the rule `OneThread` takes every function.

Read in this order:

- `rules`: the tuple of rules, and the check that a schedule can be launched.
- `phases`: kernels as phases between barriers; the vocabulary of the next three files.
- `rows`: row kernels.
- `scans`: prefix sums along an axis.
- `argmax`: reductions into several results.
- `matmul`: products of 16-bit floats and int8 on tensor cores; `operands` copies tiles into shared
  memory, `instructions` holds the instructions.

`schedule`, `schedule.meta` and `relax` may import it.
"""
