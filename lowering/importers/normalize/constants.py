"""Turn large constants of an imported function into bound parameters: arguments whose tensors the program holds.

    %w = arith.constant dense<"0x…"> : tensor<1000xf32>     ──►  dense_resource<w>, and params["w"]
    %w = arith.constant dense_resource<w> : …               ──►  an argument {mlirtri.bound = "w"}

The first rewrite also runs when a program is read, so that its text stays small (`take_constants`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from math import prod
from typing import Any

import numpy as np

from mlirtri.dialect.bindings.locations import errors_at, name_of
from mlirtri.dialect.bindings.mlir import (
    all_operations,
    arith,
    ir,
    linalg_fill,
    operations_named,
    public_functions,
    tensor,
)
from mlirtri.errors import ParseError
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.importers.normalize.arithmetic.odd_integers import storage_type
from mlirtri.lowering.mlir_common.attributes import BOUND, argument_attributes, result_attributes, set_signature
from mlirtri.lowering.mlir_common.cloning import replace
from mlirtri.lowering.mlir_common.constants import odd_constant, operation_constant, resource_constant, resource_key

LARGEST_LITERAL = 64
"""The most elements of a constant that stays a literal."""
LARGEST_SPLAT = 1 << 16
"""The most elements of a splat that stays a constant."""


def rewrite(module: ir.Module, context: CompileContext) -> None:
    """Move the large constants of the only function into `context.params`."""
    take_constants(module, context.params)
    for constant in operations_named(module, "arith.constant"):
        _replace_long_splat(constant)
    [function] = public_functions(module)
    block, arguments, bound = function.regions[0].blocks[0], argument_attributes(function), {}
    for constant in operations_named(module, "arith.constant"):
        if (key := _key_of(constant)) is None:
            continue
        if key not in bound:
            bound[key] = block.add_argument(constant.results[0].type, ir.Location.name(key, constant.location))
            arguments.append({BOUND: ir.StringAttr.get(key)})
        replace(constant, [bound[key]])
    set_signature(function, arguments, result_attributes(function))


def _replace_long_splat(constant: ir.Operation) -> None:
    """Replace a long splat by `linalg.fill`: later stages and LLVM would write out every element."""
    kind = constant.results[0].type
    if not isinstance(kind, ir.RankedTensorType) or prod(kind.shape) <= LARGEST_SPLAT:
        return
    if isinstance(kind.element_type, ir.ComplexType) or not _is_splat(constant):
        return
    with ir.InsertionPoint(constant), constant.location:
        element = arith.constant(kind.element_type, constant.attributes["value"].get_splat_value())
        filled = linalg_fill(element, tensor.empty(kind.shape, kind.element_type))
    replace(constant, [filled])


def take_constants(
    module: ir.Module,
    params: dict[str, Any],
    resources: Mapping[str, bytes] | None = None,
    operations: Sequence[str] = ("arith.constant",),
) -> None:
    """Move large constants into `params` and leave ``dense_resource<name>`` in their place.

    `operations` are the names of the operations whose attribute ``value`` is read; `resources` has the data by key.
    Raises `ParseError` for a resource without data.
    """
    references: dict[Any, ir.Attribute] = {}
    for operation in all_operations(module):
        if operation.name not in operations or (kind := _kind_of(operation)) is None:
            continue
        with errors_at(operation):
            if operation.name == "arith.constant" and storage_type(kind.element_type) is not None:
                if prod(kind.shape) <= LARGEST_LITERAL or _is_splat(operation):
                    continue
                operation = _stored_wider(operation, kind)
                kind = operation.results[0].type
            _move(operation, kind, params, resources or {}, references)


def _stored_wider(operation: ir.Operation, type_: ir.RankedTensorType) -> ir.Operation:
    wide = ir.RankedTensorType.get(type_.shape, storage_type(type_.element_type))
    with ir.InsertionPoint(operation), operation.location:
        elements = ir.DenseElementsAttr.get(np.ascontiguousarray(odd_constant(operation)), type=wide)
        constant = arith.constant(wide, elements)
        narrow = arith.trunci(type_, constant)
    replace(operation, [narrow])
    return constant.owner.operation


def _move(
    operation: ir.Operation,
    type_: ir.RankedTensorType,
    params: dict[str, Any],
    resources: Mapping[str, bytes],
    references: dict[Any, ir.Attribute],
) -> None:
    if (key := _key_of(operation)) is not None:
        if key not in resources and key not in params:
            raise ParseError(
                f"the data of resource {key!r} is missing",
                help="print the module without mlir-elide-resource-strings-if-larger and without large_resource_limit",
            )
        if key in params:
            return
        array = resource_constant(resources[key], type_, key)
    elif prod(type_.shape) <= LARGEST_LITERAL or _is_splat(operation):
        return
    else:
        array = operation_constant(operation)
    content = (str(type_), blake2b(np.ascontiguousarray(array).view(np.uint8).data, digest_size=16).digest())
    if content not in references and key is not None:
        references[content], params[key] = operation.attributes["value"], array
    elif content not in references:
        name, references[content] = _reference(name_of(operation.location) or "constant", type_, params)
        params[name] = array
    operation.attributes["value"] = references[content]


def new_resource(name_hint: str, type_: ir.RankedTensorType, array: np.ndarray, params: dict[str, Any]) -> ir.Attribute:
    """Return a ``dense_resource`` of a new name, whose elements `params` holds from now on."""
    name, attribute = _reference(name_hint, type_, params)
    params[name] = array
    return attribute


def _reference(name_hint: str, type_: ir.RankedTensorType, params: dict[str, Any]) -> tuple[str, ir.Attribute]:
    name, count = name_hint, 0
    while True:
        quoted = ir.StringAttr.get(name)
        attribute = ir.Attribute.parse(f"dense_resource<{quoted}> : {type_}")
        # MLIR appends a number to a key that its context knows already.
        if (key := resource_key(attribute)) is not None and key not in params:
            return key, attribute
        name, count = f"{name_hint}_{count}", count + 1


def _kind_of(operation: ir.Operation) -> ir.RankedTensorType | None:
    if "value" not in operation.attributes:
        return None
    kind = ir.TypeAttr(operation.attributes["type"]).value if "type" in operation.attributes else None
    if kind is None:
        try:
            kind = getattr(operation.attributes["value"], "type", None)
        except TypeError:
            # Complex elements: the bindings have no class for this attribute.
            kind = operation.results[0].type
    return kind if isinstance(kind, ir.RankedTensorType) else None


def _key_of(operation: ir.Operation) -> str | None:
    try:
        return resource_key(operation.attributes["value"])
    except TypeError:
        return None


def _is_splat(operation: ir.Operation) -> bool:
    try:
        attribute = operation.attributes["value"]
    except TypeError:
        array = operation_constant(operation)
        return bool((array == array.flat[0]).all())
    return isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat
