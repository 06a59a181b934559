"""Choose the loop of a nest that is vectorised: the one along which accesses are contiguous."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlirtri.lowering.codegen.targets import lanes_in_register
from mlirtri.lowering.core.cpu import profitable
from mlirtri.lowering.schedule.imperative.accesses import LoopAccess, LoopAccesses, accesses_of
from mlirtri.lowering.tir.vectors import PARTS
from mlirtri.lowering.toolchain.tvm_names import INDEPENDENT, Stmt, Var, structural_walk, tirx

GOOD = 0.6
"""The share of invariant or contiguous accesses from which on a loop is vectorised."""
LOOP_WEIGHT = 8
"""The weight of an access for each loop around it in which its address varies; else it stays in a register."""
_BYTES = {"int8", "uint8"}


@dataclass(frozen=True)
class Fit:
    """How well a loop would vectorise."""

    share: float
    """The share of accesses that are invariant or contiguous."""
    stores_fit: bool
    """Whether all stores are contiguous."""
    is_known: bool
    """Whether the stride of every access is known; it is not for `x[indices[i]]`."""
    lanes: int
    """Elements of the widest dtype in a vector register; 1 where there can be no vectors."""

    @property
    def is_good(self) -> bool:
        return self.lanes > 1 and self.stores_fit and profitable(self.share >= GOOD)


def fit_of(loop: Stmt) -> Fit:
    """Return how well a `For` would vectorise."""
    accesses = accesses_of(loop.body)
    total_weight = fitting = 0
    stores_fit = is_known = True
    for access in accesses.shared:
        step = step_of(access, loop.loop_var)
        if step == PARTS and _is_part(access):
            step = 1
        weight = LOOP_WEIGHT ** sum(_moves(access, inner.variable) for inner in access.loops)
        total_weight += weight
        fitting += weight if step in (0, 1) else 0
        stores_fit &= step == 1 or not access.is_store
        is_known &= step is not None
    return Fit(fitting / total_weight if total_weight else 0.0, stores_fit, is_known, lanes_of(accesses))


def _is_part(access: LoopAccess) -> bool:
    """Return whether an access is to one part of a complex element: whole vectors of these are loaded, and shuffled."""
    size = access.buffer.ty.shape[-1]
    return isinstance(size, tirx.IntImm) and size.value == PARTS and not access.indices[-1].terms


def step_of(access: LoopAccess, variable: Var) -> int | None:
    """Return the stride of an access along a loop, in elements; None where it is not known."""
    distance, stride = 0, 1
    for form, size in zip(reversed(access.indices), reversed(access.buffer.ty.shape), strict=True):
        if form is None:
            return None
        if factor := form.factor(variable):
            if stride is None:
                return None
            distance += factor * stride
        stride = stride * size.value if stride is not None and isinstance(size, tirx.IntImm) else None
    return distance


def lanes_of(accesses: LoopAccesses) -> int:
    """Return the lanes of a vector of the widest element, taken as 32 bits or more; 1 where TVM has no vectors.

    Integers that are computed from bytes alone, and stored as bytes, are taken as 16 bits: LLVM computes them so where
    they fit.
    """
    dtypes = {str(access.buffer.dtype) for access in accesses.all}
    if not dtypes or "bfloat16" in dtypes:
        return 1
    if {str(access.buffer.dtype) for access in accesses.shared} <= _BYTES and not any(
        "float" in name for name in dtypes
    ):
        return lanes_in_register(16)
    return lanes_in_register(*(int(access.buffer.dtype.bits) for access in accesses.all), least_bits=32)


def parallel_loops_in(statement: Stmt) -> list[Stmt]:
    """Return the loops inside a statement that are annotated `INDEPENDENT`, in program order."""
    loops: list[Any] = []

    def visit(loop: Stmt) -> None:
        if INDEPENDENT in loop.annotations:
            loops.append(loop)

    structural_walk(statement, (tirx.For, visit), order="pre")
    return loops


def contains_loops(statement: Stmt) -> bool:
    """Return whether there is a loop inside a statement that is not unrolled."""
    loops: list[Any] = []

    def visit(loop: Stmt) -> None:
        if loop.kind != tirx.ForKind.UNROLLED:
            loops.append(loop)

    structural_walk(statement, [(tirx.For, visit), (tirx.While, loops.append)])
    return bool(loops)


def shares_reads(loop: Stmt) -> bool:
    """Return whether iterations of a loop share loads in a serial loop inside, as the rows of a product do."""
    serial: list[Any] = []

    def visit(inner: Any) -> None:
        if INDEPENDENT not in inner.annotations:
            serial.append(inner.loop_var)

    structural_walk(loop.body, (tirx.For, visit))
    loads = [access for access in accesses_of(loop.body).shared if not access.is_store and access.loops]
    return any(
        step_of(load, loop.loop_var) == 0 and any(_moves(load, variable) for variable in serial) for load in loads
    )


def _moves(access: LoopAccess, variable: Var) -> bool:
    """Return whether the address of an access varies with a loop, by a known stride or not."""
    return any(form is not None and form.factor(variable) for form in access.indices)


def is_around_innermost(loop: Stmt) -> bool:
    """Return whether no `INDEPENDENT` loop inside this one has another inside it."""
    return not any(parallel_loops_in(inner.body) for inner in parallel_loops_in(loop.body))


def is_unrolled(statement: Stmt) -> bool:
    """Return whether a statement contains an unrolled loop."""
    kinds: list[Any] = []
    structural_walk(statement, (tirx.For, lambda loop: kinds.append(loop.kind)))
    return tirx.ForKind.UNROLLED in kinds
