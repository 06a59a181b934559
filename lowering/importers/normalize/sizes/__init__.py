"""Dynamic shapes of imported programs: sizes as arithmetic on the arguments' sizes, accesses in bounds.

*Takes* a function on tensors with `?` in its types, and shapes to specialise it for. *Gives* it with every size static
or computed from the arguments' sizes where that is possible, and run-time checks where it is not. *Refuses* shapes that
contradict the types, and reshapes to a dynamic rank.

- `infer_sizes.py`: the step; it calls the others in this order
- `shape_elements.py`: elements of shape tensors → scalar arithmetic
- `reshapes.py`: dynamic `tensor.reshape` → `tensor.collapse_shape` and `tensor.expand_shape`
- `guards.py`: assertions and clamped bounds of slices and structured operations
- `bounded_results.py`: results of data-dependent size → tensors of the largest size, and their sizes

Imported by `normalize` only.
"""
