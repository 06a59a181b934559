"""Schedule rules for the CPU.

*Takes* a PrimFunc and our target. *Gives* the `Schedule` of the first rule of `cpu_rules.CPU_RULES` that fits.
*Refuses* nothing: the last rule takes every function.

Read `cpu_rules.py` first: it names the rules in the order in which they are tried. `product_chains.py` is the rule for
products with other work beside them. Then, one package per family of rules:

- `common/`: shared code.
- `matmul/`, `convolution/`, `attention/`: contractions, and chains of them.
- `nests/`: elementwise blocks, reductions and windows.
- `rows/`: blocks that share rows, such as softmax.
- `loops/`: imperative functions.

`schedule` may import it.
"""
