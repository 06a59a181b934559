"""Products that both targets' rules compute in tiles: what is around them, and what of it is fused.

*Takes* a product of `tir.product_recognition`, in SBlocks or among statements. *Gives* a `Contraction` with its fused
producers and consumers, and the function with the target's statements in their place. *Refuses* with None, where the
target has no statements.

Read in this order:

- `surroundings.py`: the elementwise SBlocks that are fused with a product.
- `block_products.py`: products of SBlocks.
- `statement_products.py`: products among the loops of imperative functions.
- `packed_weights.py`: the layout of weights that are packed once, before all calls.

`schedule.cpu`, `schedule.cuda` and `relax` import it.
"""
