"""Spellings: the functions, methods and attributes of NumPy, torch, `math` and mlirtri, written with table ops.

A spelling is the name under which a library has a function (`numpy.sum`, `torch.sum`, `Tensor.sum`), with what a call
of it means: its signature, and the table ops that compute it.

*Takes* the name of a library function, or the function itself. *Gives* a `Spelling`, which is called with a builder and
the arguments of the call. *Refuses* arguments that do not bind and parameters that are not supported.

Read in this order:

- `base/`: what a spelling is, how it is registered, helpers.
- `numpy_api/`, `torch_api/`: the functions of each library.
- `kernel_api/`: methods of arrays and tensors, `math`, `cmath`, `mlirtri.*`, updates in place.
- `registry.py`: imports all of them; lookup by name and by identity.

The frontend, `mlirtri` and the documentation pages may import it. It loads neither torch nor MLIR.
"""
