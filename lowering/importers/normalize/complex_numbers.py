"""Lower the `complex` dialect to arithmetic on real and imaginary parts, in bodies and outside of them.

Only `complex.create`, `complex.re` and `complex.im` remain. The algorithms are NumPy's; fast-math flags are ignored.
"""

from __future__ import annotations

from collections.abc import Callable

from mlirtri.dialect.base.dtypes import DType, find_dtype
from mlirtri.dialect.bindings.locations import errors_at
from mlirtri.dialect.bindings.mlir import all_operations_in, arith, ir, operations_named
from mlirtri.dialect.scalar import algebra as scalar
from mlirtri.dialect.scalar import complex_arithmetic as algorithms
from mlirtri.dialect.scalar.algebra import Scalar
from mlirtri.dialect.scalar.complex_functions import RULES as COMPLEX
from mlirtri.dialect.scalar.complex_parts import create as create_value
from mlirtri.dialect.scalar.complex_parts import parts as part_values
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.mlir_common.cloning import replace
from mlirtri.lowering.mlir_common.linalg_builder import generalize

KEPT = ("complex.create", "complex.re", "complex.im")
"""The operations that later stages take."""


def rewrite(module: ir.Module, _context: CompileContext) -> None:
    """Replace all other operations of the dialect, in place; raises `UnsupportedOperationError`."""
    # A named operation implies its body: on parts it has to be a generic.
    for named in operations_named(module, "linalg.*"):
        if named.name != "linalg.generic" and any(
            inner.name.startswith("complex.") for inner in all_operations_in(named)
        ):
            generalize(named)
    for operation in operations_named(module, "complex.*"):
        if operation.name in KEPT:
            continue
        with errors_at(operation), ir.InsertionPoint(operation), operation.location:
            value = _value_of(operation)
        replace(operation, [value])


def _value_of(operation: ir.Operation) -> ir.Value:
    if (lowering := _OWN.get(operation.name)) is not None:
        return lowering(operation)
    if (rule := _RULES.get(operation.name)) is None:
        raise UnsupportedOperationError(f"{operation.name} is not known")
    return rule(*(_scalar(operand) for operand in operation.operands)).value


def _scalar(value: ir.Value) -> Scalar:
    return Scalar(value, _dtype(value.type))


def _dtype(type_: ir.Type) -> DType:
    dtype = find_dtype(str(type_))
    if dtype is None:
        raise UnsupportedOperationError(f"elements of type {type_}", help="use complex<f32> or complex<f64>")
    return dtype


def _constant(operation: ir.Operation) -> ir.Value:
    kind = operation.results[0].type
    _dtype(kind)
    return create_value(*(arith.constant(kind.element_type, part) for part in operation.attributes["value"]))


def _bitcast(operation: ir.Operation) -> ir.Value:
    """Bitcast between a complex number and an integer of the same width: the real part is the low half."""
    [source], kind = operation.operands, operation.results[0].type
    if source.type == kind:
        return source
    if isinstance(kind, ir.ComplexType):
        half = ir.IntegerType.get_signless(source.type.width // 2)
        low = arith.trunci(half, source)
        high = arith.trunci(half, arith.shrui(source, arith.constant(source.type, half.width)))
        return create_value(*(arith.bitcast(kind.element_type, half) for half in (low, high)))
    half = ir.IntegerType.get_signless(kind.width // 2)
    low, high = (arith.extui(kind, arith.bitcast(half, part)) for part in part_values(source))
    return arith.ori(low, arith.shli(high, arith.constant(kind, half.width)))


def _integer_power(operation: ir.Operation) -> ir.Value:
    base, exponent = operation.operands
    kind = base.type.element_type
    zero = arith.constant(kind, 0.0)
    return COMPLEX["power"](_scalar(base), _scalar(create_value(arith.sitofp(kind, exponent), zero))).value


_OWN: dict[str, Callable[[ir.Operation], ir.Value]] = {
    "complex.constant": _constant, "complex.bitcast": _bitcast, "complex.powi": _integer_power,
}  # fmt: skip


def _angle(z: Scalar) -> Scalar:
    real, imaginary = scalar.parts(z)
    return scalar.atan2(imaginary, real)


def _atan2(y: Scalar, x: Scalar) -> Scalar:
    """Return -i log((x + iy) / √(x² + y²)), of scaled operands: squares neither overflow nor underflow."""
    sizes = [scalar.absolute(part) for z in (y, x) for part in scalar.parts(z)]
    factor, _ = algorithms.scaling(scalar.maximum(*sizes[:2]), scalar.maximum(*sizes[2:]), root=1)
    y, x = algorithms.scaled(y, factor), algorithms.scaled(x, factor)
    modulus = algorithms.sqrt(scalar.add(scalar.multiply(x, x), scalar.multiply(y, y)))
    unit = algorithms.divide(scalar.add(x, algorithms.times_i(y)), modulus)
    return algorithms.over_i(algorithms.log(unit))


_RULES: dict[str, Callable[..., Scalar]] = {
    "complex.add": scalar.add, "complex.sub": scalar.subtract, "complex.mul": scalar.multiply,
    "complex.div": algorithms.divide, "complex.neg": scalar.negate, "complex.conj": algorithms.conjugate,
    "complex.abs": algorithms.absolute, "complex.angle": _angle, "complex.sign": algorithms.sign,
    "complex.sqrt": algorithms.sqrt, "complex.rsqrt": COMPLEX["rsqrt"], "complex.pow": COMPLEX["power"],
    "complex.exp": algorithms.exp, "complex.expm1": algorithms.expm1, "complex.log": algorithms.log,
    "complex.log1p": algorithms.log1p, "complex.sin": COMPLEX["sin"], "complex.cos": COMPLEX["cos"],
    "complex.tan": COMPLEX["tan"], "complex.tanh": COMPLEX["tanh"], "complex.atan2": _atan2,
    "complex.eq": lambda x, y: scalar.compare("eq", x, y), "complex.neq": lambda x, y: scalar.compare("ne", x, y),
}  # fmt: skip
