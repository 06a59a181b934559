"""Define what functions and operators of the kernel language mean, in `tri` operations.

Operands are cast as NumPy or torch would, axes and shapes normalised, operands of run-time sizes sliced to a common
size. *Refuses*, with an error message, what the library refuses.

Read in this order:

- `builder.py`: `Language`, one method per function; elementwise functions; checks at run time.
- `axes.py`: axes and other integers that are known while compiling; what is an index.
- `shapes.py`, `arrays.py`, `reductions.py`, `complex_numbers.py`: the other functions by topic, each ``name(b, …)``.
- `quotients.py`: remainders and quotients that differ between NumPy and torch.
- `dynamic_sizes.py`: run-time sizes and indices in linear form. `fixed_sizes.py`: those that arguments decide.
- `index_checks.py`: checks that indices are inside. `value_ranges.py`: the range of integers, which proves some.
- `storage.py`: the memory of arrays, and the view operations from it to a tensor.
- `container_values.py`: lists and dicts, and which of several names hold one.
- `strides.py`: whether a reshape of a view is a view. `memory_order.py`: how new arrays lie in memory.
- `pointers.py`: `match_buffer`, arrays with sizes and strides over the memory of a pointer.
- `merging.py`: the common type of a value after two branches, or of two iterations.
- `scf.py`: builders of `scf` operations around tensors.
- `debugging.py`: the log of `device_print`; `breakpoint()`.

Imported by `lowering.frontend`, its packages `library_functions` and `tile_language`, and `debugging` by
`lowering.interpreter`.
"""
