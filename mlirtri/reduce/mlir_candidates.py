"""Smaller MLIR: functions, results, operations and arguments go, and sizes shrink.

The uses of an operation that goes read one of its operands instead, or another value of the type, or a new argument.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from mlirtri.dialect.bindings.locations import name_arguments, parse_text
from mlirtri.dialect.bindings.mlir import ir
from mlirtri.dialect.definition import context_for
from mlirtri.errors import KernelError
from mlirtri.reduce.search import chunks

_SHAPE = re.compile(r"\b(?:tensor|memref|vector)<[^<>]*")
_TERMINATORS = ("func.return", "return")


def candidates(text: str) -> Iterator[str]:
    """Yield smaller modules that verify, the much smaller ones first; nothing for a text that does not parse."""
    module = _parsed(text)
    if module is None:
        return
    functions = len(module.body.operations)
    for dropped in chunks(functions):
        if len(dropped) < functions:
            yield from _changed(text, lambda copy, dropped=dropped: _drop_functions(copy, dropped))
    for number, block in enumerate(_blocks(module)):
        count = len(block.operations) - 1 if number else 0  # the module's own are functions
        for dropped in chunks(count):
            yield from _changed(text, lambda copy, number=number, dropped=dropped: _drop_from(copy, number, dropped))
    for function, position in _positions(module, _results):
        yield from _changed(text, lambda copy, path=(function, position): _drop_result(copy, *path))
    for function, position in _positions(module, _arguments):
        yield from _changed(text, lambda copy, path=(function, position): _drop_argument(copy, *path))
    yield from _smaller_shapes(text)


def _parsed(text: str) -> ir.Module | None:
    context = context_for(text)
    context.allow_unregistered_dialects = True
    try:
        module = parse_text(text, "-", context)
    except KernelError:
        return None
    name_arguments(module, text)
    return module


def _changed(text: str, change: Callable[[ir.Module], bool]) -> Iterator[str]:
    """Yield the text of a changed copy, if there was something to change and the result verifies."""
    module = _parsed(text)
    assert module is not None
    try:
        with module.context, ir.Location.unknown():
            if change(module) and module.operation.verify():
                yield module.operation.get_asm(use_name_loc_as_prefix=True)
    except (ir.MLIRError, ValueError, IndexError):
        return


def _blocks(module: ir.Module) -> list[ir.Block]:
    """Return all blocks, outer ones first."""
    blocks: list[ir.Block] = []

    def visit(operation: ir.Operation) -> None:
        for region in operation.regions:
            for block in region.blocks:
                blocks.append(block)
                for inner in block.operations:
                    visit(inner.operation)

    visit(module.operation)
    return blocks


def _functions(module: ir.Module) -> list[ir.Operation]:
    return [operation.operation for operation in module.body.operations if operation.operation.name == "func.func"]


def _results(function: ir.Operation) -> int:
    return len(ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).results)


def _arguments(function: ir.Operation) -> int:
    return len(ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).inputs)


def _positions(module: ir.Module, count: Callable[[ir.Operation], int]) -> Iterator[tuple[int, int]]:
    for number, function in enumerate(_functions(module)):
        yield from ((number, position) for position in reversed(range(count(function))))


def _drop_functions(module: ir.Module, dropped: range) -> bool:
    operations = list(module.body.operations)
    for position in reversed(dropped):
        operations[position].operation.erase()
    return True


def _drop_from(module: ir.Module, number: int, dropped: range) -> bool:
    """Drop operations of a block, with what stands for their results."""
    block = _blocks(module)[number]
    operations = [operation.operation for operation in block.operations]
    for position in reversed(dropped):
        for result in operations[position].results:
            if not any(True for _ in result.uses):
                continue
            substitute = _substitute(result, operations[:position], block) or _new_argument(block, result)
            if substitute is None:
                return False
            result.replace_all_uses_with(substitute)
        operations[position].erase()
    return True


def _substitute(result: ir.Value, before: list[ir.Operation], block: ir.Block) -> ir.Value | None:
    own = list(result.owner.operands)
    earlier = [value for operation in reversed(before) for value in operation.results]
    return next((value for value in [*own, *block.arguments, *earlier] if value.type == result.type), None)


def _new_argument(block: ir.Block, result: ir.Value) -> ir.Value | None:
    """Return a new argument of the function around a block, for a value that nothing else can stand for."""
    owner = block.owner.operation
    while owner.name != "func.func":
        if owner.parent is None:
            return None
        owner = owner.parent.operation
    entry = owner.regions[0].blocks[0]
    argument = entry.add_argument(result.type, result.location)
    _set_type(owner)
    return argument


def _set_type(function: ir.Operation) -> None:
    """Give a function the type of its entry block and terminator, without attributes of arguments."""
    entry = function.regions[0].blocks[0]
    blocks = list(function.regions[0].blocks)
    terminator = list(blocks[-1].operations)[-1].operation
    inputs = [argument.type for argument in entry.arguments]
    outputs = [operand.type for operand in terminator.operands]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, outputs))
    for name in ("arg_attrs", "res_attrs"):
        if name in function.attributes:
            del function.attributes[name]


def _drop_result(module: ir.Module, number: int, position: int) -> bool:
    function = _functions(module)[number]
    blocks = list(function.regions[0].blocks)
    if len(blocks) != 1:
        return False
    terminator = list(blocks[0].operations)[-1].operation
    if terminator.name not in _TERMINATORS or len(terminator.operands) < 2:
        return False
    operands = [operand for index, operand in enumerate(terminator.operands) if index != position]
    ir.Operation.create("func.return", operands=operands, loc=terminator.location, ip=ir.InsertionPoint(terminator))
    terminator.erase()
    _set_type(function)
    return True


def _drop_argument(module: ir.Module, number: int, position: int) -> bool:
    function = _functions(module)[number]
    if not len(function.regions[0].blocks):
        return False
    entry = function.regions[0].blocks[0]
    argument = entry.arguments[position]
    others = [other for other in entry.arguments if other != argument and other.type == argument.type]
    if any(True for _ in argument.uses):
        if not others:
            return False
        argument.replace_all_uses_with(others[0])
    entry.erase_argument(position)
    _set_type(function)
    return True


def _smaller_shapes(text: str) -> Iterator[str]:
    """Yield modules in which all axes of one size are shorter, where that verifies."""
    sizes = {int(size) for shape in _SHAPE.findall(text) for size in re.findall(r"(?<=[<x])(\d+)(?=x)", shape)}
    for size in sorted(sizes, reverse=True):
        for shorter in dict.fromkeys((1, 2, size // 2, size - 1)):
            if not 0 < shorter < size:
                continue
            pattern = re.compile(rf"(?<=[<x]){size}(?=x)")
            smaller = _SHAPE.sub(lambda match, to=shorter, pattern=pattern: pattern.sub(str(to), match[0]), text)
            module = _parsed(smaller)
            if smaller != text and module is not None:
                yield smaller
