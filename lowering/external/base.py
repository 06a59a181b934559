"""What a kernel can name that is compiled elsewhere: the base of Relax's library and of TensorIR functions.

Takes the arguments of a call in a kernel. Gives the tensors of the `tri` operations that stand for the call. Imports
neither MLIR nor TVM until then. Refuses to be called outside of a kernel.
"""

from __future__ import annotations

from typing import Any, NoReturn

from mlirtri.errors import KernelError, KernelTypeError


class External:
    """A function, or a group of functions."""

    __name__ = "external"

    def member(self, name: str) -> Any:
        """What a kernel means by ``self.name``; raises `KernelError`."""
        raise KernelTypeError(f"{self.__name__} has no attribute {name!r} in a kernel")

    def emit(self, language: Any, arguments: list[Any], keywords: dict[str, Any]) -> Any:
        """The value of a call in a kernel: a `Tensor`, or a tuple of them; raises `KernelError`."""
        raise KernelTypeError(f"{self.__name__} is not a function")

    def __call__(self, *arguments: Any, **keywords: Any) -> NoReturn:
        raise KernelError(
            f"{self.__name__} is a function of kernels and was called outside of one",
            help="call it in a function decorated with @mlirtri.jit",
        )
