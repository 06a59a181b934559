"""Dtype promotion: the dtypes in which an operation computes and of its result, by NumPy's or torch's rules.

*Takes* the semantics (``numpy`` or ``torch``), the name of an operation, and an `Operand` per operand. *Gives* a
`Plan`. *Refuses* the dtypes that the library refuses. Loads neither library.

Read in this order:

- `dtype_rules.py`: the entry point, and what both libraries share.
- `plan.py`: operands and plans.
- `numpy_rule.py`, `torch_rule.py`: one library each.
- `tables.py`: the libraries' tables, which tests compare with the libraries.

`dialect.spellings`, `lowering.frontend.semantics` and `mlirtri` may import it.
"""
