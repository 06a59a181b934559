"""Scalar arithmetic of imported programs, defined for all operands and on types that memory has.

*Takes* operations of `arith` and `math` on scalars. *Gives* operations that every pipeline has, with NumPy's and
torch's results where MLIR leaves them undefined. *Refuses* operations on odd integer widths without a rule.

- `total_arithmetic.py`: the step, its table of rules, and builders that they share
- `integers.py`, `floats.py`: the rules, which importing these files registers
- `odd_integers.py`: i4, i24, i48 in the next wider type
- `float8.py`: conversions of 8-bit floats

Imported by `normalize` and the coverage page only.
"""
