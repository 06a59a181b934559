"""Attributes that one stage of MLIR writes and others read; most describe arguments and results of a function.

    func.func @main(%x: tensor<4xf32>, %w: tensor<1000xf32> {mlirtri.bound = "w"})
        -> (tensor<4xf32>, tensor<i1> {mlirtri.check = "KernelValueError: index out of range"})

The caller does not pass a bound argument: its tensor is a parameter of the program (weights, large constants).
Bound arguments come after all others. A check is a result of rank 0 that has to be false, else its error is raised.
`mlirtri.dtype = "uint8"` is what the caller sees of a tensor whose dtype has lost its sign.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mlirtri.dialect.bindings.locations import name_of
from mlirtri.dialect.bindings.mlir import func, ir
from mlirtri.lowering.mlir_common.aliasing import terminator

BOUND = "mlirtri.bound"
"""Attribute of an argument: the name of the parameter that it stands for."""
NAME = "mlirtri.name"
"""Attribute of an argument: the name that calls give it, where MLIR's text cannot print that as a value's."""
CHECK = "mlirtri.check"
"""Attribute of a result that is a check: ``"ErrorClass: message"``."""
CHECK_LOCATION = "mlirtri.check_location"
"""Attribute of a result that is a check: ``"file:line:column"`` of its assertion."""
ERROR = "mlirtri.error"
"""Attribute of a `cf.assert`: the name of the error class that it raises, `ProgramAssertionError` without one."""
SIZES = "mlirtri.sizes"
"""Attribute of an argument: the name of each axis's size, ``""`` for none. Sizes of one name are equal."""
KEEPS_BOUNDS = "mlirtri.guarded"
"""Attribute of a function of Python's source with arguments of run-time size: what depends on elements stays in bounds.
"""
STRIDES = "mlirtri.strides"
"""Attribute of an argument that need not be row-major: the stride of each axis in elements, `DYNAMIC` at run time."""
JOINED = "mlirtri.joined"
"""Attribute of a `memref.reinterpret_cast` whose last axis runs through the last axes of a row-major array."""
ARGUMENT_STRIDES = "mlirtri.argument_strides"
"""Attribute of a bufferized module: for each argument that is not row-major, its number and its strides."""
STATE = "mlirtri.state"
"""Attribute of a result: the name of the bound argument that takes its value at the next call."""
IMPORTED = "mlirtri.imported"
"""Attribute of a function that did not come from Python's source."""
KERNEL = "mlirtri.kernel"
"""Attribute of a function of an imported module that is a kernel in Python's source, which has its own checks."""
LENGTHS = "mlirtri.lengths"
"""Attribute of a result padded to its largest size: axes, each with the result that gives its size."""
NUMBER = "mlirtri.number"
"""Attribute of a rank-0 result, without value: Python gets a number instead of a tensor."""
UPDATES = "mlirtri.updates"
"""Attribute of a bufferized module: pairs of an updated argument and the result that shares its only buffer."""
COUNTS = ("mlirtri.kernels", "mlirtri.bytes")
"""Attributes of a bufferized module: its kernels, and the bytes that they read and write."""
SIGNATURE = "mlirtri.signature"
"""Attribute of a module: the type of its function before bufferization."""
DTYPE = "mlirtri.dtype"
"""Attribute of an argument or result: our name of its dtype, where its type has lost that, or its sign."""
DECLARED_PARALLEL = "mlirtri.parallel"
"""Attribute of an `scf.for` that the kernel declares parallel: the names of its loop-carried values."""
CLAMP = "mlirtri.clamp"
"""Attribute of the `tri` operations that move an index into its axis, where indices are not checked."""


def argument_attributes(function: func.FuncOp) -> list[dict[str, ir.Attribute]]:
    """Return the attributes of each argument, as mutable dictionaries."""
    return _dictionaries(function, "arg_attrs", len(function.type.inputs))


