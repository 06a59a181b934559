"""The run-time sizes of a kernel's arguments as values of `tri`: the prologue of its function.

    x: tensor<?x4xf32>, [K, 4]   ──►   K = tri.size %x 0

What the sizes of the arguments alone decide is computed in the prologue, too, so that it is known in every loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.dialect.base.sizes import DYNAMIC, Size, Symbol, is_dynamic
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.dialect.bindings.mlir import func, ir
from mlirtri.dialect.builder import TriValue
from mlirtri.errors import KernelTypeError
from mlirtri.lowering.core.interface import TensorParameter
from mlirtri.lowering.core.named_sizes import Definition, named_sizes
from mlirtri.lowering.frontend.semantics.builder import Language
from mlirtri.lowering.mlir_common.attributes import KEEPS_BOUNDS, SIZES, STRIDES

INT64 = DTYPES["int64"]


def emit_prologue(
    b: Language, function: func.FuncOp, block: ir.Block, parameters: Sequence[TensorParameter]
) -> list[TensorType]:
    """Emit the named sizes of the parameters, and return the parameters' types in terms of them."""
    types = [parameter.type for parameter in parameters]
    _describe(function, parameters)
    if all(type_.is_static for type_ in types):
        return types
    function.attributes[KEEPS_BOUNDS] = ir.UnitAttr.get()
    b.indices.fixed.end = b.tri.constant(0, INT64).value.owner
    symbols: dict[Symbol, Size] = {}
    for definition in named_sizes([type_.shape for type_ in types], [p.name for p in parameters]).definitions:
        argument = TriValue(block.arguments[definition.argument], types[definition.argument])
        symbols[definition.symbol] = _value_of(b, definition, argument, symbols)
    b.named_sizes = symbols
    return [type_.with_shape(_in_terms_of(size, symbols) for size in type_.shape) for type_ in types]


def with_linear_form(b: Language, value: TriValue, name: str) -> TriValue:
    """Return an integer argument as a size that exists before the body, if the function has a prologue."""
    if b.indices.fixed.end is None or value.type.rank or not value.type.dtype.is_integer:
        return value
    with b.indices.fixed.opened():
        lower = Size.of(0) if value.type.dtype.is_unsigned else None
        symbol = b.indices.symbol(b.tri.cast(TriValue(value.value, value.type), INT64), name, lower)
    return replace(value, linear=Size.of(symbol))


def _value_of(b: Language, definition: Definition, argument: TriValue, symbols: dict[Symbol, Size]) -> Size:
    with b.indices.fixed.opened():
        value = b.tri.size(argument, axis=definition.axis)
        if definition.rest != Size():
            value = b.tri.subtract(value, b.tri.index(_in_terms_of(definition.rest, symbols)))
        if definition.factor != 1:
            value = b.tri.floor_divide(value, b.tri.constant(definition.factor, INT64))
        symbol = b.indices.symbol(value, definition.symbol.name, Size.of(0))
    return Size.of(replace(symbol, key=definition.symbol.key))


def _in_terms_of(size: int | Size, symbols: dict[Symbol, Size]) -> int | Size:
    if not is_dynamic(size):
        return size
    result = Size((), size.constant)
    for symbol, factor in size.terms:
        result = result + symbols[symbol] * factor
    return result.simplified()


def named_size(b: Language, size: Size) -> Size:
    """Return the value of a size of annotations, ``dyn["M"]``; raises `KernelTypeError` where no argument gives it."""
    result = Size((), size.constant)
    for symbol, factor in size.terms:
        known = b.named_sizes.get(symbol) or _by_multiple(b, symbol)
        if known is None:
            raise KernelTypeError(
                f"{symbol.name!r} is a size of annotations, and no argument of this kernel has it",
                help="annotate an axis of an argument with it, or read the size: M, K = a.shape",
            )
        result = result + known * factor
    return result


def _by_multiple(b: Language, symbol: Symbol) -> Size | None:
    """Return the value of a size that an argument gives as ``dyn["M", 16]``, which is 16 times a symbol."""
    for other, known in b.named_sizes.items():
        if isinstance(other.key, tuple) and other.key[:2] == symbol.key and len(other.key) == 4:
            return known * other.key[3]
    return None


def _describe(function: func.FuncOp, parameters: Sequence[TensorParameter]) -> None:
    """Record on the arguments the names of run-time sizes, of which those of one name are equal, and their strides."""
    described = [_attributes(parameter) for parameter in parameters]
    if any(described):
        function.attributes["arg_attrs"] = ir.ArrayAttr.get(list(map(ir.DictAttr.get, described)))


def _attributes(parameter: TensorParameter) -> dict[str, ir.Attribute]:
    attributes: dict[str, ir.Attribute] = {}
    if not parameter.type.is_static:
        names = [str(size) if is_dynamic(size) else "" for size in parameter.type.shape]
        attributes[SIZES] = ir.ArrayAttr.get(list(map(ir.StringAttr.get, names)))
    if parameter.strides is not None:
        strides = [DYNAMIC if stride is None else stride for stride in parameter.strides]
        attributes[STRIDES] = ir.DenseI64ArrayAttr.get(strides)
    return attributes


def without_values(type_: TensorType) -> TensorType:
    """Return a type whose sizes refer to no SSA values."""
    return type_.with_shape(size.without_values() if is_dynamic(size) else size for size in type_.shape)
