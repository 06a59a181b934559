"""The analysis of row kernels, PrimFuncs such as softmax and layer norm.

A row kernel has several blocks that share axes, the rows: it reduces each row along the other axes, and traverses it
again. It is computed row by row, so that memory is read once.

*Takes* a PrimFunc before it is scheduled. *Gives* a `RowPlan`, and the base class that writes its loops. *Refuses*, by
`NotRows` with an `Obstacle`, blocks that are no plain loop nests of static extents or share no rows.

Read in this order:

- `nests.py`: blocks as `BlockNest`s.
- `shared_axes.py`: the axes that all nests share (`Rows`).
- `plan.py`: how many passes over a row, and which values are kept between passes.
- `writer.py`: expressions of a nest over the memory of a kernel; subclasses for CPU and CUDA say what memory that is.

`schedule.cpu.rows`, `schedule.cpu.attention`, `schedule.cuda`, `schedule` and `relax` may import it.
"""
