"""Vector arithmetic in TIR: the operations that `functions` is written in.

TVM's simplifier treats floats as reals, so expressions contain nothing that it could fold: sums of products are fused
multiply-adds, and comparisons with NaN compare bits.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import partialmethod
from typing import Any

from mlirtri.lowering.core.cpu import simd_registers
from mlirtri.lowering.elementary.functions import BIAS, INFINITY_BITS, MANTISSA, horner
from mlirtri.lowering.toolchain.tvm_names import Stmt, tirx

Expr = Any
_AVX512 = 512
"""Bits of an AVX-512 register."""
_ONLY_IN_C = ("fmod",)
MAX_HORNER_COEFFICIENTS = 5
"""Coefficients up to which `polynomial_by_pairs` uses Horner's rule."""


def _intrinsic(lanes: Lanes, name: str, *operands: Expr) -> Expr:
    """Return a function that LLVM has for vectors, of the dtype of the lanes."""
    return tirx.call_llvm_pure_intrin(lanes.of(lanes.dtype), f"llvm.{name}", *operands)


class Lanes:
    """The values of one call: of one float dtype, all with the same number of lanes."""

    def __init__(self, dtype: str, names: list[tuple[Any, Expr]] | None = None):
        self.dtype, _, lanes = dtype.partition("x")
        self.count = int(lanes or 1)
        self.integer = self.dtype.replace("float", "int")
        self.has_statements = names is not None
        """Whether variables are bound by statements before the use, not inside the expression (`closed`)."""
        self.bindings: list[tuple[Any, Expr]] = [] if names is None else names
        """Variables with their values, in the order of definition."""

    def of(self, dtype: str) -> str:
        """Return the dtype with the same lanes and another element type."""
        return dtype if self.count == 1 else f"{dtype}x{self.count}"

    def of_width(self, dtype: str) -> Lanes:
        """Return lanes of another float dtype that share these bindings."""
        other = Lanes(self.of(dtype), self.bindings)
        other.has_statements = self.has_statements
        return other

    def named(self, value: Expr) -> Expr:
        """Return a variable bound to `value`, which is used more than once; integers and bools as they are."""
        if not str(value.ty.dtype).startswith("float"):
            return value
        variable = tirx.Var(f"v{len(self.bindings)}", value.ty)
        self.bindings.append((variable, value))
        return variable

    def buffered(self, value: Expr) -> Expr:
        """Return `value` in a buffer, which becomes a register; in a variable where no statement can precede the use.

        TVM's analyzers substitute bound values into one another, in time exponential in the depth, but not loads.
        """
        if not self.has_statements:
            return self.named(value)
        dtype, _, lanes = str(value.ty.dtype).partition("x")
        buffer = tirx.decl_buffer((int(lanes or 1),), dtype, f"k{len(self.bindings)}", layout=None)
        first = tirx.IntImm("int32", 0)
        indices = [tirx.Ramp(first, tirx.IntImm("int32", 1), int(lanes)) if lanes else first]
        self.bindings.append((buffer, tirx.BufferStore(buffer, value, indices)))
        return tirx.BufferLoad(buffer, indices)

    def statements(self) -> list[Stmt]:
        """Return the bindings and stores that precede the use."""
        result: list[Any] = []
        for variable, value in self.bindings:
            if isinstance(value, tirx.BufferStore):
                result += [tirx.AllocBuffer(variable), value]
            else:
                result.append(tirx.Bind(variable, value))
        return result

    def closed(self, result: Expr) -> Expr:
        """Return `result` inside of all bindings that it needs."""
        for variable, value in reversed(self.bindings):
            result = tirx.Let(variable, value, result)
        return result

    def number(self, value: float) -> Expr:
        return self._spread(tirx.FloatImm(self.dtype, value))

    def integral(self, value: int) -> Expr:
        return self._spread(tirx.IntImm(self.integer, value))

    def _spread(self, scalar: Expr) -> Expr:
        return scalar if self.count == 1 else tirx.Broadcast(scalar, self.count)

    fma, floor, nearest, root, magnitude, with_sign = (
        partialmethod(_intrinsic, name) for name in ("fma", "floor", "nearbyint", "sqrt", "fabs", "copysign")
    )
    product, quotient = staticmethod(tirx.Mul), staticmethod(tirx.Div)

    def sum(self, x: Expr, y: Expr) -> Expr:
        return self.fma(x, self.number(1.0), y)

    def difference(self, x: Expr, y: Expr) -> Expr:
        return self.fma(y, self.number(-1.0), x)

    polynomial = horner

    def polynomial_by_pairs(self, x: Expr, coefficients: Sequence[float]) -> Expr:
        """Return the sum of ``coefficients[k] * x**k`` with a shorter dependence chain and some more products.

        The scheme is G. Estrin's, "Organization of computer systems: the fixed plus variable structure computer", 1960.
        """
        parts = [self.number(coefficient) for coefficient in coefficients]
        while len(parts) > MAX_HORNER_COEFFICIENTS or len(parts) == len(coefficients):
            pairs = zip(parts[::2], parts[1::2], strict=False)
            parts = [self.fma(high, x, low) for low, high in pairs] + parts[len(parts) // 2 * 2 :]
            x = self.named(self.product(x, x))
        result = parts[-1]
        for part in reversed(parts[:-1]):
            result = self.fma(result, x, part)
        return result

    def between(self, x: Expr, low: float, high: float) -> Expr:
        """Return x clamped to a range; NaN becomes the lower bound."""
        lower, upper = self.number(low), self.number(high)
        return tirx.Select(tirx.GT(x, lower), tirx.Select(tirx.LT(x, upper), x, upper), lower)

    def within(self, x: Expr, low: float, high: float) -> Expr:
        """Return x clamped to a range; NaN stays NaN."""
        lower, upper = self.number(low), self.number(high)
        return tirx.Select(tirx.LT(x, lower), lower, tirx.Select(tirx.GT(x, upper), upper, x))

    @property
    def scales(self) -> bool:
        """Whether these lanes are one register of a CPU with an instruction that scales by powers of two."""
        bits = self.count * (32 if self.dtype == "float32" else 64)
        return bits == simd_registers().bits == _AVX512

    def scaled(self, value: Expr, n: Expr) -> Expr:
        """Return value * 2**n for an integer n, rounded once, denormals too; see `scales`."""
        name, mask = ("ps", "int16") if self.dtype == "float32" else ("pd", "int8")
        everywhere, as_usual = tirx.IntImm(mask, -1), tirx.IntImm("int32", 4)
        intrinsic = f"llvm.x86.avx512.mask.scalef.{name}.512"
        return tirx.call_llvm_pure_intrin(self.of(self.dtype), intrinsic, value, n, value, everywhere, as_usual)

    plus, minus = staticmethod(operator.add), staticmethod(operator.sub)

    def shifted_right(self, x: Expr, bits: int) -> Expr:
        return tirx.shift_right(x, self.integral(bits))

    def has_bit(self, x: Expr, bit: int) -> Expr:
        mask = self.integral(1 << bit)
        return tirx.EQ(tirx.bitwise_and(x, mask), mask)

    def bits(self, x: Expr) -> Expr:
        return tirx.reinterpret(self.of(self.integer), x)

    def from_bits(self, bits: Expr) -> Expr:
        return tirx.reinterpret(self.of(self.dtype), bits)

    def is_nan(self, x: Expr) -> Expr:
        return tirx.GT(self.bits(self.magnitude(x)), self.integral(INFINITY_BITS[self.dtype]))

    def integer_of(self, x: Expr) -> Expr:
        """Return an integral float of any dtype that fits into 32 bits as an integer of this float's width."""
        narrow = tirx.Cast(self.of("int32"), x)
        return narrow if self.integer == "int32" else tirx.Cast(self.of(self.integer), narrow)

    def float_of(self, k: Expr) -> Expr:
        narrow = k if self.integer == "int32" else tirx.Cast(self.of("int32"), k)
        return tirx.Cast(self.of(self.dtype), narrow)

    def power_of_two(self, k: Expr) -> Expr:
        biased = k + self.integral(BIAS[self.dtype])
        return self.from_bits(tirx.shift_left(biased, self.integral(MANTISSA[self.dtype])))

    def exponent_of(self, bits: Expr) -> Expr:
        """Return the bits above the mantissa, as a signed integer."""
        return tirx.shift_right(bits, self.integral(MANTISSA[self.dtype]))

    def to_exponent(self, k: Expr) -> Expr:
        return tirx.shift_left(k, self.integral(MANTISSA[self.dtype]))

    def converted(self, x: Expr) -> Expr:
        return tirx.Cast(self.of(self.dtype), x)

    less, greater, equal = staticmethod(tirx.LT), staticmethod(tirx.GT), staticmethod(tirx.EQ)
    both, either = staticmethod(tirx.And), staticmethod(tirx.Or)
    select = staticmethod(tirx.Select)
    """Selects lane by lane; both operands are computed."""

    def where_all(self, condition: Expr, value: Expr, name: str, *operands: Expr) -> Expr:
        """Return `value` for vectors with the condition true in all lanes, else the C library's function."""
        if self.count > 1:
            condition = tirx.call_llvm_pure_intrin("bool", "llvm.vector.reduce.and", condition)
        if name not in _ONLY_IN_C:
            return tirx.if_then_else(condition, value, getattr(tirx, name)(*operands))
        return tirx.if_then_else(condition, value, self._by_c(name, operands))

    def _by_c(self, name: str, operands: tuple[Expr, ...]) -> Expr:
        """Return the C library's function, lane by lane: LLVM has no operation for it."""
        symbol = name + ("f" if self.dtype == "float32" else "")
        if self.count == 1:
            return tirx.call_pure_extern(self.dtype, symbol, *operands)
        lane_indices = [tirx.IntImm("int32", number) for number in range(self.count)]
        lanes = [[tirx.Shuffle([operand], [lane]) for operand in operands] for lane in lane_indices]
        return tirx.Shuffle([tirx.call_pure_extern(self.dtype, symbol, *scalars) for scalars in lanes], lane_indices)
