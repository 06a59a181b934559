"""Derive the `Interface` of IR that did not come from Python from its module, and from the manifest of its dump.

Attributes of an imported function (`lowering/mlir_common/attributes.py`) record what its type lacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlirtri.compiler.dumps import MANIFEST, read_manifest
from mlirtri.compiler.interface_json import from_json
from mlirtri.dialect.base.dtypes import STORED, as_dtype, find_stored
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.dialect.bindings.locations import span_of
from mlirtri.dialect.bindings.mlir import ir, public_functions
from mlirtri.dialect.definition import type_of
from mlirtri.errors import KernelError, ParseError, Span, error_class
from mlirtri.lowering.core.interface import Interface, Leaf, RuntimeCheck
from mlirtri.lowering.core.named_sizes import merged, named_sizes, signature_program
from mlirtri.lowering.core.size_program import SizeProgram
from mlirtri.lowering.core.stage import StageIR
from mlirtri.lowering.linalg.rewrites import decompose, tri_operations
from mlirtri.lowering.linalg.tri_to_linalg import translate
from mlirtri.lowering.mlir_common.attributes import (
    BOUND,
    CHECK,
    CHECK_LOCATION,
    DTYPE,
    IMPORTED,
    LENGTHS,
    NUMBER,
    SIGNATURE,
    STATE,
    UPDATES,
    argument_attributes,
    argument_names,
    noted_strides,
    result_attributes,
    strides_of,
)
from mlirtri.lowering.mlir_common.imperative import updates_of
from mlirtri.lowering.mlir_common.reading import symbol_name
from mlirtri.lowering.sizes.infer_size_program import is_static, size_program
from mlirtri.lowering.sizes.size_arguments import unknown_sizes, unknown_strides


def interface_of(kind: str, module: StageIR, path: Path) -> tuple[str, Interface, str]:
    """Return name, interface and semantics, with the manifest beside a dumped file, if any.

    Only the manifest has signs of integers, the nesting of results, and run-time checks. It is ignored if the
    file's shapes or dtypes were edited.
    """
    name, interface = function_of(kind, module, path)
    recorded, semantics = read_manifest(path.parent) if path.is_file() else None, "torch"
    if recorded is not None and recorded["kernel"] == name:
        recorded_interface = from_json(recorded["interface"], path.parent / MANIFEST)
        semantics = recorded.get("semantics", "torch")
        interface = recorded_interface if fits(interface, recorded_interface) else interface
    if interface.sizes is None and not all(leaf.is_static for leaf in interface.leaves):
        raise ParseError(
            f"{name!r} has results of sizes known at run time only, and the file does not say which",
            Span(str(path), 1, 1),
            help=f"resume from a dump with its {MANIFEST}, or at an earlier stage",
        )
    return name, interface, semantics


def function_of(kind: str, module: StageIR, path: Path) -> tuple[str, Interface]:
    """Return the name of the module's only function, and its interface as far as the module defines it."""
    if kind == "mlir":
        return _of_mlir(module, path)
    from mlirtri.compiler.relax_modules import function_of_relax  # loads TVM

    return function_of_relax(module, path)


def fits(interface: Interface, other: Interface) -> bool:
    """Return whether both have the same types, but for signs, complex numbers and bounds, which later stages drop."""
    return _bits(interface) == _bits(other)


def described(interface: Interface) -> str:
    """Return the types as ``(f32[2], f32[2]) -> (f32[2])``."""
    parameters = ", ".join(str(parameter.type) for parameter in interface.parameters)
    return f"({parameters}) -> ({', '.join(map(str, interface.leaves))})"


def _bits(interface: Interface) -> tuple[Any, ...]:
    types = [parameter.type for parameter in (*interface.parameters, *interface.bound)]
    groups = (types, interface.leaves)
    return tuple(tuple(_memory(type_) for type_ in group) for group in groups)


def _memory(type_: TensorType) -> tuple[Any, ...]:
    shape = (*type_.shape, 2) if type_.dtype.is_complex else type_.shape
    return shape, "int8" if type_.dtype.name in STORED else type_.dtype.part.name.removeprefix("u")


