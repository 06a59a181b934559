"""Calls of kernels in torch.fx graphs: operators that `mt.torch_op` registered become calls of functions in linalg.

    %y = lead.affine(%x, %w)   ──►   %a = torch_c.to_builtin_tensor %x; %b = torch_c.to_builtin_tensor %w
                                     %r = func.call @affine(%a, %b); %y = torch_c.from_builtin_tensor %r

What the kernel checks at run time are assertions at the end of its function.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from mlirtri.dialect.bindings.locations import location_of
from mlirtri.dialect.bindings.mlir import all_operations_in, arith, ir, tensor
from mlirtri.errors import name_of_error
from mlirtri.lowering.core.interface import RuntimeCheck
from mlirtri.lowering.mlir_common.aliasing import terminator
from mlirtri.lowering.mlir_common.attributes import ERROR, KERNEL
from mlirtri.lowering.mlir_common.cloning import replace
from mlirtri.lowering.mlir_common.linalg_builder import cast_to
from mlirtri.lowering.mlir_common.reading import symbol_name

_OF_NUMBERS = {"!torch.int": ("torch_c.to_i64", "i64"), "!torch.float": ("torch_c.to_f64", "f64")}


@dataclass(frozen=True)
class KernelCall:
    """The kernel that a node of a graph calls, lowered to linalg for the node's types."""

    name: str
    """The function's name in `module`."""
    module: str
    """The text of its module."""
    operands: tuple[Any, ...]
    """What each argument of the function gets: a node of the graph or a number."""
    results: tuple[int | None, ...]
    """The index of each result of the node among the function's; None for one that nothing uses."""
    checks: tuple[RuntimeCheck, ...]


def known_size(size: int | torch.SymInt) -> int | None:
    """Return a static size as an int, else None; torch may keep a symbol for a size that it knows."""
    if isinstance(size, torch.SymInt):
        return int(size.node.expr) if size.node.expr.is_number else None
    return int(size)


def with_kernels(importer: Any, calls: Mapping[str, KernelCall]) -> Any:
    """Return a subclass of torch-mlir's node importer `importer` that imports the nodes named in `calls` as calls."""
    if not calls:
        return importer

    class Calling(importer):  # type: ignore[misc]
        def _import_torch_op_overload(self, location: ir.Location, node: Any, *rest: Any) -> None:
            if node.name not in calls:
                super()._import_torch_op_overload(location, node, *rest)
                return
            _import(self, location, node, calls[node.name])

    return Calling


def _import(importer: Any, location: ir.Location, node: Any, call: KernelCall) -> None:
    module = importer.fx_importer.module
    with location:
        function = _added(module, call)
        kinds = function.attributes["function_type"].value
        operands = [
            _operand(importer, location, value, kind) for value, kind in zip(call.operands, kinds.inputs, strict=True)
        ]
        symbol = ir.FlatSymbolRefAttr.get(symbol_name(function))
        called = ir.Operation.create("func.call", kinds.results, operands, {"callee": symbol}).results
        checked = {check.index for check in call.checks}
        indices = [index for index in range(len(called) + len(checked)) if index not in checked]
        by_index = dict(zip(indices, called, strict=True))
        values = node.meta["val"]
        is_single = isinstance(values, torch.Tensor)
        for position, (value, index) in enumerate(zip([values] if is_single else values, call.results, strict=True)):
            if index is not None:
                importer.bind_node_value(node, _result(by_index[index], value, importer), position)
    if not is_single:
        importer._multi_result_nodes.add(node)


def _added(module: ir.Module, call: KernelCall) -> ir.Operation:
    """Add the kernel's function to `module` under a name of its own."""
    parsed = ir.Module.parse(call.module, module.context)
    taken = {symbol_name(operation) for operation in module.body.operations if "sym_name" in operation.attributes}
    [source] = [operation for operation in parsed.body.operations if "sym_name" in operation.attributes]
    function = source.operation.clone(ir.InsertionPoint.at_block_begin(module.body))
    for attribute in [name for name in function.attributes if name not in ("sym_name", "function_type")]:
        del function.attributes[attribute]
    numbered = (f"{call.name}_{count}" for count in itertools.count(1))
    name = next(name for name in itertools.chain([call.name], numbered) if name not in taken)
    function.attributes["sym_name"] = ir.StringAttr.get(name)
    function.attributes["sym_visibility"] = ir.StringAttr.get("private")
    function.attributes[KERNEL] = ir.UnitAttr.get()
    _build_complex_constants(function)
    _assert(function, call)
    return function


