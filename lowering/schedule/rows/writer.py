"""The bodies of a row kernel's nests, rewritten for the memory of the kernel: what CPU and CUDA writers share.

Takes a `RowPlan` and the function's parameters. Gives expressions and statements of a nest at a point, which maps the
nest's axes to their values. Subclasses say where the values of nests are kept: in vectors and private buffers on a CPU,
in registers and shared memory on CUDA.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from mlirtri.lowering.schedule.rows.nests import Axis, Nest
from mlirtri.lowering.schedule.rows.plan import RowPlan
from mlirtri.lowering.tir.statements import delinearized, index
from mlirtri.lowering.tir.vectors import loaded, stored
from mlirtri.lowering.toolchain.tvm_names import Expr, TensorLoad, structural_map, tirx

Point = dict[Any, Any]
"""By variable its value; by scratch buffer of a nest the `Element` that stands for it."""
Element = tuple[Any, list[Expr]]
"""A buffer and indices."""


def axis_values(axes: Sequence[Axis], position: Expr) -> Point:
    """Return the value of each axis at a position among all of them, in row-major order."""
    values = delinearized(position, [axis.extent for axis in axes])
    return {axis.variable: value for axis, value in zip(axes, values, strict=True)}


class NestWriter(ABC):
    """Rewrites the nests of one row kernel."""

    def __init__(self, plan: RowPlan, parameters: Sequence[Any]):
        self.plan, self.parameters = plan, list(parameters)
        self.writers = {nest.target: at for at, nest in enumerate(plan.nests)}

    @abstractmethod
    def element_of(self, at: int, indices: list[Expr]) -> Element:
        """Return the memory that holds what nest `at` computes for these indices of its target."""

    def load(self, load: Any) -> Expr:
        """Return a load of what the kernel does not compute."""
        return load

    def is_result(self, at: int) -> bool:
        """Whether a nest's target is a parameter of the function."""
        return any(self.plan.nests[at].target.same_as(parameter) for parameter in self.parameters)

    def row_shape(self, at: int) -> list[int]:
        """Return the shape of what a nest computes of one row."""
        return self.in_row(at, [int(size) for size in self.plan.nests[at].target.shape])

    def in_row(self, at: int, indices: Sequence[Any]) -> list[Any]:
        """Return those indices, or sizes, of a nest's target that are not along the axes of the rows."""
        pairs = zip(self.plan.nests[at].places, indices, strict=True)
        return [each for axis, each in pairs if axis not in self.plan.rows.axes[at]]

    def start_of(self, at: int) -> Expr:
        """Return the value that partial results of a reduction start from."""
        reducer = self.plan.reducers[at]
        return self.plan.nests[at].init if reducer.neutral is None else reducer.neutral

    def row_value(self, at: int) -> Expr:
        """Return the expression of a nest that computes one value per row."""
        nest = self.plan.nests[at]
        if not nest.is_reduction:
            return nest.store.value
        reducer = self.plan.reducers[at]
        return reducer.combine(nest.init, reducer.term)

    def origin(self, at: int) -> Point:
        """Return the point of a nest at which every axis is 0."""
        return {axis.variable: index(0) for axis in self.plan.nests[at].axes}

    def before(self, nest: Nest, point: Point) -> list[Any]:
        """Return the statements before a nest's store; `point` has its scratch buffers, and gets new variables."""
        statements = []
        for each in nest.before:
            value = self.expression(each.value, point)
            if isinstance(each, tirx.Bind):
                point[each.var] = tirx.Var(each.var.name, each.var.ty)
                statements.append(tirx.Bind(point[each.var], value))
            else:
                buffer, indices = point[each.buffer]
                statements.append(stored(buffer, indices, value))
        return statements

    def expression(self, value: Expr, point: Point) -> Expr:
        """Return an expression of a nest at a point, which reads the kernel's memory for what other nests compute."""

        def load(node: Any) -> Expr:
            if node.source in point:
                return loaded(*point[node.source], node.source.dtype)
            at = self.writers.get(node.source)
            return self.load(node) if at is None else self._computed(at, list(node.indices))

        def variable(node: Any) -> Expr:
            replacement = point.get(node, node)
            return node if isinstance(replacement, tuple) else replacement

        return structural_map(value, [(tirx.Var, variable), (TensorLoad, load)], order="post")

    def _computed(self, at: int, indices: list[Expr]) -> Expr:
        """Return an element of what nest `at` computes, computed anew where the nest is folded into its readers."""
        nest = self.plan.nests[at]
        if at not in self.plan.folded:
            return loaded(*self.element_of(at, indices), nest.target.dtype)
        point = self.origin(at)
        for axis, each in zip(nest.places, indices, strict=True):
            if axis is not None:
                point[nest.axes[axis].variable] = each
        return self.expression(nest.store.value, point)
