"""The syntax and the builtins of Python that kernels do not have, and what to write instead.

`context.visit` raises the errors for syntax, `Scope.read` those for builtins. A node class that stands in neither table
and has no handler is refused without a suggestion.
"""

from __future__ import annotations

INSTEAD_OF_SYNTAX: dict[str, str] = {
    "AsyncFor": "write whole-tensor operations",
    "Try": "exceptions are not supported: check arguments before the call",
    "TryStar": "exceptions are not supported: check arguments before the call",
    "AsyncWith": "leave context managers outside of the kernel",
    "Global": "pass the value as an argument and return the new one",
    "Nonlocal": "pass the value as an argument and return the new one",
    "Import": "import at the top of the file",
    "ImportFrom": "import at the top of the file",
    "AsyncFunctionDef": "define helper functions at the top of the file",
    "ClassDef": "a kernel has no classes",
    "Match": "patterns are values, sequences and names; use if and elif for others",
    "TypeAlias": "a kernel has no type aliases",
    "Yield": "return a tuple, or write into an array",
    "YieldFrom": "return a tuple, or write into an array",
    "Await": "write a plain call",
}
"""By class of `ast` node: the end of the error message."""
NAMES_OF_SYNTAX: dict[str, str] = {
    "Try": "`try`", "TryStar": "`try`", "Import": "`import`", "ImportFrom": "`import`",
    "Global": "`global`", "ClassDef": "a class", "Match": "`match`", "Yield": "`yield`",
    "YieldFrom": "`yield`", "Await": "`await`", "AsyncFor": "`async for`", "AsyncWith": "`async with`",
    "AsyncFunctionDef": "an async function", "TypeAlias": "a type alias",
}  # fmt: skip
"""By class of `ast` node: what Python's users call it."""

_TEXT = "an f-string makes text of what is known at compile time"
_ATTRIBUTE = "write the attribute itself, such as x.shape"
INSTEAD_OF_BUILTINS: dict[str, str] = {
    "print": "mlirtri.device_print(…) prints after the call, in a kernel of jit(debug=True); "
    "mlirtri.static_print(…) prints while compiling",
    "open": "read files before the call and write them after it",
    "input": "pass it as an argument",
    "sorted": "write numpy.sort(x)",
    "iter": "write a `for` loop",
    "next": "write a `for` loop",
    "type": "compare x.dtype or x.ndim",
    "set": "use a tuple",
    "exit": "write return",
    "quit": "write return",
    "super": "a kernel is a function of tensors alone",
    **dict.fromkeys(("str", "repr", "format", "ascii", "chr", "ord"), _TEXT),
    **dict.fromkeys(("getattr", "hasattr", "setattr", "vars", "dir"), _ATTRIBUTE),
}
"""By name of a builtin."""
INSTEAD_OF_OTHER_BUILTINS = "call it outside of the kernel and pass what it gives as an argument"
