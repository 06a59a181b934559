"""What kind of value a parameter of a library function takes, by the name that its library gives it.

`check_operands` is called where arguments are bound, so that no spelling is called with a text, a dtype or a list in
place of a number. Parameters that are not named here take other things (axes, shapes, modes), which their spellings
refuse.
"""

from __future__ import annotations

from inspect import BoundArguments
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlirtri.dialect.spellings.base.spelling import Argument, Builder, Value

_ARRAYS = frozenset(
    "A B a a1 a2 ar ary array arr b m v x x1 x2 y z xp fp f p prototype start stop input other tensor mat1 mat2 vec "
    "vec2 batch1 batch2 weights aweights fweights".split()
)
"""Tensors or numbers; of NumPy's functions also lists, which are arrays there."""
_TENSORS = frozenset("weight weights bias query attn_mask".split())
"""Tensors alone, of torch's functions."""
_NUMBERS = frozenset("alpha atol base beta d dx end nan negative_slope rtol start_or_stop step value".split())
_REALS = frozenset("ddof eps threshold".split())
_INTEGERS = frozenset("M N diagonal k length minlength n ndmin num offset steps".split())
_SEQUENCES = frozenset("arrays tensors tup".split())
"""Tuples or lists of tensors, or a tensor for those along its first axis."""
_SIZES = frozenset("sizes split_size_or_sections".split())
"""An integer or several."""


def check_operands(b: Builder, function: str, bound: BoundArguments) -> None:
    """Fail for an argument of a call that is not of the kind that its parameter takes, by the names above.

    A parameter takes its default besides; one whose default is a text takes no list.
    """
    for name, value in bound.arguments.items():
        parameter = bound.signature.parameters[name]
        if value is parameter.default or parameter.kind is parameter.VAR_POSITIONAL:
            continue
        wanted = _refusal(b, function, name, value, parameter.default)
        if wanted is not None:
            b.fail(f"{function}({name}=…) is {wanted}, not {value if b.type_of(value) is None else b.type_of(value)!r}")


def _refusal(b: Builder, function: str, name: str, value: Value, default: Argument) -> str | None:
    """Return what a parameter takes, where the value is no such thing; else None."""
    is_list, is_known = isinstance(value, (tuple, list)), b.type_of(value) is None
    if isinstance(default, str) or name == "ord":
        return "a text or a number" if is_list else None
    if name in _SEQUENCES:
        return "a tuple or list of tensors" if is_known and not is_list else None
    if name in _SIZES:
        parts = value if is_list else (value,)
        return "an integer or several" if any(b.type_of(x) is None and not _is_index(x) for x in parts) else None
    is_of_torch = function.startswith(("torch.", "Tensor."))
    if name in _TENSORS and is_of_torch and is_known:
        return "a tensor"
    if name in _NUMBERS or name in _REALS or name in _INTEGERS or (name in _ARRAYS and (is_of_torch or not is_list)):
        b.operand(value)
    if name in _REALS and isinstance(value, complex):
        return "a real number"
    return "an integer" if name in _INTEGERS and is_known and not _is_index(value) else None


def _is_index(value: Value) -> bool:
    return hasattr(type(value), "__index__")
