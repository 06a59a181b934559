"""Lower Relax to TIR (relax → tir): TVM's own passes in order, and ours around them.

*Takes* a module with one Relax function of operators and `call_tir`. *Gives* a module whose Relax function only calls
PrimFuncs, each as many operators as fuse. *Refuses* operators that TVM cannot legalise, on the user's line.

Read in this order:

- `relax_to_tir.py`: the list of passes.
- `legalized.py`: passes on the PrimFuncs that LegalizeOps makes, before anything is fused.
- `product_operands.py`: transposes and casts folded into the products that read them.
- `row_fusion.py`: calls merged into row kernels and attention; `call_merging.py` makes one PrimFunc of several.
- `packed_weights.py`: weights packed for the products that read them, and other values of bound tensors alone, which
  are computed once, when the tensors are bound.
- `product_joining.py`: products joined with products and elementwise calls that read them.
- `explain_calls.py`: why two calls were fused or not.

`lowering.interpreter`, `lowering.pipelines` and `kernels` may import it.
"""
