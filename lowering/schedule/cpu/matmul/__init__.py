"""The CPU rule for contractions: products of tensors in register tiles, with packed operands.

*Takes* a PrimFunc with one product (`tir.products`), or a `Contraction`. *Gives* a `Schedule`, or the statements of the
contraction, with elementwise producers in the copies of its operands and elementwise consumers on its tiles. *Refuses*
functions without a product, or with one too small for vectors, with None.

Read in this order:

- `rule`: from a PrimFunc to a contraction and back; which form is cheapest.
- `nest`: the loops around the tiles.
- `tile`: one tile, with its sums in registers.
- `packing`: copies of the operands in the order in which tiles read them.
- `column_sums`: products of a few rows, which read the right operand once.
- `dot_tile`: tiles whose lanes lie along the sum.
- `dot_products`: instructions for bf16 and int8.

`schedule.cpu.convolution`, `attention` and `loops`, `schedule.cuda` and `schedule.cpu` may import it.
"""
