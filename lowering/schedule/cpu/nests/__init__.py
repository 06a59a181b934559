"""CPU loops for one block: elementwise work, reductions, argmax, sliding windows.

*Takes* a `FlatNest` (`cpu.common.nest`): a block's statements over flat memory. *Gives* the TIR statements of its
parallel, serial and vectorised loops, or None where no form here fits. *Refuses*, by `DivergentLanesError`, statements
whose condition differs between the lanes of a vector.

Read in this order:

- `elementwise.py`: blocks without reduction; axes split where conditions change; lanes interleaved from several
  operands.
- `reductions.py`: one reduction; chooses among the forms below.
- `accumulators.py`: the scalar buffers that a reduction runs in, and how partial results combine.
- `accumulator_dtypes.py`: dtypes of these buffers that differ from the results'.
- `row_extrema.py`: max, min, argmax and argmin of a row; `argmax_kinds.py` recognises the latter.
- `wide_sums.py`: sums of fp32 in fp64, along rows and down columns.
- `windows.py`: pooling, stencils, depthwise convolution.

`schedule.cpu` and `schedule.cpu.rows` may import it.
"""