def _build_complex_constants(function: ir.Operation) -> None:
    """Replace constants of complex numbers, which torch-mlir's pipeline refuses, by their parts."""
    for operation in all_operations_in(function):
        if operation.name != "complex.constant":
            continue
        type_ = operation.results[0].type
        with operation.location, ir.InsertionPoint(operation):
            parts = [arith.constant(type_.element_type, part.value) for part in operation.attributes["value"]]
            number = ir.Operation.create("complex.create", [type_], parts).result
        replace(operation, [number])


def _assert(function: ir.Operation, call: KernelCall) -> None:
    """Replace the results that hold what a check found by assertions."""
    block = function.regions[0].blocks[0]
    end = terminator(block)
    checked = {check.index for check in call.checks}
    with ir.InsertionPoint(end):
        for check in call.checks:
            with location_of(check.span, call.name):
                found = tensor.extract(end.operands[check.index], [])
                holds = arith.cmpi(arith.CmpIPredicate.ne, found, arith.constant(found.type, check.code))
                attributes = {
                    "msg": ir.StringAttr.get(check.message),
                    ERROR: ir.StringAttr.get(name_of_error(check.error)),
                }
                ir.Operation.create("cf.assert", operands=[holds], attributes=attributes)
        kept = [operand for index, operand in enumerate(end.operands) if index not in checked]
        ir.Operation.create("func.return", operands=kept, loc=end.location)
    end.erase()
    inputs = [argument.type for argument in block.arguments]
    kind = ir.FunctionType.get(inputs, [operand.type for operand in kept])
    function.attributes["function_type"] = ir.TypeAttr.get(kind)


def _operand(importer: Any, location: ir.Location, value: Any, type_: ir.Type) -> ir.Value:
    """Return the operand of a call, of the builtin type `type_`."""
    if not isinstance(value, torch.fx.Node):
        return _constant(value, type_)
    operand = importer._import_argument(location, value)
    if (shown := str(operand.type)) in _OF_NUMBERS:
        conversion, converted = _OF_NUMBERS[shown]
        number = ir.Operation.create(conversion, [ir.Type.parse(converted)], [operand]).result
        return ir.Operation.create("tensor.from_elements", [type_], [_narrowed(number, type_.element_type)]).result
    converted_type = _builtin_type(value.meta["val"], type_.element_type)
    converted = ir.Operation.create("torch_c.to_builtin_tensor", [converted_type], [operand]).result
    return cast_to(converted, type_)


def _constant(value: Any, type_: ir.Type) -> ir.Value:
    is_integer = isinstance(type_.element_type, ir.IntegerType)
    number = (
        ir.IntegerAttr.get(type_.element_type, int(value))
        if is_integer
        else ir.FloatAttr.get(type_.element_type, value)
    )
    return arith.constant(type_, ir.DenseElementsAttr.get_splat(type_, number))


def _narrowed(number: ir.Value, type_: ir.Type) -> ir.Value:
    """Return an i64 or f64 as a number of the width that a parameter has."""
    if number.type == type_:
        return number
    return (arith.trunci if isinstance(type_, ir.IntegerType) else arith.truncf)(type_, number)


def _result(value: ir.Value, expected: Any, importer: Any) -> ir.Value:
    """Return a result of a function as torch-mlir's value of the type of `expected`."""
    cast = cast_to(value, _builtin_type(expected, value.type.element_type))
    return ir.Operation.create(
        "torch_c.from_builtin_tensor", [importer._cc.value_info_to_type(expected)], [cast]
    ).result


def _builtin_type(value: torch.Tensor, element_type: ir.Type) -> ir.Type:
    sizes = [known_size(size) for size in value.shape]
    dynamic = ir.ShapedType.get_dynamic_size()
    return ir.RankedTensorType.get([dynamic if size is None else size for size in sizes], element_type)
