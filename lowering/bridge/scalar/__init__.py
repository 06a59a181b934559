"""Operations on scalars to TIR: arith and math on single elements, with their exact semantics.

*Takes* an operation, or the block of a linalg operation, and its operands as TIR expressions.
*Gives* TIR expressions and statements, spelled so that TVM's simplifier cannot change their value.
*Refuses* operations without a scalar rule.

Read in this order:

- `scalar_rules.py`: the table of rules, helpers that they share, and the rules of conversions.
- `integers.py`, `floats.py`: the rules of arithmetic.
- `body.py`: the body of a linalg operation to one statement.

`lowering/bridge`, `lowering/bridge/loops` and `lowering/relax` may import it.
"""
