"""Elements of arrays by index: what ``a[i]`` reads and what ``a[i] = x`` writes.

*Takes* a builder, an array and an index whose parts are evaluated. *Gives* a view, a new array or a scalar; or the
write. *Refuses* indices that are out of bounds and writes to what has no memory.

- `slices.py`: basic indices: integers, slices and None.
- `reads.py`: reading by basic indices, integer arrays and masks.
- `writes.py`: writing by the same.
- `sequences.py`: elements of tuples and lists at a position of run time.

`lowering.frontend` may import it. It knows neither the syntax tree nor the context of a function.
"""
