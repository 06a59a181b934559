"""`External`: the base class of functions that kernels call and that are compiled elsewhere.

Takes the arguments of a call in a kernel. Gives the tensors that the call returns. Imports neither MLIR nor TVM before.
Refuses to be called outside of a kernel.
"""

from __future__ import annotations

from typing import Any, NoReturn

from mlirtri.errors import KernelError, KernelTypeError


class External:
    """A function that kernels call, or a group of such functions."""

    __name__ = "external"

    def member(self, name: str) -> Any:
        """Return ``self.name`` in a kernel; raise `KernelError` where there is none."""
        raise KernelTypeError(f"{self.__name__} has no attribute {name!r} in a kernel")

    def emit(self, language: Any, arguments: list[Any], keywords: dict[str, Any]) -> Any:
        """Emit a call in a kernel and return a `Tensor`, or a tuple of them; raises `KernelError`."""
        raise KernelTypeError(f"{self.__name__} is not a function")

    def __call__(self, *arguments: Any, **keywords: Any) -> NoReturn:
        raise KernelError(
            f"{self.__name__} is a function of kernels and was called outside of one",
            help="call it in a function decorated with @mlirtri.jit",
        )
