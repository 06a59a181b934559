"""The functions of NumPy and torch that kernels refuse: the reason, and what to write instead."""

from __future__ import annotations

from mlirtri.dialect.spellings.base.spelling import REFUSED


def _refuse(owner: str, names: str, reason: str, instead: str) -> None:
    for name in names.split():
        REFUSED.add(f"{owner}.{name}", (reason, instead))


_refuse(
    "numpy.random",
    """
    rand randn randint random random_sample normal uniform choice shuffle permutation seed exponential
    poisson binomial beta gamma standard_normal ranf sample integers RandomState
    """,
    "it draws from a generator that all of NumPy shares, and a kernel depends on its arguments alone",
    "rng = numpy.random.default_rng(seed) in the kernel, then rng.random(shape); or draw outside and pass the numbers",
)
_EIGEN = (
    "eigenvalues of a matrix that is not Hermitian are not computed in kernels",
    "use eigh or eigvalsh for a Hermitian one, or compute them outside and pass them as an argument",
)
_refuse("numpy.linalg", "eig eigvals", *_EIGEN)
_refuse("torch.linalg", "eig eigvals", *_EIGEN)
_PYTHON = "it calls Python for each element"
_refuse("numpy", "vectorize apply_over_axes frompyfunc fromiter", _PYTHON, "call the function on whole arrays")
_FILES = "kernels read and write no files"
_refuse(
    "numpy", "load loadtxt genfromtxt fromfile save savez savetxt", _FILES, "read before the call and write after it"
)
_MEMORY = ("a kernel sees no addresses and strides", "read them before the call and pass them as arguments")
_refuse("Tensor", "stride data_ptr storage_offset", *_MEMORY)
_GRADIENTS = ("a kernel computes no gradients by itself", "write them out, or use torch.compile(backend='mlirtri')")
_refuse("Tensor", "backward requires_grad_", *_GRADIENTS)
_refuse("torch", "autograd.grad func.grad autograd.backward", *_GRADIENTS)
_refuse("ndarray", "tobytes tofile", "kernels make no bytes of Python's", "write x.view(numpy.uint8)")
_TORCH_DRAW = (
    "it draws from a generator that all of torch shares",
    "draw outside and pass the numbers, or use numpy.random.default_rng(seed) in a kernel of NumPy arrays",
)
_refuse(
    "torch", "rand randn randint randperm rand_like randn_like randint_like normal bernoulli multinomial poisson "
    "manual_seed", *_TORCH_DRAW,
)  # fmt: skip
_refuse(
    "Tensor", "bernoulli multinomial bernoulli_ cauchy_ exponential_ geometric_ log_normal_ normal_ random_ uniform_",
    *_TORCH_DRAW,
)  # fmt: skip
_refuse(
    "torch.nn.functional", "dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout gumbel_softmax",
    "it draws random numbers", "leave it out, or pass the mask as an argument",
)  # fmt: skip
_WHOLE = ("kernels call functions with their tensors at once", "write the operation for the whole tensor, or a loop")
_refuse("torch", "vmap func.vmap compile jit.script jit.trace", *_WHOLE)
