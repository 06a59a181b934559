"""The bodies of a row kernel's nests, rewritten for the memory of the kernel: what CPU and CUDA writers share.

A point maps the axes of a nest to their values. Subclasses say where the values of nests are kept: in vectors and
private buffers on a CPU, in registers and shared memory on CUDA.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from mlirtri.lowering.schedule.rows.nests import BlockAxis, BlockNest
from mlirtri.lowering.schedule.rows.plan import RowPlan
from mlirtri.lowering.tir.statements import delinearized, index
from mlirtri.lowering.tir.vectors import loaded, stored
from mlirtri.lowering.toolchain.tvm_names import Buffer, Expr, Node, Stmt, TensorLoad, structural_map, tirx

Point = dict[Any, Any]
"""By variable its value; by scratch buffer of a nest the `Element` that stands for it."""
Element = tuple[Any, list[Expr]]
"""A buffer and indices."""


def axis_values(axes: Sequence[BlockAxis], position: Expr) -> Point:
    """Return the value of each axis at a position among all of them, in row-major order."""
    values = delinearized(position, [axis.extent for axis in axes])
    return {axis.variable: value for axis, value in zip(axes, values, strict=True)}


class NestWriter(ABC):
    """Rewrites the nests of one row kernel."""

    def __init__(self, plan: RowPlan, parameters: Sequence[Buffer]):
        self.plan, self.parameters = plan, list(parameters)
        self.writers = {nest.target: n for n, nest in enumerate(plan.nests)}

    @abstractmethod
    def element_of(self, n: int, indices: list[Expr]) -> Element:
        """Return the memory that holds what nest `n` computes for these indices of its target."""

    def load(self, load: TensorLoad) -> Expr:
        """Return a load of what the kernel does not compute."""
        return load

    def is_result(self, n: int) -> bool:
        """Return whether a nest's target is a parameter of the function."""
        return any(self.plan.nests[n].target.same_as(parameter) for parameter in self.parameters)

    def row_shape(self, n: int) -> list[int]:
        """Return the shape of what a nest computes of one row."""
        return self.in_row(n, [int(size) for size in self.plan.nests[n].target.shape])

    def in_row(self, n: int, indices: Sequence[Expr]) -> list[Expr]:
        """Return those indices, or sizes, of a nest's target that are not along the axes of the rows."""
        pairs = zip(self.plan.nests[n].target_axes, indices, strict=True)
        return [value for axis, value in pairs if axis not in self.plan.rows.axes[n]]

    def start_of(self, n: int) -> Expr:
        """Return the value that partial results of a reduction start from."""
        reducer = self.plan.reducers[n]
        return self.plan.nests[n].init if reducer.neutral is None else reducer.neutral

    def row_value(self, n: int) -> Expr:
        """Return the expression of a nest that computes one value per row."""
        nest = self.plan.nests[n]
        if not nest.is_reduction:
            return nest.store.value
        reducer = self.plan.reducers[n]
        return reducer.combine(nest.init, reducer.term)

    def origin(self, n: int) -> Point:
        """Return the point of a nest at which every axis is 0."""
        return {axis.variable: index(0) for axis in self.plan.nests[n].axes}

    def before(self, nest: BlockNest, point: Point) -> list[Stmt]:
        """Return the statements before a nest's store; `point` has its scratch buffers, and gets new variables."""
        statements = []
        for statement in nest.before:
            value = self.expression(statement.value, point)
            if isinstance(statement, tirx.Bind):
                point[statement.var] = tirx.Var(statement.var.name, statement.var.ty)
                statements.append(tirx.Bind(point[statement.var], value))
            else:
                buffer, indices = point[statement.buffer]
                statements.append(stored(buffer, indices, value))
        return statements

    def expression(self, value: Expr, point: Point) -> Expr:
        """Return an expression of a nest at a point, which reads the kernel's memory for what other nests compute."""

        def load(node: Node) -> Expr:
            if node.source in point:
                buffer, indices = point[node.source]
                return loaded(buffer, indices, node.source.dtype)
            n = self.writers.get(node.source)
            return self.load(node) if n is None else self._computed(n, list(node.indices))

        def variable(node: Node) -> Expr:
            replacement = point.get(node, node)
            return node if isinstance(replacement, tuple) else replacement

        return structural_map(value, [(tirx.Var, variable), (TensorLoad, load)], order="post")

    def _computed(self, n: int, indices: list[Expr]) -> Expr:
        """Return an element of what nest `n` computes, computed anew where the nest is folded into its readers."""
        nest = self.plan.nests[n]
        if n not in self.plan.folded:
            return loaded(*self.element_of(n, indices), nest.target.dtype)
        point = self.origin(n)
        for axis, value in zip(nest.target_axes, indices, strict=True):
            if axis is not None:
                point[nest.axes[axis].variable] = value
        return self.expression(nest.store.value, point)