def _of_mlir(module: Any, path: Path) -> tuple[str, Interface]:
    functions = public_functions(module)
    if len(functions) != 1:
        span = _span_of_function(functions[1], path) if functions else Span(str(path), 1, 1)
        raise ParseError(f"expected a module of one function, found {len(functions)}", span)
    [function] = functions
    inputs, results = _signature(module, function, path)
    names = argument_names(function)[: len(inputs)]
    updates = _updates_of_mlir(module, function)
    symbol = symbol_name(function)
    if function.operation.name == "llvm.func":
        from mlirtri.lowering.mlir_backend.llvm.bufferized_to_llvmdialect import kernel_of  # late: with 12 files

        symbol = kernel_of(symbol)
    interface = _with_attributes(function, Interface.of_types(names, inputs, results, updates))
    return symbol, replace(_with_strides(module, function, interface), sizes=_sizes(module, function))


def _with_strides(module: Any, function: Any, interface: Interface) -> Interface:
    """Return the interface with the strides of arguments that are read and written where they lie."""
    strides = noted_strides(module)
    if function.operation.name == "func.func":
        strides |= strides_of(function)
    parameters = [replace(each, strides=strides.get(number)) for number, each in enumerate(interface.parameters)]
    return replace(interface, parameters=tuple(parameters)) if strides else interface


def _sizes(module: Any, function: Any) -> SizeProgram | None:
    if function.operation.name != "func.func":
        return None
    if not all(isinstance(kind, ir.RankedTensorType) for kind in (*function.type.inputs, *function.type.results)):
        return None

    # The frontend has checked the sizes inside of Python's functions.
    if is_static(function) and IMPORTED not in function.attributes:
        return None
    return _inferred(module)


def with_sizes(interface: Interface, module: ir.Module) -> Interface:
    """Return the interface of a kernel's `tri` module with its size program; itself where all sizes are static."""
    if all(parameter.type.is_static for parameter in interface.parameters):
        return interface
    names = [parameter.name for parameter in interface.parameters]
    of_signature = signature_program(named_sizes([p.type.shape for p in interface.parameters], names))
    inferred = _inferred(module)
    return replace(interface, sizes=of_signature if inferred is None else merged(of_signature, inferred))


def _inferred(module: Any) -> SizeProgram | None:
    if not tri_operations(module):
        return size_program(module)
    with module.context, ir.Location.unknown():
        source = ir.Module.parse(module.operation.get_asm(enable_debug_info=True))
        decompose(source, lambda op, operation: True)
        return size_program(translate(source))


def _updates_of_mlir(module: Any, function: Any) -> dict[int, int]:
    if UPDATES not in module.operation.attributes:
        return updates_of(function)
    numbers = list(module.operation.attributes[UPDATES])
    return dict(zip(numbers[::2], numbers[1::2], strict=True))


def _signature(module: Any, function: Any, path: Path) -> tuple[list[TensorType], list[TensorType]]:
    signature = ir.TypeAttr(function.attributes["function_type"]).value
    is_func = function.operation.name == "func.func"
    if not is_func or any(isinstance(type_, ir.MemRefType) for type_ in (*signature.inputs, *signature.results)):
        signature = _signature_before_buffers(module, function, path)
    try:
        return [type_of(type_) for type_ in signature.inputs], [type_of(type_) for type_ in signature.results]
    except KernelError as error:
        raise ParseError(
            error.message, _span_of_function(function, path), help="kernels take and return ranked tensors"
        ) from None


def _span_of_function(function: Any, path: Path) -> Span:
    """Return where a function stands; text is parsed under the name "-", so its file is shown instead."""
    span = span_of(function.location) or Span(str(path), 1, 1)
    return replace(span, file=str(path)) if span.file == "-" else span


