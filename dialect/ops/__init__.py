"""The op table: operands, attributes, results and lowerings of each function of the language.

*Takes* operand types and attributes. *Gives* an `Op` by name: its type rule, NumPy reference, scalar rule or
decomposition, and Relax operator. *Refuses* operands that do not fit, with `KernelTypeError` and `KernelValueError`.

Read in this order:

- `op.py`: the fields of a row.
- `elementwise.py`, `reductions.py`, `shapes.py`, `contractions.py`, `normalizations.py`, `indexing.py`, `arrays.py`
  (creation, scans, sorts, searches), `windows.py` (convolutions, pooling): the rows.
- `table.py`: `TABLE`, all rows by name.
- `attributes.py`: attribute values to and from MLIR.

`dialect`, the frontend, `lowering.linalg`, the bridge, the interpreter and the documentation pages may import it.
"""
