"""Map the SSA values of imperative code to TIR expressions, and decide when each is evaluated.

A value that is used once stays part of its reader's expression, unless memory that it reads is written before, or a
loop begins: then it becomes a variable. So does a value that is used again. What reads no memory goes through a scalar
buffer, which LLVM promotes to a register: TVM's analysis would inline a variable at every use. Complex values are
pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from mlirtri.dialect.base.dtypes import DTYPES
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.lowering.bridge.scalar.body import MAX_NODES, repetitions
from mlirtri.lowering.bridge.scalar.scalar_rules import dtype_name, same_bits
from mlirtri.lowering.mlir_common.reading import dtype_of
from mlirtri.lowering.tir.bfloat16_storage import bits_dtype
from mlirtri.lowering.tir.primfunc import Names, buffer, load, store
from mlirtri.lowering.tir.statements import index, nodes_in
from mlirtri.lowering.toolchain.tvm_names import Expr, Stmt, structural_map, tirx

Bounds = tuple[int, int]
_FREE_SIZE = 12
"""Nodes of an index expression that may be repeated at every use, so that TVM can analyse the access."""
_MAX_COPIES = 32
"""Nodes that a variable may stand for in TVM's analysis, which inlines it."""
_INTEGERS = ("int32", "int64")


@dataclass(frozen=True)
class Scalar:
    """An expression, the names of the buffers that it reads, and its number of nodes."""

    expression: Any
    reads: frozenset[str] = frozenset()
    size: int = 1
    bounds: Bounds | None = None
    """The bounds of an int64, where they are known."""

    @property
    def is_free(self) -> bool:
        """Return whether the expression may be evaluated anywhere, any number of times."""
        is_index = dtype_name(self.expression) == "int64" and self.size <= _FREE_SIZE
        return not self.reads and (self.size == 1 or is_index or isinstance(self.expression, tirx.Var))


class ScalarBuffer:
    """A scalar buffer for a value that changes; LLVM promotes it to a register."""

    def __init__(self, name: str, dtype: str):
        self.buffer = buffer(name, (1,), bits_dtype(dtype))
        self.scalar = Scalar(same_bits(load(self.buffer, [index(0)]), dtype), frozenset([name]))
        """The value that it holds now."""

    def store(self, scalar: Scalar) -> Stmt:
        return store(self.buffer, same_bits(scalar.expression, str(self.buffer.dtype)), [index(0)])


Meaning = Scalar | tuple[Scalar, ...]
"""A scalar, or the real and imaginary part of a complex value."""


