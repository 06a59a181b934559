"""Complex values by their real and imaginary parts: operations for the scalar algebra, on MLIR values.

Emits `complex.create`, `complex.re`, `complex.im` and `complex.constant`, and `arith` on the parts: nothing else of
upstream's complex dialect, whose other operations differ from the libraries in rounding, NaN and infinity.
"""

from __future__ import annotations

from collections.abc import Callable

from mlirtri.dialect.bindings.mlir import arith, complex, ir

Binary = Callable[[ir.Value, ir.Value], ir.Value]


def create(real: ir.Value, imaginary: ir.Value) -> ir.Value:
    """Return the complex value with these parts."""
    return complex.create_(ir.ComplexType.get(real.type), real, imaginary)


def parts(z: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return the real and the imaginary part."""
    return complex.re(z), complex.im(z)


def constant(real: float, imaginary: float, type_: ir.Type) -> ir.Value:
    """Create a literal of the complex type `type_`."""
    element = ir.ComplexType(type_).element_type
    return complex.constant(type_, ir.ArrayAttr.get([ir.FloatAttr.get(element, part) for part in (real, imaginary)]))


def by_part(builder: Binary) -> Binary:
    """Return a binary operation that applies `builder` to the real and to the imaginary parts."""

    def build(x: ir.Value, y: ir.Value) -> ir.Value:
        (x_re, x_im), (y_re, y_im) = parts(x), parts(y)
        return create(builder(x_re, y_re), builder(x_im, y_im))

    return build


add, subtract = by_part(arith.addf), by_part(arith.subf)


def multiply(x: ir.Value, y: ir.Value) -> ir.Value:
    """Return (a + bi)(c + di) = (ac - bd) + (ad + bc)i, like NumPy and torch also for infinite parts."""
    (a, b), (c, d) = parts(x), parts(y)
    return create(arith.subf(arith.mulf(a, c), arith.mulf(b, d)), arith.addf(arith.mulf(a, d), arith.mulf(b, c)))


def negate(x: ir.Value) -> ir.Value:
    real, imaginary = parts(x)
    return create(arith.negf(real), arith.negf(imaginary))


def select(condition: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    return by_part(lambda of_x, of_y: arith.select(condition, of_x, of_y))(x, y)


def is_nan(x: ir.Value) -> ir.Value:
    """Return whether a part is NaN: then the two parts compare unordered."""
    real, imaginary = parts(x)
    return arith.cmpf(arith.CmpFPredicate.UNO, real, imaginary)


def compare(predicate: str, x: ir.Value, y: ir.Value) -> ir.Value:
    """Compare by ``eq ne lt le gt ge`` in NumPy's order: real parts first, then imaginary; NaN is unordered."""
    (x_re, x_im), (y_re, y_im) = parts(x), parts(y)
    is_ = arith.CmpFPredicate
    if predicate == "ne":
        return arith.ori(arith.cmpf(is_.UNE, x_re, y_re), arith.cmpf(is_.UNE, x_im, y_im))
    same = arith.cmpf(is_.OEQ, x_re, y_re)
    if predicate == "eq":
        return arith.andi(same, arith.cmpf(is_.OEQ, x_im, y_im))
    strictly = is_.OLT if predicate[0] == "l" else is_.OGT
    among_same = {"lt": is_.OLT, "le": is_.OLE, "gt": is_.OGT, "ge": is_.OGE}[predicate]
    ordered = arith.cmpf(is_.ORD, x_im, y_im)
    by_real = arith.andi(arith.cmpf(strictly, x_re, y_re), ordered)
    return arith.ori(by_real, arith.andi(same, arith.cmpf(among_same, x_im, y_im)))


def extreme(predicate: str) -> Binary:
    """Return NumPy's maximum (``ge``) or minimum (``le``), which propagates the first NaN."""

    def build(x: ir.Value, y: ir.Value) -> ir.Value:
        return select(arith.ori(compare(predicate, x, y), is_nan(x)), x, y)

    return build
