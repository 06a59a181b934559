"""The state of a translation to Relax, and the table of its rules.

A rule is a function ``(builder, operation)`` registered for an operation's name. It reads its operands and writes its
results; every binding that it emits gets a readable name and the operation's source location.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlirtri.dialect.base.registry import Registry
from mlirtri.dialect.bindings.locations import name_of, span_of, spans_in
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.errors import UnsupportedOperationError
from mlirtri.lowering.bridge.scalar.scalar_rules import literal as scalar_literal
from mlirtri.lowering.external.vdevices import VDevices, vdevice_of
from mlirtri.lowering.mlir_common.reading import dtype_of, shape_of
from mlirtri.lowering.tir.primfunc import LoopAxis, Names, Statements, buffer, build, load, store
from mlirtri.lowering.toolchain.tvm_names import (
    BlockBuilder,
    Expr,
    GlobalVar,
    PrimFunc,
    TensorType,
    relax,
    structural_equal,
    structural_hash,
    tirx,
)

Rule = Callable[["RelaxBuilder", ir.Operation], None]
RULES: Registry[str, Rule] = Registry("Relax rule")
rule = RULES.register


@dataclass(frozen=True)
class Splat:
    """A tensor whose elements all are one compile-time number (rank 0: a scalar constant)."""

    element: Any
    """A TIR literal, which carries the dtype."""
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Uninitialized:
    """`tensor.empty`: nobody may depend on its elements, so they are 0 for those who read them."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def element(self) -> Expr:
        return scalar_literal(0, self.dtype)


def vdevice_of_all(expressions: Sequence[object]) -> Any:
    """Return the device that a call on these operands runs on, None where none is named."""
    return next((vdevice for expression in expressions if (vdevice := vdevice_of(expression.ty)) is not None), None)


@dataclass(frozen=True)
class Loops:
    """An imperative PrimFunc that the function calls, and the constant arrays that follow its operands."""

    name: str
    function: PrimFunc
    constants: tuple[Any, ...]


