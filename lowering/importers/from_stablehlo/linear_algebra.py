"""Lower `triangular_solve` and `cholesky`, which upstream leaves, to loops over the elements of each matrix.

    x[i, j] = (b[i, j] - sum over k before i of a[i, k] * x[k, j]) / a[i, i]
    l[i, j] = (a[i, j] - sum over k < j of l[i, k] * conj(l[j, k])) / l[j, j], and the square root for i = j

(G. H. Golub, C. F. Van Loan, Matrix Computations, 3.1 and 4.2.) fp16 and bf16 are computed in fp32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlirtri.dialect.bindings.mlir import arith, complex, ir, linalg_fill, math, operations_named, scf, tensor
from mlirtri.lowering.mlir_common.cloning import replace
from mlirtri.lowering.mlir_common.index_values import index_constant, index_value, loop_nest, size_of, sizes_of

HALVES = ("f16", "bf16")
Values = list[ir.Value]


def widen_halves(module: ir.Module) -> None:
    """Compute these operations of fp16 and bf16 in fp32, in place, while they are StableHLO."""
    for name in _RULES:
        for operation in operations_named(module, f"stablehlo.{name}"):
            kind = operation.results[0].type
            if str(kind.element_type) not in HALVES:
                continue
            with operation.location, ir.InsertionPoint(operation):
                operands = [_converted(operand, ir.F32Type.get()) for operand in operation.operands]
                attributes = {name: operation.attributes[name] for name in operation.attributes.keys()}
                wide = ir.RankedTensorType.get(list(kind.shape), ir.F32Type.get())
                value = ir.Operation.create(operation.name, [wide], operands, attributes).result
                narrow = _converted(value, kind.element_type)
            replace(operation, [narrow])


def _converted(value: ir.Value, element: ir.Type) -> ir.Value:
    kind = ir.RankedTensorType.get(list(value.type.shape), element)
    return ir.Operation.create("stablehlo.convert", [kind], [value]).result


def rewrite(module: ir.Module) -> None:
    """Lower these operations of `module`, in place."""
    for name, lower in _RULES.items():
        for operation in operations_named(module, f"stablehlo.{name}"):
            with operation.location, ir.InsertionPoint(operation):
                value = lower(operation)
            replace(operation, [value])


@dataclass(frozen=True)
class _Arithmetic:
    """The arithmetic of one element type."""

    subtract: Callable[[ir.Value, ir.Value], ir.Value]
    multiply: Callable[[ir.Value, ir.Value], ir.Value]
    divide: Callable[[ir.Value, ir.Value], ir.Value]
    conjugate: Callable[[ir.Value], ir.Value]


_REAL = _Arithmetic(arith.subf, arith.mulf, arith.divf, lambda value: value)
_COMPLEX = _Arithmetic(complex.sub, complex.mul, complex.div, complex.conj)


def _arithmetic(value: ir.Value) -> _Arithmetic:
    return _COMPLEX if isinstance(value.type.element_type, ir.ComplexType) else _REAL


def _without(
    start: ir.Value, until: ir.Value, term: Callable[[ir.Value], tuple[ir.Value, ir.Value]], numbers: _Arithmetic
) -> ir.Value:
    """Return `start` less the products of `term` for the counters below `until`."""
    loop = scf.ForOp(index_constant(0), until, index_constant(1), [start])
    with ir.InsertionPoint(loop.body):
        product = numbers.multiply(*term(loop.induction_variable))
        scf.YieldOp([numbers.subtract(loop.inner_iter_args[0], product)])
    return loop.results[0]


def _solved(operation: ir.Operation) -> ir.Value:
    matrix, right = operation.operands
    is_left, is_lower, has_unit_diagonal = (
        bool(ir.BoolAttr(operation.attributes[name]).value) for name in ("left_side", "lower", "unit_diagonal")
    )
    kind = str(operation.attributes["transpose_a"])
    # x a = b is a^T x^T = b^T.
    is_swapped = ("NO_TRANSPOSE" not in kind) == is_left
    is_forward = is_lower != is_swapped
    numbers = _arithmetic(right)
    count = size_of(matrix, matrix.type.rank - 1)
    last = arith.subi(index_value(count), index_constant(1))

    def in_order(counter: ir.Value) -> ir.Value:
        return counter if is_forward else arith.subi(last, counter)

    def coefficient(batch: Values, row: ir.Value, column: ir.Value) -> ir.Value:
        value = tensor.extract(matrix, [*batch, *((column, row) if is_swapped else (row, column))])
        return numbers.conjugate(value) if "ADJOINT" in kind else value

    def step(indices: Values, carried: Values) -> Values:
        *batch, counter, other = indices
        row = in_order(counter)

        def index(of: ir.Value) -> Values:
            return [*batch, *((of, other) if is_left else (other, of))]

        def term(before: ir.Value) -> tuple[ir.Value, ir.Value]:
            column = in_order(before)
            return coefficient(batch, row, column), tensor.extract(carried[0], index(column))

        value = _without(tensor.extract(carried[0], index(row)), counter, term, numbers)
        if not has_unit_diagonal:
            value = numbers.divide(value, coefficient(batch, row, row))
        return [tensor.insert(value, carried[0], index(row))]

    *batch_sizes, rows, columns = sizes_of(right)
    sizes = [*batch_sizes, count, columns if is_left else rows]
    return loop_nest(sizes, [right], step)[0]


def _factored(operation: ir.Operation) -> ir.Value:
    [matrix] = operation.operands
    is_lower = "lower" in operation.attributes and bool(ir.BoolAttr(operation.attributes["lower"]).value)
    numbers = _arithmetic(matrix)
    element = matrix.type.element_type
    filled = linalg_fill(_zero(element), tensor.empty(sizes_of(matrix), element))

    def read(of: ir.Value, batch: Sequence[ir.Value], row: ir.Value, column: ir.Value) -> ir.Value:
        """Read an element of the lower triangle; the upper one has its conjugate."""
        if is_lower:
            return tensor.extract(of, [*batch, row, column])
        return numbers.conjugate(tensor.extract(of, [*batch, column, row]))

    def step(indices: Values, carried: Values) -> Values:
        *batch, column, below = indices
        row = arith.addi(column, below)
        in_matrix = arith.cmpi(arith.CmpIPredicate.slt, row, index_value(size_of(matrix, matrix.type.rank - 1)))
        branch = scf.IfOp(in_matrix, [carried[0].type], has_else=True)
        with ir.InsertionPoint(branch.else_block):
            scf.YieldOp(carried)
        with ir.InsertionPoint(branch.then_block):

            def term(before: ir.Value) -> tuple[ir.Value, ir.Value]:
                own = read(carried[0], batch, row, before)
                return own, numbers.conjugate(read(carried[0], batch, column, before))

            value = _without(read(matrix, batch, row, column), column, term, numbers)
            is_diagonal = arith.cmpi(arith.CmpIPredicate.eq, below, index_constant(0))
            inner = scf.IfOp(is_diagonal, [element], has_else=True)
            with ir.InsertionPoint(inner.then_block):
                scf.YieldOp([_root(value)])
            with ir.InsertionPoint(inner.else_block):
                scf.YieldOp([numbers.divide(value, read(carried[0], batch, column, column))])
            value, position = inner.results[0], [row, column]
            if not is_lower:
                value, position = numbers.conjugate(value), [column, row]
            scf.YieldOp([tensor.insert(value, carried[0], [*batch, *position])])
        return list(branch.results)

    return loop_nest(sizes_of(matrix), [filled], step)[0]


def _zero(element: ir.Type) -> ir.Value:
    if isinstance(element, ir.ComplexType):
        part = arith.constant(element.element_type, 0.0)
        return complex.create_(element, part, part)
    return arith.constant(element, 0.0)


def _root(value: ir.Value) -> ir.Value:
    """Return the square root of a diagonal element, which is real."""
    if not isinstance(value.type, ir.ComplexType):
        return math.sqrt(value)
    part = value.type.element_type
    return complex.create_(value.type, math.sqrt(complex.re(value)), arith.constant(part, 0.0))


_RULES: dict[str, Callable[[ir.Operation], ir.Value]] = {"triangular_solve": _solved, "cholesky": _factored}
