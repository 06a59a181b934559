"""Results of library functions that are views: they share the memory of their argument."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mlirtri.dialect.bindings.mlir import ir
from mlirtri.dialect.builder import Tensor
from mlirtri.dialect.definition import op_of, type_of
from mlirtri.dialect.ops import attributes
from mlirtri.lowering.frontend.language.storage import ViewStep, has_memory

VIEWS = frozenset(
    """reshape ravel transpose T mT swapaxes moveaxis rollaxis squeeze expand_dims view asarray ascontiguousarray
    asanyarray atleast_1d atleast_2d atleast_3d flip fliplr flipud rot90 broadcast_to diagonal split array_split hsplit
    vsplit dsplit real imag permute t unsqueeze expand expand_as narrow chunk select detach contiguous movedim view_as
    unbind unflatten reshape_as swapdims tensor_split adjoint H permute_dims matrix_transpose""".split()
)
"""Functions, methods and attributes of NumPy and torch that return a view where they can."""
_STEPS = ("reshape", "transpose", "flip", "broadcast_to", "extract_slice", "slice", "dynamic_reshape",
          "dynamic_broadcast", "real", "imag")  # fmt: skip


def is_view_function(name: str) -> bool:
    """Return whether ``numpy.ravel``, ``ndarray.T``… gives a view of its first argument."""
    return name.rsplit(".", 1)[-1] in VIEWS and name != "ndarray.flatten"


def is_einsum_view(name: str, arguments: list[Any]) -> bool:
    """Return whether an einsum of one array sums nothing: a view in NumPy, a read-only copy here."""
    if name != "numpy.einsum" or len(arguments) != 2 or not isinstance(arguments[0], str):
        return False
    inputs, arrow, outputs = arguments[0].replace(" ", "").partition("->")
    return bool(arrow) and set(inputs) == set(outputs)


def returns_itself(name: str, source: Tensor, result: Tensor, arguments: dict[str, Any]) -> bool:
    """Return whether a method returns its array itself when there is nothing to do."""
    if result.value != source.value:
        return False
    is_conjugate = name in ("ndarray.conj", "ndarray.conjugate")
    return is_conjugate or (name == "ndarray.astype" and arguments.get("copy") is False)


def viewed(b: Any, source: Tensor, result: Any) -> Any:
    """Return a function's result with the memory of `source`, if only view operations lie between them."""
    if isinstance(result, (tuple, list)):
        return type(result)(viewed(b, source, part) for part in result)
    if not isinstance(result, Tensor) or not has_memory(source):
        return result
    steps = _between(source.value, result.value)
    if steps is None or not _keeps_memory(source, steps):
        return result
    view, shape = source.origin, source.type.shape
    for step in steps:
        if step.op in ("reshape", "dynamic_reshape"):
            new_shape = step.attributes["shape"]
            step = replace(step, moves_axes=[n for n in shape if n != 1] != [n for n in new_shape if n != 1])
            shape = new_shape
        else:
            # The shape after other steps is not known here: treat a following reshape as one that moves elements.
            shape = ()
        view = view.then(step)
    return replace(result, origin=view, weak=False)


def as_new_array(result: Any) -> Any:
    """Return a function's result as a new array, even if no operation was emitted for it."""
    if isinstance(result, (tuple, list)):
        parts = [as_new_array(part) for part in result]
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
    return replace(result, origin=None) if has_memory(result) else result


def _between(source: ir.Value, value: ir.Value) -> list[ViewStep] | None:
    steps: list[ViewStep] = []
    while value != source:
        if isinstance(value.owner, ir.Block) or value.owner.operation.name.removeprefix("tri.") not in _STEPS:
            return None
        steps.append(_step(value.owner.operation))
        value = value.owner.operation.operands[0]
    return steps[::-1]


def _step(operation: ir.Operation) -> ViewStep:
    op = op_of(operation)
    values = attributes.from_mlir(op, operation)
    if op.name == "slice":
        return ViewStep("extract_slice", {**values, "drop": ()})
    indices = tuple(Tensor(operand, type_of(operand.type)) for operand in list(operation.operands)[1:])
    return ViewStep(op.name, values, indices)


def _keeps_memory(source: Tensor, steps: list[ViewStep]) -> bool:
    """Return whether every reshape among the steps is of contiguous memory: the libraries copy otherwise."""
    shape, is_whole = source.type.shape, not source.origin.steps or _is_contiguous(source)
    for step in steps:
        if step.op in ("reshape", "dynamic_reshape"):
            old_sizes = [size for size in shape if size != 1]
            new_sizes = [size for size in step.attributes["shape"] if size != 1]
            if old_sizes != new_sizes and not is_whole:
                return False
            shape = tuple(step.attributes["shape"])
        else:
            is_whole = False
            shape = ()
    return True


def _is_contiguous(source: Tensor) -> bool:
    """Return whether a view is a contiguous range of memory."""
    for step in source.origin.steps:
        if step.op == "reshape":
            continue
        if step.op != "extract_slice" or any(stride != 1 for stride in step.attributes["strides"]):
            return False
        sizes, is_partial = step.attributes["sizes"], False
        full_shape = source.origin.storage.value.type.shape
        if step is not source.origin.steps[0] or len(sizes) != len(full_shape):
            return False
        for size, full in zip(reversed(sizes), reversed(full_shape), strict=True):
            if is_partial and size != 1:
                return False
            is_partial = is_partial or size != full
    return True
