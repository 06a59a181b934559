"""The CPU rule for attention: two matrix products with row kernels between them, a block of rows at a time.

*Takes* a PrimFunc of plain nests. *Gives* a `Schedule` in which the scores of a block of rows stay in the second-level
cache. *Refuses* with None any other function, and rows too long for that.

Read in this order:

- `chains.py`: matches attention as a `Chain` of a product, row kernels and a product.
- `masks.py`: the columns that a mask hides from a whole block of rows, and when they may be skipped.
- `rule.py`: the loops.

`schedule.cpu` and `relax` may import it.
"""
