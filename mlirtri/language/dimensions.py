"""`dyn`: the sizes of an annotation that are known at run time only.

``dyn`` alone is a size of its own. Sizes of one name are equal: ``dyn["K"]``, and ``dyn["K"] * 2 + 1`` follows from it.
``dyn["K", 16]`` is also a multiple of 16.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import lcm
from typing import Any

from mlirtri.dialect.base.sizes import Size, Symbol
from mlirtri.errors import KernelTypeError
from mlirtri.lowering.core.tracebacks import located

_WRITE = 'write dyn["K"], or dyn["K", 16] for a size that is a multiple of 16'


def named(name: str) -> Symbol:
    """Return the symbol of the sizes of one name."""
    return Symbol(("dyn", name), name, Size.of(0), is_fixed=True)


def unnamed(parameter: str, axis: int) -> Size:
    """Return the size of an axis that is annotated with `dyn` alone."""
    return Size.of(Symbol(("dyn", parameter, axis), f"{parameter}.shape[{axis}]", Size.of(0), is_fixed=True))


class Dyn:
    """What `mt.dyn` is."""

    @located
    def __getitem__(self, parts: Any) -> Size:
        name, multiple = parts if isinstance(parts, tuple) and len(parts) == 2 else (parts, 1)
        if not isinstance(name, str) or not name.isidentifier():
            raise KernelTypeError(f"dyn[{parts!r}]: a size has a name, which is a Python identifier", help=_WRITE)
        if not isinstance(multiple, int) or isinstance(multiple, bool) or multiple < 1:
            raise KernelTypeError(f"dyn[{name!r}, {multiple!r}]: a size is a multiple of a positive int", help=_WRITE)
        return Size.of(named(name)) if multiple == 1 else Size.of(_part(name, multiple)) * multiple

    def __repr__(self) -> str:
        return "dyn"

    @located
    def _refuse(self, *_: Any) -> Size:
        raise KernelTypeError("dyn without a name has no arithmetic", help='name the size: dyn["K"] * 2')

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse


def _part(name: str, multiple: int) -> Symbol:
    """Return the symbol of a size divided by what it is a multiple of."""
    return Symbol(("dyn", name, "/", multiple), f"{name}/{multiple}", Size.of(0), is_fixed=True)


dyn = Dyn()


def _key(symbol: Symbol) -> tuple[Any, ...]:
    """Return the key of a symbol of this file, which are all tuples."""
    return symbol.key if isinstance(symbol.key, tuple) else (symbol.key, None)


def unified(shapes: Iterable[Iterable[Any]]) -> dict[Symbol, Size]:
    """Return what stands for the symbols of names that some annotation says to be a multiple of a number."""
    symbols = {symbol for shape in shapes for size in shape if isinstance(size, Size) for symbol, _ in size.terms}
    multiples: dict[str, int] = {}
    for symbol in symbols:
        _, name, *multiple = _key(symbol)
        if len(multiple) == 2:
            multiples[name] = lcm(multiples.get(name, 1), multiple[1])
    replaced: dict[Symbol, Size] = {}
    for name, multiple in multiples.items():
        whole = Size.of(_part(name, multiple))
        replaced[named(name)] = whole * multiple
        replaced |= {
            symbol: whole * (multiple // _key(symbol)[3])
            for symbol in symbols
            if _key(symbol)[1] == name and len(_key(symbol)) == 4
        }
    return replaced


def substituted(size: object, replaced: Mapping[Symbol, Size]) -> Any:
    """Return a size with some of its symbols replaced; what is no run-time size as it is."""
    if not isinstance(size, Size):
        return size
    result = Size((), size.constant)
    for symbol, factor in size.terms:
        result = result + replaced.get(symbol, Size.of(symbol)) * factor
    return result


def written(size: object) -> str:
    """Return what an annotation says of a size: ``int`` for one of compile time, ``mt.dyn["K"] * 2``."""
    if not isinstance(size, Size):
        return "int"
    parts = [_factored(symbol, factor) for symbol, factor in size.terms]
    return (
        "mt.dyn" if None in parts else " + ".join([*map(str, parts), *([str(size.constant)] if size.constant else [])])
    )


def names_in(size: object) -> set[str]:
    """Return the names that a size is written with."""
    terms = size.terms if isinstance(size, Size) else ()
    return {str(_key(symbol)[1]) for symbol, _ in terms}


def _factored(symbol: Symbol, factor: int) -> str | None:
    """Return a named symbol's multiple as it is written; None for one without a name."""
    kind, name, *multiple = _key(symbol)
    if kind != "dyn" or name is None or len(multiple) == 1:
        return None
    if not multiple:
        return f'mt.dyn["{name}"]' + (f" * {factor}" if factor != 1 else "")
    times = factor // multiple[1] if factor % multiple[1] == 0 else None
    return None if times is None else f'mt.dyn["{name}", {multiple[1]}]' + (f" * {times}" if times != 1 else "")
