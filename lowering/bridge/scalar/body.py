"""Lower the body of a linalg operation to TIR: a block of scalar operations becomes the stores of its results.

A value that is used again and is not free becomes a variable, so that expressions stay linear in the body: a let where
there are few, which keeps the block a single store that schedules can inline, and a scratch buffer where there are
many, since TVM's analysis inlines lets and bound variables, in exponential time. Loads stop that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlirtri.dialect.bindings.locations import span_of
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.errors import KernelError, UnsupportedOperationError
from mlirtri.lowering.bridge.scalar import floats as scalar_floats
from mlirtri.lowering.bridge.scalar.integers import integer_power
from mlirtri.lowering.bridge.scalar.scalar_rules import SCALAR_RULES, ScalarRule, dtype_name, literal
from mlirtri.lowering.mlir_common.reading import affine_index
from mlirtri.lowering.tir.primfunc import buffer, load, store
from mlirtri.lowering.tir.statements import index, nodes_in
from mlirtri.lowering.toolchain.tvm_names import Stmt, structural_map, tirx

__all__ = ["BODY_OPERATIONS", "ScalarBody", "scalar_floats"]
Expr = Any
# Operations that are only valid inside a body, or need variables; `ScalarBody` translates them.
BODY_OPERATIONS = frozenset({"linalg.yield", "linalg.index", "affine.apply", "tensor.extract", "math.ipowi"})
_CHEAP_WEIGHT = 2
MAX_NODES = 128
"""Limit of operations in one expression: TVM recurses over it, and a stack overflow ends the process."""
MAX_INTEGER_NODES = 8
"""The limit for integers: TVM simplifies their double-width sums in time exponential in the depth."""
_MAX_COPIES = 32
"""How often TVM's analysis may inline an expression before scratch buffers are used."""
_TO_INTEGER = ("arith.fptosi", "arith.fptoui")
_COPIES_OF_CONVERSION = 8
"""What counts for a conversion to an integer, whose range TVM analyses: two in a row, as in what is quantised,
dequantised and quantised again, took minutes."""
_COMBINERS = {
    "arith.addf": tirx.Add, "arith.addi": tirx.Add, "arith.mulf": tirx.Mul, "arith.muli": tirx.Mul,
    "arith.maxsi": tirx.Max, "arith.minsi": tirx.Min,
}  # fmt: skip
"""The plain nodes that TVM's schedules recognise as reductions when the accumulator is the first operand."""


