"""CPU row kernels: softmax, layer norm and other functions that reduce rows and traverse them again.

*Takes* a PrimFunc of several blocks. *Gives* a `Schedule` in which each row is finished while it is in cache. *Refuses*
with None blocks without shared rows, and rows longer than half of the second-level cache.

Read in this order:

- `rule.py`: which functions, and the parallel loop over rows.
- `row_loops.py`: the statements of one row, in vectors along it.
- `columns.py`: several rows at once, where rows are neighbours in memory.
- `block_sums.py`: fp64 sums whose blocks are added in fp32.

`schedule.cpu`, `schedule.cpu.attention`, `schedule.cuda` and `relax` may import it.
"""
