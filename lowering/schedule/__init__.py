"""tir → scheduled: a schedule for each PrimFunc, by rules that are tried in order.

*Takes* the module of stage `tir`, a target and a schedule option. *Gives* the module with loops, threads and vectors in
every PrimFunc. *Refuses*, by `CodegenError`, a PrimFunc that no rule takes. A rule that fails is skipped and reported.

Read in this order:

- `tir_to_scheduled.py`: the entry point; tries the rules.
- `cpu/`, `cuda/`: the rules of a target, in `rules` the tuple of them.
- `products/`: products of tensors and what is fused with them, for both targets.
- `imperative/`: analyses and rewrites of imperative functions, for both targets.
- `rows/`: the analysis behind row kernels (softmax, layer norm), for both targets.
- `meta/`: schedules that MetaSchedule finds by measuring.
- `fusable_forms.py`: what the rules take as one function, for the passes that make functions.

`lowering.relax`, `lowering.pipelines`, `compiler` and `measure` may import it.
"""