def _signature_before_buffers(module: Any, function: Any, path: Path) -> Any:
    span, attributes = _span_of_function(function, path), module.operation.attributes
    if SIGNATURE not in attributes:
        raise ParseError(
            f"which buffers of {function.attributes['sym_name'].value!r} are results is not said",
            span,
            help=f"resume at an earlier stage, or give the module {{{SIGNATURE} = (tensor<…>) -> tensor<…>}}",
        )
    signature = ir.FunctionType(ir.TypeAttr(attributes[SIGNATURE]).value)
    updated = _updates_of_mlir(module, function).values()
    returned = [kind for position, kind in enumerate(signature.results) if position not in updated]
    buffers = len(signature.inputs) + len(returned)
    if function.operation.name == "llvm.func":
        buffers += len(unknown_sizes([kind.shape for kind in (*signature.inputs, *returned)]))
        buffers += len(unknown_strides(noted_strides(module)))
    if buffers != len(function.regions[0].blocks[0].arguments):
        raise ParseError(f"{SIGNATURE} has not as many types as the function has buffers", span)
    return signature


def _with_attributes(function: Any, interface: Interface) -> Interface:
    if function.operation.name != "func.func":
        return interface
    results = result_attributes(function)
    arguments = argument_attributes(function)[: len(interface.parameters)]
    bound = [attributes[BOUND].value for attributes in arguments if BOUND in attributes]
    parameters = [
        replace(parameter, type=_as_seen(parameter.type, attributes.get(DTYPE)))
        for parameter, attributes in zip(interface.parameters, arguments, strict=True)
    ]
    # The results of a bufferized function are arguments, without result attributes.
    leaves = [
        _as_seen(leaf, attributes.get(DTYPE))
        for leaf, attributes in zip(interface.leaves, _padded(results, interface), strict=True)
    ]
    checks = _checks(function, results)
    states = tuple((bound.index(named[STATE].value), index) for index, named in enumerate(results) if STATE in named)
    count = len(parameters) - len(bound)
    counts = {index: _pairs(list(named[LENGTHS])) for index, named in enumerate(results) if LENGTHS in named}
    hidden = {*(check.index for check in checks), *(index for _, index in states), *dict(interface.updates).values()}
    hidden |= {result for pairs in counts.values() for _, result in pairs}
    return replace(
        interface,
        parameters=tuple(parameters[:count]),
        bound=tuple(replace(parameter, name=name) for parameter, name in zip(parameters[count:], bound, strict=True)),
        leaves=tuple(leaves),
        tree=_tree([Leaf(i, type_, counts.get(i, ())) for i, type_ in enumerate(leaves) if i not in hidden]),
        checks=checks,
        states=states,
        numbers=tuple(index for index, attributes in enumerate(results) if NUMBER in attributes),
    )


def _checks(function: Any, results: Sequence[dict[str, Any]]) -> tuple[RuntimeCheck, ...]:
    checks = []
    for index, attributes in enumerate(results):
        if CHECK in attributes:
            name, _, message = attributes[CHECK].value.partition(": ")
            location = attributes.get(CHECK_LOCATION)
            span = span_of(function.location) if location is None else _span(location.value)
            checks.append(RuntimeCheck(index, error_class(name), message, span))
    return tuple(checks)


def _span(text: str) -> Span:
    file, line, column = text.rsplit(":", 2)
    return Span(file, int(line), int(column))


def _pairs(numbers: Sequence[int]) -> tuple[tuple[int, int], ...]:
    return tuple(zip(numbers[::2], numbers[1::2], strict=True))


def _as_seen(type_: TensorType, dtype: Any) -> TensorType:
    return type_ if dtype is None else type_.with_dtype(find_stored(dtype.value) or as_dtype(dtype.value))


def _padded(results: list[dict[str, Any]], interface: Interface) -> list[dict[str, Any]]:
    return results if len(results) == len(interface.leaves) else [{} for _ in interface.leaves]


def _tree(leaves: Sequence[Leaf]) -> Any:
    if not leaves:
        return None
    return leaves[0] if len(leaves) == 1 else tuple(leaves)
