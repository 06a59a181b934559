"""torch programs (torch.fx graphs of ATen operators) to linalg, through torch-mlir's importer and lowering.

*Takes* a `TorchGraph`: a graph without state, and the names of the placeholders that are bound to tensors. *Gives*
linalg on tensors in the normal form of `importers/normalize`. *Refuses* operators that torch-mlir does not lower, all
at once, each with the user's line. Before the import, `tracing` and `decompositions` take part in torch's export, and
`graph_passes` rewrite its result. `mlirtri/programs/torch_programs` and `importers/from_onnx` import this package.

- `graph_to_torch.py`: torch.fx to the torch dialect
- `control_flow.py`: `torch.cond`, and captured tensors of `torch.while_loop`
- `kernel_calls.py`: operators that are kernels in Python, as calls of functions in linalg
- `library_kernels.py`: such operators of the kernels' library, which decompositions call
- `torch_to_linalg.py`: the torch dialect to linalg; it runs the three rewrites below
- `repairs.py`: loops and operators that torch-mlir lowers incorrectly
- `unsigned_integers.py`: unsigned arithmetic in wider signed integers
- `checks.py`: assertions on indices and divisors, which eager makes
- `refused.py`: finds all operators without a lowering
- `builder.py`: building operations of the torch dialect
- `decomposition_rules.py`: the tables of `decompositions/` and the decorators that register its rules
"""
