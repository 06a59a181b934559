"""Decompositions of ATen operators into those that torch-mlir lowers correctly, applied by torch.export and
AOTAutograd.

*Takes* operands of an operator in a trace. *Gives* what eager computes, in other operators. *Refuses* nothing: a rule
returns `NotImplemented`, the operator stays, and torch-mlir lowers or refuses it. `graph_passes` and
`mlirtri/programs/torch_programs` import this package.

- `table.py`: the whole table, as torch takes it; rank-0 operands and assertions
- `decomposed_programs.py`: exported programs, with the table applied
- `elementwise/`: arithmetic, comparisons, bits, special functions of real numbers
- `complex_numbers/`: complex operands; `unsigned_tensors.py`: results of uint16 and uint64
- `reductions.py`, `order_statistics.py`, `unique_elements.py`, `counting.py`: reductions, scans, sorting
- `random_numbers.py`: draws that depend on elements
- `views.py`, `indexing.py`: shapes, reads and writes
- `matrices/`: products, factorizations, eigenvalues, norms, mixtures of experts, Fourier transforms
- `images/`: pools, samples at coordinates, changes of size
- `networks/`: layers, attention, losses, quantisation
- `foreach.py`: lists of tensors, which optimizers update
"""
