"""The functions of NumPy and torch that kernels refuse: the reason, and what to write instead."""

from __future__ import annotations

from mlirtri.dialect.spellings.base.spelling import REFUSED

_RANDOM = "it draws from a generator that all of NumPy shares, and a kernel depends on its arguments alone"
_DRAW = (
    "rng = numpy.random.default_rng(seed) in the kernel, then rng.random(shape); or draw outside and pass the numbers"
)
_EIGEN = "use eigh or eigvalsh for a Hermitian one, or compute them outside and pass them as an argument"

_RANDOM_FUNCTIONS = """
    rand randn randint random random_sample normal uniform choice shuffle permutation seed exponential
    poisson binomial beta gamma standard_normal ranf sample integers RandomState
    """

REFUSED |= {f"numpy.random.{name}": (_RANDOM, _DRAW) for name in _RANDOM_FUNCTIONS.split()}
REFUSED |= {
    f"{library}.linalg.{name}": ("eigenvalues of a matrix that is not Hermitian are not computed in kernels", _EIGEN)
    for library in ("numpy", "torch")
    for name in ("eig", "eigvals")
}
REFUSED |= {
    f"numpy.{name}": ("it calls Python for each element", "call the function on whole arrays")
    for name in ("vectorize", "apply_over_axes", "frompyfunc", "fromiter")
}
REFUSED |= {
    f"numpy.{name}": ("kernels read and write no files", "read before the call and write after it")
    for name in ("load", "loadtxt", "genfromtxt", "fromfile", "save", "savez", "savetxt")
}
_MEMORY = ("a kernel sees no addresses and strides", "read them before the call and pass them as arguments")
_GRADIENTS = ("a kernel computes no gradients by itself", "write them out, or use torch.compile(backend='mlirtri')")
_BYTES = ("kernels make no bytes of Python's", "write x.view(numpy.uint8)")
REFUSED |= {f"Tensor.{name}": _MEMORY for name in ("stride", "data_ptr", "storage_offset")}
REFUSED |= {f"Tensor.{name}": _GRADIENTS for name in ("backward", "requires_grad_")}
REFUSED |= {f"ndarray.{name}": _BYTES for name in ("tobytes", "tofile")}
_TORCH_DRAW = "draw outside and pass the numbers, or use numpy.random.default_rng(seed) in a kernel of NumPy arrays"
_RANDOM_OF_TORCH = """
    rand randn randint randperm rand_like randn_like randint_like normal bernoulli multinomial poisson manual_seed
    """
REFUSED |= {
    f"torch.{name}": ("it draws from a generator that all of torch shares", _TORCH_DRAW)
    for name in _RANDOM_OF_TORCH.split()
}
REFUSED |= {
    f"torch.nn.functional.{name}": ("it draws random numbers", "leave it out, or pass the mask as an argument")
    for name in ("dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout", "gumbel_softmax")
}
REFUSED |= {
    f"Tensor.{name}": ("it draws from a generator that all of torch shares", _TORCH_DRAW)
    for name in (
        "bernoulli multinomial bernoulli_ cauchy_ exponential_ geometric_ log_normal_ normal_ random_ uniform_".split()
    )
}
_WHOLE = ("kernels call functions with their tensors at once", "write the operation for the whole tensor, or a loop")
REFUSED |= {f"torch.{name}": _WHOLE for name in ("vmap", "func.vmap", "compile", "jit.script", "jit.trace")}
REFUSED |= {f"torch.{name}": _GRADIENTS for name in ("autograd.grad", "func.grad", "autograd.backward")}