def argument_names(function: func.FuncOp) -> list[str]:
    """Return the name of each argument by which it is given in calls: ``arg0`` and so on where it has none."""
    arguments = function.regions[0].blocks[0].arguments
    named = argument_attributes(function) if function.operation.name == "func.func" else [{}] * len(arguments)
    said = [attributes.get(NAME, attributes.get(BOUND)) for attributes in named]
    return [
        name_of(argument.location) or f"arg{position}" if name is None else name.value
        for position, (name, argument) in enumerate(zip(said, arguments, strict=True))
    ]


def strides_of(function: func.FuncOp) -> dict[int, tuple[int | None, ...]]:
    """Return the strides of each argument that need not be row-major, None for those known at run time only."""
    return {
        position: _strides(list(ir.DenseI64ArrayAttr(attributes[STRIDES])))
        for position, attributes in enumerate(argument_attributes(function))
        if STRIDES in attributes
    }


def note_strides(module: ir.Module, function: func.FuncOp) -> None:
    """Record on the module the strides of the function's arguments: memrefs are row-major until strides are passed."""
    dynamic = ir.ShapedType.get_dynamic_size()
    arrays = [
        ir.DenseI64ArrayAttr.get([position, *(dynamic if stride is None else stride for stride in strides)])
        for position, strides in sorted(strides_of(function).items())
    ]
    if arrays:
        module.operation.attributes[ARGUMENT_STRIDES] = ir.ArrayAttr.get(arrays)


def noted_strides(module: ir.Module) -> dict[int, tuple[int | None, ...]]:
    """Return what `note_strides` has recorded, as `strides_of` returns it."""
    attributes = module.operation.attributes
    arrays = attributes[ARGUMENT_STRIDES] if ARGUMENT_STRIDES in attributes else ()
    return {position: _strides(strides) for position, *strides in map(ir.DenseI64ArrayAttr, arrays)}


def _strides(numbers: Sequence[int]) -> tuple[int | None, ...]:
    dynamic = ir.ShapedType.get_dynamic_size()
    return tuple(None if stride == dynamic else stride for stride in numbers)


def result_attributes(function: func.FuncOp) -> list[dict[str, ir.Attribute]]:
    """Return the attributes of each result, as mutable dictionaries."""
    return _dictionaries(function, "res_attrs", len(function.type.results))


def set_signature(
    function: func.FuncOp, arguments: Sequence[dict[str, ir.Attribute]], results: Sequence[dict[str, ir.Attribute]]
) -> None:
    """Set the function's type to that of its body, with these attributes."""
    block = function.regions[0].blocks[0]
    inputs, returned = ([value.type for value in part] for part in (block.arguments, terminator(block).operands))
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, returned))
    for name, groups in (("arg_attrs", arguments), ("res_attrs", results)):
        if not any(groups) and name in function.attributes:
            del function.attributes[name]
        _set_dictionaries(function, name, groups)


def note_signs(function: func.FuncOp) -> None:
    """Record which arguments and results are unsigned, before later stages make them signless."""
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    for name, types in (("arg_attrs", kind.inputs), ("res_attrs", kind.results)):
        groups = _dictionaries(function, name, len(types))
        for group, type_ in zip(groups, types, strict=True):
            # Also for types that are not builtin tensors, such as `!torch.vtensor<[2],ui8>`.
            if width := re.search(r"ui(8|16|32|64)\b", str(type_)):
                group[DTYPE] = ir.StringAttr.get(f"uint{width[1]}")
        _set_dictionaries(function, name, groups)


def _set_dictionaries(function: func.FuncOp, name: str, groups: Sequence[dict[str, ir.Attribute]]) -> None:
    if any(groups):
        function.attributes[name] = ir.ArrayAttr.get([ir.DictAttr.get(group) for group in groups])


def _dictionaries(function: func.FuncOp, name: str, count: int) -> list[dict[str, ir.Attribute]]:
    if name not in function.attributes:
        return [{} for _ in range(count)]
    groups = [ir.DictAttr(group) for group in ir.ArrayAttr(function.attributes[name])]
    return [{group[index].name: group[index].attr for index in range(len(group))} for group in groups]
