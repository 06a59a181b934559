"""Definitions of special functions, of which kernels and decompositions of imported programs each use the same one.

*Takes* a namespace of array functions, `numpy` or `torch`, and arrays of one float dtype. *Gives* what the library's
function returns. *Refuses* nothing: the caller checks dtypes, and rounds to the dtype that its library has.

In a kernel the frontend inlines them with `numpy`, whose functions are operations there. In a decomposition torch
traces them with `torch`. So a definition calls only functions, operators and methods that both have.

- `definitions.py`: gamma functions, the normal quantile, products by logarithms, Bessel functions; mantissas, exponents
  and neighbours of floats; Keys' filter.
- `bessel.py`: the other Bessel functions, and Airy's.

Imported by `lowering.frontend.library_functions`, and by `elementwise` and `images` of the decompositions.
"""