class RelaxBuilder:
    """One Relax function under construction: the values so far, and the source locations of its bindings."""

    def __init__(
        self, block: BlockBuilder, function_names: Names, symbols: Sequence[str] = (), devices: VDevices | None = None,
        loops: Mapping[str, Loops] | None = None,
    ):  # fmt: skip
        self.block = block
        self.devices = devices or VDevices()
        """The devices that the module names."""
        self.loops = loops or {}
        """The imperative PrimFuncs by the symbol that calls them."""
        self.names = Names(symbols)
        """Names of bindings; they avoid names of functions, which the block would rename."""
        self.function_names = function_names
        self.locations: dict[str, str] = {}
        """Name of a binding to ``file:line:column``."""
        self.results: list[Any] = []
        """The function's results, once its terminator has been translated."""
        self._values: dict[ir.Value, Any] = {}
        self._functions: dict[int, list[tuple[GlobalVar, PrimFunc]]] = {}
        """The PrimFuncs of the module by structural hash: to compare each with each takes seconds for a thousand."""
        for callee, existing in block.get().functions_items():
            if isinstance(existing, PrimFunc):
                self._functions.setdefault(structural_hash(existing), []).append((callee, existing))

    def meaning(self, value: ir.Value) -> Any:
        """Return what `value` was translated to: a Relax expression, `Splat` or `Uninitialized`."""
        return self._values[value]

    def write(self, value: ir.Value, meaning: object) -> None:
        self._values[value] = meaning

    def literal(self, value: ir.Value) -> Expr | None:
        """Return the TIR literal that every element of `value` equals, or None."""
        meaning = self._values[value]
        return meaning.element if isinstance(meaning, (Splat, Uninitialized)) else None

    def read(self, value: ir.Value) -> relax.Expr:
        """Return `value` as a Relax expression; a literal becomes a tensor now, once."""
        meaning = self._values[value]
        if isinstance(meaning, (Splat, Uninitialized)):
            meaning = self._values[value] = self._fill(meaning, value)
        return meaning

    def read_all(self, values: Sequence[ir.Value]) -> list[relax.Expr]:
        return [self.read(value) for value in values]

    def type_of(self, value: ir.Value, vdevice: Any = None) -> TensorType:
        """Return the Relax type of an SSA value on a device; a scalar is a rank-0 tensor."""
        return TensorType(shape_of(value.type), dtype_of(value.type), vdevice=vdevice)

    def bind(self, operation: ir.Operation, expression: Expr, name: str | None = None) -> relax.Var:
        """Bind `expression` under a name and source location, and return the variable."""
        return self.bind_as(name_of(operation.location) or name or operation.name.split(".")[-1], operation, expression)

    def bind_as(self, name: str, operation: ir.Operation, expression: Expr) -> relax.Var:
        """Bind `expression` under a generated name that matches no variable of the user's."""
        variable = self.block.emit(expression, self.names.unique(name))
        if span := span_of(operation.location):
            self.locations[variable.name] = str(span)
        return variable

    def emit(self, operation: ir.Operation, expression: Expr, name: str | None = None) -> None:
        """Bind `expression` as the result of `operation`; a tuple for an operation of several results."""
        variable = self.bind(operation, expression, name)
        if len(operation.results) == 1:
            return self.write(operation.results[0], variable)
        for position, result in enumerate(operation.results):
            part = self.bind(operation, relax.TupleGetItem(variable, position), f"{variable.name}_{position}")
            self.write(result, part)
        return None

    def call(
        self, operation: ir.Operation, function: PrimFunc, name: str, arguments: Sequence[ir.Value],
        constants: Sequence[object] = (),
    ) -> None:  # fmt: skip
        """Bind the results of `operation` to a call of a PrimFunc; the constants are its last arguments."""
        callee = self.add_function(function, name)
        inputs = relax.Tuple([*self.read_all(arguments), *constants])
        vdevice = vdevice_of_all(inputs)
        types = [self.type_of(result, vdevice) for result in operation.results]
        self.emit(operation, relax.call_tir(callee, inputs, types if len(types) > 1 else types[0]))

    def add_function(self, function: PrimFunc, name: str) -> GlobalVar:
        """Add `function` to the module, unless an equal one is there, and return its name."""
        known = self._functions.setdefault(structural_hash(function), [])
        for callee, existing in known:
            if structural_equal(existing, function):
                return callee
        callee = self.block.add_func(function, self.function_names.unique(name))
        known.append((callee, function))
        return callee

    def _fill(self, meaning: Splat | Uninitialized, value: ir.Value) -> Any:
        if isinstance(value.owner, ir.Block):
            raise UnsupportedOperationError("a function's argument is a constant")
        dtype = dtype_of(value.type)
        # TVM simplifies 0.0 * x and 0.0 / x to 0.0, also for an x that is NaN or infinite: it must not see the zero.
        is_zero = isinstance(meaning.element, tirx.FloatImm) and meaning.element.value == 0
        if not meaning.shape:
            # Relax's legalization writes a constant operand into the loops; a variable becomes a parameter.
            constant = relax.const(meaning.element.value, dtype)
            return self.bind(value.owner, constant) if is_zero else constant
        output = buffer("out", meaning.shape, dtype)
        axes = [LoopAxis(size) for size in meaning.shape]
        inputs = [buffer("zero", (), dtype)] if is_zero else []
        element = load(inputs[0], []) if is_zero else meaning.element
        function = build(
            "fill",
            inputs,
            [output],
            axes,
            lambda point: Statements(store(output, element, point)),
            spans_in(value.owner),
        )
        callee = self.add_function(function, "fill")
        operands = [relax.const(meaning.element.value, dtype)] if is_zero else []
        return self.bind(value.owner, relax.call_tir(callee, relax.Tuple(operands), self.type_of(value)))
