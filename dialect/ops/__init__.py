"""The op table: operands, attributes, results and lowerings of each function of the kernel language.

An entry of the table, an *op*, is a function of the language. Most are an operation ``tri.<name>`` of the dialect; a
*derived* op has none, and the frontend writes it with others.

*Takes* operand types and attributes. *Gives* an `Op` by name: its type rule, NumPy reference, scalar rule or
decomposition, and Relax operator. *Refuses* operands that do not fit, with `KernelTypeError` and `KernelValueError`.

Read in this order:

- `op.py`: `Op`, the fields of an entry.
- `elementwise.py`, `reductions.py`, `shapes.py`, `contractions.py`, `normalizations.py`, `indexing.py`, `arrays.py`
  (creation, scans, sorts, searches), `windows.py` (convolutions, pooling): the entries.
- `table.py`: `TABLE`, all entries by name.
- `attributes.py`: values of attributes to and from MLIR attributes.

`dialect`, the frontend, `lowering.linalg`, the bridge, the interpreter and the documentation pages may import it.
"""