class ScalarBody:
    """One translation of a body: the expression of each SSA value, and the variables introduced."""

    def __init__(self, dimensions: Sequence, read: Callable[[ir.Value, Sequence], Expr]):
        self.dimensions = dimensions
        self.read = read
        self.values: dict[ir.Value, Expr] = {}
        self.lazy: dict[ir.Value, Callable[[], Expr]] = {}
        self.weights: dict[ir.Value, int] = {}
        self.accumulators: set[ir.Value] = set()
        self.variables: list[tuple[Any, Expr]] = []
        self.copies = 1

    def define(self, value: ir.Value, expression: Expr, *, is_accumulator: bool = False) -> None:
        self.values[value] = expression
        if is_accumulator:
            self.accumulators.add(value)

    def define_lazily(self, value: ir.Value, make: Callable[[], Expr]) -> None:
        """Call `make` when the body reads `value`, so that a tensor that is never read is no input."""
        self.lazy[value] = make

    def get(self, value: ir.Value) -> Expr:
        """Return the expression of a value: of the body, or a scalar from outside (a literal or rank-0 tensor)."""
        if value not in self.values:
            make = self.lazy.get(value)
            self.values[value] = make() if make else self.read(value, [])
        return self.values[value]

    def translate(self, block: ir.Block, targets: Sequence[tuple[Any, Sequence]]) -> tuple[Stmt, tuple]:
        """Return the statement that stores `block` to the (buffer, indices) of `targets`, and its scratch buffers."""
        operations = [view.operation for view in block.operations]
        for operation in operations[:-1]:
            self.translate_operation(operation)
        return self.finish(list(operations[-1].operands), targets)

    def finish(self, results: Sequence[ir.Value], targets: Sequence[tuple[Any, Sequence]]) -> tuple[Stmt, tuple]:
        """Return the statement that stores `results`, and the scratch buffers that it needs."""
        if len(results) == 1 and self._fits_lets():
            buffer_, indices = targets[0]
            return store(buffer_, self._single_result(results[0]), indices), ()
        # Every value is computed before any store: a store may change what another value reads (argmax).
        values = [self.get(result) for result in results]
        if len(results) > 1:
            values = [self._bind(value, f"out{position}") for position, value in enumerate(values)]
        stores = [store(target, value, to) for (target, to), value in zip(targets, values, strict=True)]
        if self._fits_lets():
            return tirx.SeqStmt([*(tirx.Bind(*binding) for binding in self.variables), *stores]), ()
        return self._with_scratch(stores)

    def _fits_lets(self) -> bool:
        """Return whether copies are few and none int32 or int64: TVM fails on a tighter bound of such a variable."""
        has_integer = any(dtype_name(variable) in ("int32", "int64") for variable, _ in self.variables)
        return self.copies <= _MAX_COPIES and not has_integer

    def _with_scratch(self, stores: list) -> tuple[Any, tuple]:
        scratch = {
            variable: buffer(f"{variable.name}_{number}", (1,), dtype_name(variable), "local")
            for number, (variable, _) in enumerate(self.variables)
        }
        first = [index(0)]

        def visit(variable):
            return load(scratch[variable], first) if variable in scratch else variable

        steps = [store(scratch[variable], value, first) for variable, value in self.variables]
        return tirx.SeqStmt([_replace(step, visit) for step in (*steps, *stores)]), tuple(scratch.values())

    def translate_operation(self, operation: ir.Operation) -> None:
        if operation.name == "linalg.index":
            dimension = operation.attributes["dim"].value
            return self.define(operation.results[0], self.dimensions[dimension])
        if operation.name == "affine.apply":
            # Where a reshape was folded into a body that computes with its index.
            mapping = operation.attributes["map"].value
            arguments = [self.get(argument) for argument in operation.operands]
            computed = affine_index(mapping.results[0], arguments[: mapping.n_dims], index, arguments[mapping.n_dims :])
            return self.define(operation.results[0], computed)
        if operation.name == "tensor.extract":
            tensor, *indices = operation.operands
            return self.define(operation.results[0], self.read(tensor, [self.get(argument) for argument in indices]))
        if operation.name == "math.ipowi":
            base, exponent = (self.get(argument) for argument in operation.operands)
            power = integer_power(base, exponent, lambda value, name_hint: self._bind(value, name_hint, 2))
            return self.define(operation.results[0], power)
        rule = SCALAR_RULES.get(operation.name)
        if rule is None:
            raise UnsupportedOperationError(f"no rule for {operation.name} in a body", span_of(operation.location))
        expression = self._apply(rule, operation, [self.get(operand) for operand in operation.operands])
        return self._define_result(operation, rule, expression)

    def _apply(self, rule: ScalarRule, operation: ir.Operation, operands: list[Expr]) -> Expr:
        try:
            return rule.build(operation, operands)
        except KernelError as error:
            raise error.at(span_of(operation.location)) from None

    def _define_result(self, operation: ir.Operation, rule: ScalarRule, expression: Expr) -> None:
        result = operation.results[0]
        expression = structural_map(expression, (tirx.Let, self._lift), order="post")
        weight = 1 + sum(self.weights.get(operand, 0) for operand in operation.operands)
        if operation.name in _TO_INTEGER:
            self._count(_COPIES_OF_CONVERSION)
        is_profitable = rule.is_expensive or rule.repeats or weight > _CHEAP_WEIGHT
        count = repetitions(result)
        is_long = weight > (MAX_INTEGER_NODES if dtype_name(expression).startswith(("int", "uint")) else MAX_NODES)
        if is_long:
            self.copies = _MAX_COPIES + 1
        if is_long or (is_profitable and count > 1):
            expression, weight = self._bind(expression, operation.name.split(".")[-1], count), 0
        self.weights[result] = weight
        self.define(result, expression)

    def _lift(self, let: tirx.Let) -> Expr:
        """Turn a rule's let into a variable of the body, which can become a scratch buffer."""
        self._count(sum(variable.same_as(let.var) for variable in nodes_in(let.body, tirx.Var)))
        self.variables.append((let.var, let.value))
        return let.body

    def _bind(self, expression: Expr, name_hint: str, repetitions: int = 1) -> Expr:
        is_bool = dtype_name(expression) == "bool"
        if is_bool:
            # TVM analyses the range of an integer variable, fails on vectors of bools, and where a second
            # analysis differs. LLVM sees through the float.
            expression = tirx.Select(expression, literal(1, "float32"), literal(0, "float32"))
        variable = tirx.Var(f"{name_hint}_{len(self.variables)}", dtype_name(expression))
        self._count(repetitions)
        self.variables.append((variable, expression))
        return tirx.GT(variable, literal(0, "float32")) if is_bool else variable

    def _count(self, repetitions: int) -> None:
        self.copies = min(self.copies * max(repetitions, 1), _MAX_COPIES + 1)

    def _single_result(self, result: ir.Value) -> Expr:
        """Return the value to store, with lets; a reduction keeps the form `accumulator + rest`."""
        operation = None if isinstance(result.owner, ir.Block) else result.owner
        combine = operation and _COMBINERS.get(operation.name)
        if not combine or not self._is_reduction(operation):
            return self._with_variables(self.get(result))
        accumulator, term = (self.get(operand) for operand in operation.operands)
        return combine(accumulator, self._with_variables(term))

    def _is_reduction(self, operation: ir.Operation) -> bool:
        first = operation.operands[0]
        return first in self.accumulators and repetitions(first) == 1 and dtype_name(self.get(first)) != "bool"

    def _with_variables(self, expression: Expr) -> Expr:
        for variable, value in reversed(self.variables):
            expression = tirx.Let(variable, value, expression)
        return expression


def _replace(statement: Any, visit: Callable[[Any], Any]) -> Any:
    """Apply `visit` to the variables of `statement`, except the buffer that it stores to."""
    value = structural_map(statement.value, (tirx.Var, visit), order="post")
    return store(statement.buffer, value, statement.indices)


def repetitions(value: ir.Value) -> int:
    """Return how often the expression of `value` will be repeated."""
    count = 0
    for use in value.uses:
        rule = SCALAR_RULES.get(use.owner.name)
        count += 2 if rule is not None and rule.repeats else 1
    return count
