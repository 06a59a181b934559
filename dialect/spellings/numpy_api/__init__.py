"""The functions of `numpy`, with NumPy 2's signatures, defaults and results.

*Takes* a builder and the arguments of a call. *Gives* tensors of the builder, Python values, or tuples.
*Refuses* what the function refuses, and parameters that mlirtri does not support.

One file per kind of function: `ufuncs.py` (and their methods, ``np.add.outer``), `reductions.py`, `statistical.py`,
`quantiles.py`, `composed_functions.py` (functions composed of ufuncs), `arrays.py` and `shapes.py` (axes, joining,
padding), `creation.py`, `sequences.py` (scans, sorts, histograms), `positions.py` (take, gather, grids of indices),
`selection.py` (nonzero, unique, choose), `products.py` (einsum, tensordot, cross), `linear_algebra.py`, `fourier.py`,
`refused.py` (what kernels refuse, and why). Read `ufuncs.py` first.

`torch_api` and `kernel_api` share some of its functions; otherwise only `spellings/registry.py` imports it.
"""
