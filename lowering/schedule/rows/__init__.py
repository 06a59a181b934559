"""Row kernels: several blocks that reduce rows and go along the same rows again, such as softmax and layer norm.

*Takes* a PrimFunc before it is scheduled. *Gives* a `RowPlan`, and the base class that writes its loops. *Refuses*, by
`NotRows` with an `Obstacle`, blocks that are no plain loop nests of static extents or share no rows.

Read in this order:

- `nests`: blocks as `Nest`s, and the axes that all of them share (`Rows`).
- `reducers`: the term and the combining operation of a reduction.
- `plan`: how many passes over a row, and which values are kept between passes.
- `writer`: expressions of a nest over the memory of a kernel; subclasses for CPU and CUDA say what memory that is.

`schedule.cpu.rows`, `schedule.cpu.attention`, `schedule.cuda` and `relax` may import it.
"""
