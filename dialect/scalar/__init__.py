"""Scalar rules: elementwise operations on one element, as `arith`, `math` and `complex` operations.

*Takes* `Scalar` values: an MLIR scalar with its dtype. *Gives* the scalars that the body of a `linalg.generic` yields.
*Refuses* nothing: the op table has checked the dtypes.

Read in this order:

- `algebra.py`: arithmetic, comparisons and casts, defined for all operands.
- `complex_parts.py`: complex arithmetic and comparison for the algebra.
- `functions.py`: the scalar rule of every elementwise operation on real values.
- `complex_arithmetic.py`: division, powers, roots, exponentials and logarithms of complex values.
- `complex_functions.py`: trigonometric and hyperbolic functions; the scalar rules on complex values.

`dialect.ops`, `lowering.linalg`, `lowering.mlir_common` and the importers' `normalize` may import it.
"""
