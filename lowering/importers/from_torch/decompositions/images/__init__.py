"""Decompositions of ATen's operators on images: pools, samples at coordinates, changes of size.

*Takes* tensors of an operator in a trace, whose last axes are those of images. *Gives* what eager computes, in slices,
reads at indices and products. *Refuses* nothing: a rule returns `NotImplemented` and the operator stays. `table.py` of
the package around this one imports every module.

- `pools.py`: maxima and averages over windows
- `grid_samples.py`: elements at coordinates of a grid
- `resampling.py`: interpolation with filters that depend on the sizes alone, and of bytes
"""
