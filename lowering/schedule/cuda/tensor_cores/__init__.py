"""Products of tensors on a GPU: 16-bit floats and int8 on tensor cores, fp32 in registers.

*Takes* a PrimFunc with a product (`tir.products`), or a product inside of a block. *Gives* a `Schedule`, or statements.
*Refuses* products of other dtypes and of few elements, with None.

Read in this order:

- `matmul.py`: the rule for 16-bit floats and int8.
- `tensor_core_kernel.py`: the kernel around the instructions of a warp; `warpgroup_kernel.py`: that of sm_90a.
- `operands.py`: copies of tiles into shared memory. `product_results.py`: stores of the sums.
- `register_tiles.py`: the rule for fp32, with sums of each thread in registers.
- `products_in_blocks.py`: products inside of a block that does more.

`schedule.cuda` and `schedule.cuda.tiles` import it.
"""