class LoopValues:
    """The values so far, and the list of statements being written."""

    def __init__(self, names: Names):
        self.names = names
        self.statements: list[Any] = []
        self._meanings: dict[ir.Value, Meaning] = {}
        self._waiting: dict[ir.Value, Scalar] = {}
        """Values that are used once and not yet, in program order."""

    def meaning(self, value: ir.Value) -> Meaning:
        """Return the scalar or the parts of `value` for its reader."""
        self._waiting.pop(value, None)
        return self._meanings[value]

    def parts(self, value: ir.Value) -> tuple[Scalar, ...]:
        """Return the one or two scalars of a value."""
        meaning = self.meaning(value)
        return meaning if isinstance(meaning, tuple) else (meaning,)

    def get(self, value: ir.Value) -> Scalar:
        """Return the scalar that `value` is, which is not complex."""
        [scalar] = self.parts(value)
        return scalar

    def set(self, value: ir.Value, meaning: Meaning) -> None:
        """Define a value that may be evaluated anywhere in its scope."""
        self._meanings[value] = meaning

    def define(self, value: ir.Value, scalar: Scalar, name_hint: str) -> None:
        """Define a value that an operation computes here, once even if it is used again."""
        scalar = self._without_lets(scalar)
        count = repetitions(value)
        if scalar.size > MAX_NODES or (count > 1 and not scalar.is_free):
            scalar = self.name(scalar, name_hint)
        self._meanings[value] = scalar
        if count == 1 and not scalar.is_free:
            self._waiting[value] = scalar

    def define_complex(self, value: ir.Value, real: Scalar, imaginary: Scalar, name_hint: str) -> None:
        """Define a complex value, whose parts are computed here."""
        self._meanings[value] = tuple(
            part if part.is_free else self.name(part, name_hint) for part in (real, imaginary)
        )

    def name(self, scalar: Scalar, name_hint: str) -> Scalar:
        """Return a variable that holds the current value of `scalar`."""
        dtype = dtype_name(scalar.expression)
        if not scalar.reads and not _is_analysed(scalar):
            storage = self.scalar_buffer(dtype, name_hint)
            self.statements.append(storage.store(scalar))
            scalar = replace(storage.scalar, bounds=scalar.bounds)
        variable = tirx.Var(self.names.unique(name_hint), dtype)
        self.statements.append(tirx.Bind(variable, scalar.expression))
        return Scalar(variable, size=1 if scalar.reads else scalar.size + 1, bounds=scalar.bounds)

    def name_all(self, buffer_name: str | None = None) -> None:
        """Evaluate now every pending value, because statements follow that may run any number of times.

        With a name, only those that read this buffer, which is about to be written.
        """
        for value, scalar in list(self._waiting.items()):
            if buffer_name is None or buffer_name in scalar.reads:
                del self._waiting[value]
                name_hint = "value" if isinstance(value.owner, ir.Block) else value.owner.name.split(".")[-1]
                self._meanings[value] = self.name(scalar, name_hint)

    def pinned(self, value: ir.Value, name_hint: str) -> Scalar:
        """Return `value` such that it is the same wherever it is evaluated: a loop's bound, a buffer's size."""
        scalar = self.get(value)
        return scalar if scalar.is_free else self.name(scalar, name_hint)

    def scalar_buffer(self, dtype: str, name_hint: str) -> ScalarBuffer:
        """Allocate a scalar buffer here."""
        storage = ScalarBuffer(self.names.unique(name_hint), dtype)
        self.statements.append(tirx.AllocBuffer(storage.buffer))
        return storage

    def assign(self, targets: Sequence[ScalarBuffer], scalars: Sequence[Scalar]) -> None:
        """Store all scalars, each as it is before any of these stores."""
        pairs = zip(targets, scalars, strict=True)
        pending = {target: scalar for target, scalar in pairs if scalar is not target.scalar}
        while pending:
            reads = [frozenset().union(*(pending[other].reads for other in pending if other is not target))
                     for target in pending]  # fmt: skip
            free = [target for target, names in zip(pending, reads, strict=True) if target.buffer.name not in names]
            for target in free[:1]:
                self.statements.append(target.store(pending.pop(target)))
            if not free:
                # The stores form a cycle: one value is kept in a variable.
                reader = next(target for target in reversed(pending) if pending[target].reads)
                pending[reader] = self.name(pending[reader], reader.buffer.name)

    @contextmanager
    def nested(self) -> Iterator[list[Stmt]]:
        """Collect the statements of a nested scope: the body of a loop, the arm of a branch."""
        outer, self.statements = self.statements, []
        try:
            yield self.statements
        finally:
            self.statements = outer

    def _without_lets(self, scalar: Scalar) -> Scalar:
        """Replace each `let` in the expression by a variable here, whose every use counts with its size."""
        named: dict[Any, Any] = {}
        copies = 0

        def visit(variable: Any) -> Any:
            return named.get(variable, variable)

        def lift(let: Any) -> Any:
            nonlocal copies
            value = structural_map(let.value, (tirx.Var, visit), order="post")
            variable = self.name(Scalar(value, scalar.reads, scalar.size + copies), let.var.name)
            named[let.var] = variable.expression
            copies += variable.size * sum(use.same_as(let.var) for use in nodes_in(let.body, tirx.Var))
            return let.body

        expression = structural_map(scalar.expression, (tirx.Let, lift), order="post")
        if not named:
            return scalar
        expression = structural_map(expression, (tirx.Var, visit), order="post")
        return replace(scalar, expression=expression, size=scalar.size + copies)


def _is_analysed(scalar: Scalar) -> bool:
    """Return whether TVM's analysis, which inlines variables, can handle one of this value, which reads no memory.

    It remembers a bound of an integer and fails on a tighter one, and on floats of integers whose range it knows. Of a
    `select` of floats it makes an interval, and fails where that is multiplied.
    """
    if dtype_name(scalar.expression) in _INTEGERS or scalar.size > _MAX_COPIES:
        return False
    if dtype_name(scalar.expression) != "bool" and nodes_in(scalar.expression, tirx.Select):
        return False
    return not any(dtype_name(cast.value) in _INTEGERS for cast in nodes_in(scalar.expression, tirx.Cast))


def scalar_of(expression: Expr, operands: Sequence[Scalar], bounds: Bounds | None = None) -> Scalar:
    """Return an expression of the operands as a scalar that reads what they read."""
    reads = frozenset().union(*(operand.reads for operand in operands))
    return Scalar(expression, reads, 1 + sum(operand.size for operand in operands), bounds)


def part_dtypes(type_: ir.Type) -> list[str]:
    """Return the dtypes of the scalars of a value of this MLIR type."""
    dtype = DTYPES[dtype_of(type_)]
    return [dtype.part.name] * 2 if dtype.is_complex else [dtype.name]
