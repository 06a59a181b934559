"""The CPU rule for contractions: products of tensors in register tiles, with packed operands.

*Takes* a PrimFunc with one product (`tir.products`), or a `Contraction`. *Gives* a `Schedule`, or the statements of the
contraction, with elementwise producers in the copies of its operands and elementwise consumers on its tiles. *Refuses*
functions without a product, or with one too small for vectors, with None.

Read in this order:

- `rule.py`: from a PrimFunc to a contraction and back; which form is cheapest.
- `nest.py`: the loops around the tiles.
- `tile.py`: one tile, with its sums in registers.
- `packing.py`: copies of the operands in the order in which tiles read them.
- `panels.py`: copies of the right operand, each made before the tiles that read it.
- `column_sums.py`: products of a few rows, which read the right operand once.
- `dot_tile.py`: tiles whose lanes lie along the sum.
- `matrix_tile.py`: tiles of bf16 in matrix registers.
- `dot_products.py`: instructions for bf16 and int8.

What is fused with a product is found by `schedule.products`. `schedule.cpu.convolution`, `attention` and `loops`,
`schedule.cpu` and `schedule` may import it.
"""
