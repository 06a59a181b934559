"""Large constants of an imported function become bound parameters: arguments whose tensors the program holds.

Takes a function with `arith.constant` of tensors. Gives it with an argument more for each that has more than
`LARGEST_LITERAL` elements and is no splat; the tensors are in `context.params`. Refuses nothing.
"""

from __future__ import annotations

from mlirtri.dialect.locations import name_of
from mlirtri.dialect.mlir import ir, operations_named, public_functions
from mlirtri.lowering.imports import BOUND, argument_attributes, result_attributes, set_signature
from mlirtri.lowering.mlir_reading import array_constant, scalar_constant
from mlirtri.lowering.stage import CompileContext

LARGEST_LITERAL = 64
"""Elements of a constant that stays in the text."""


def rewrite(module: ir.Module, context: CompileContext) -> None:
    """Move the large constants of the only function into `context.params`."""
    [function] = public_functions(module)
    arguments = argument_attributes(function)
    for constant in operations_named(module, "arith.constant"):
        kind = constant.results[0].type
        if not isinstance(kind, ir.RankedTensorType) or _elements(kind) <= LARGEST_LITERAL:
            continue
        attribute = constant.attributes["value"]
        if scalar_constant(attribute) is not None:
            continue
        name = _unique(name_of(constant.location) or "constant", context)
        context.params[name] = array_constant(attribute)
        argument = function.regions[0].blocks[0].add_argument(kind, ir.Location.name(name, constant.location))
        arguments.append({BOUND: ir.StringAttr.get(name)})
        constant.results[0].replace_all_uses_with(argument)
        constant.erase()
    set_signature(function, arguments, result_attributes(function))


def _elements(kind: ir.RankedTensorType) -> int:
    count = 1
    for size in kind.shape:
        count *= size
    return count


def _unique(wish: str, context: CompileContext) -> str:
    name, count = wish, 0
    while name in context.params:
        name, count = f"{wish}_{count}", count + 1
    return name
