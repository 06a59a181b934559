"""Rewrites of exported torch.fx graphs into what torch-mlir's importer takes.

*Takes* the graph of a `torch.export.ExportedProgram`. *Gives* it, changed in place. *Refuses* writes at a
data-dependent number of indices with an unknown number of values (`masked_writes.py`), and the bits of complex32.

`mlirtri/programs/torch_programs/graphs.py` runs them in this order, the first before torch decomposes the graph;
`from_stablehlo` runs some, on LAPACK's routines:

- `half_complex.py`: complex32 in complex64
- `masked_writes.py`: common subexpressions of `nonzero`, so that sizes agree
- `items.py`: Python arithmetic on results of `item()`, computed on rank-0 tensors instead
- `python_numbers.py`: arithmetic on sizes and Python numbers
- `dynamic_views.py`: views with several dynamic sizes
- `joined_parts.py`: joins of all the equal parts of a tensor, as a permutation of axes
- `known_results.py`: rounded quotients of integer constants, and tensors without elements
"""
