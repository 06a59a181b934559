"""Export a stage for other MLIR tools: text or bytecode, weights inside or outside, results returned or written.

They lack the dialect of stage `tri`: ``mlir-opt --irdl-file=tri.irdl.mlir`` reads it, with the file beside
`mlirtri.dialect.tri`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np

from mlirtri.compiler.records import COMPILING
from mlirtri.dialect.bindings.mlir import (
    ir,
    passmanager,
    print_complete,
    print_module,
    public_functions,
    without_own_attributes,
)
from mlirtri.dialect.definition import context_for
from mlirtri.errors import UnknownOptionError, UnsupportedOperationError
from mlirtri.lowering.mlir_common.attributes import BOUND, argument_attributes, result_attributes, set_signature
from mlirtri.lowering.mlir_common.constants import constant_of

FORMATS = ("text", "bytecode")
PARAMS = ("arguments", "inline")


@dataclass(frozen=True)
class Form:
    """The options of an exported stage."""

    bare: bool = False
    """Without locations and without attributes of ours."""
    format: str = "text"
    """``text``, or ``bytecode``: MLIR's own binary form."""
    params: str = "arguments"
    """Bound tensors (weights) stay ``arguments`` that the caller passes last, or become constants: ``inline``."""
    destinations: bool = False
    """Results are memory that the caller passes, as memrefs after all arguments, instead of values returned."""

    def __post_init__(self) -> None:
        for name, value, values in (("format", self.format, FORMATS), ("params", self.params, PARAMS)):
            if value not in values:
                raise UnknownOptionError(f"{name}={value!r} is not known", help=f"it is one of {', '.join(values)}")


def exported(text: str, form: Form, params: Mapping[str, object]) -> str | bytes:
    """Return `text` in that form; raises `UnsupportedOperationError` for options that its stage cannot have."""
    if form == Form():
        return text
    with COMPILING, context_for(text), ir.Location.unknown():
        module = ir.Module.parse(text)
        if form.params == "inline":
            _inline(module, params)
        if form.destinations:
            _write_results(module)
        if form.bare:
            without_own_attributes(module)
        if form.format == "text":
            return print_module(module) if form.bare else print_complete(module)
        return _bytecode(module, form.bare)


def _bytecode(module: Any, bare: bool) -> bytes:
    if bare:
        passmanager.PassManager.parse("builtin.module(strip-debuginfo)").run(module.operation)
    buffer = BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def _function(module: Any, option: str) -> Any:
    [function] = public_functions(module)
    kinds = (*function.type.inputs, *function.type.results) if function.operation.name == "func.func" else ()
    if function.operation.name != "func.func" or any(isinstance(kind, ir.MemRefType) for kind in kinds):
        raise UnsupportedOperationError(
            f"a function on memory cannot be exported with {option}", help="export stage linalg or fused"
        )
    return function


def _inline(module: Any, params: Mapping[str, Any]) -> None:
    function = _function(module, 'params="inline"')
    arguments, block = argument_attributes(function), function.regions[0].blocks[0]
    with ir.InsertionPoint.at_block_begin(block):
        for position in reversed(range(len(arguments))):
            if BOUND not in arguments[position]:
                continue
            argument = block.arguments[position]
            array = _array(params[ir.StringAttr(arguments[position][BOUND]).value])
            with argument.location:
                argument.replace_all_uses_with(constant_of(array, argument.type))
            block.erase_argument(position)
            del arguments[position]
    set_signature(function, arguments, result_attributes(function))


def _array(tensor: Any) -> Any:
    if not hasattr(tensor, "detach"):
        return np.asarray(tensor)
    from mlirtri.calls.arrays import as_array  # loads torch, which the tensor has done

    return as_array(tensor.detach().cpu())


def _write_results(module: Any) -> None:
    """Return results in memrefs of the caller, in upstream's form, which bufferization writes directly."""
    function = _function(module, "destinations")
    arguments, results = argument_attributes(function), result_attributes(function)
    block = function.regions[0].blocks[0]
    terminator = block.operations[len(block.operations) - 1].operation
    values = list(terminator.operands)
    for position, value in enumerate(values):
        kind = ir.MemRefType.get(list(value.type.shape), value.type.element_type)
        destination = block.add_argument(kind, ir.Location.name(f"out{position}" if len(values) > 1 else "out"))
        ir.Operation.create(
            "bufferization.materialize_in_destination",
            operands=[value, destination],
            attributes={"restrict": ir.UnitAttr.get(), "writable": ir.UnitAttr.get()},
            loc=value.location if isinstance(value.owner, ir.Block) else value.owner.location,
            ip=ir.InsertionPoint(terminator),
        )
    ir.Operation.create("func.return", loc=terminator.location, ip=ir.InsertionPoint(terminator))
    terminator.erase()
    set_signature(function, [*arguments, *results], [])
