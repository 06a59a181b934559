"""What kernels call besides functions of NumPy and torch: methods, `math`, `cmath`, `mlirtri.*`.

*Takes* a builder and the arguments of a call; for a method the tensor first. *Gives* tensors, Python values, or tuples.
*Refuses* what the method refuses.

Read in this order: `methods.py` (of arrays and tensors), `in_place.py` (methods that write), `math_functions.py`,
`complex_numbers.py` (parts, conjugates, angles, `cmath`), `mlirtri_functions.py`.

Only `spellings/registry.py` imports it.
"""
