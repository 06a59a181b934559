"""How to call IR that did not come from Python: an `Interface` read off a module, or off a dump's manifest.

Takes a parsed module, or the JSON of a manifest. Gives the function's name and how Python's tensors meet it.
Refuses modules of no or several functions, functions of anything but ranked tensors, and of sizes known at run time
only where neither the module nor a manifest says what they are.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlirtri.calls.dynamic_shapes import size_program_json, size_program_of_json
from mlirtri.calls.imported import error_class, with_facts
from mlirtri.compiler.dumps import MANIFEST, read_manifest
from mlirtri.dialect.base.dtypes import STORED, as_dtype, find_stored
from mlirtri.dialect.base.sizes import UNKNOWN, is_dynamic
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.errors import KernelError, ParseError, Span
from mlirtri.lowering.core.interface import Interface, Leaf, PrintLog, PrintSite, RuntimeCheck, TensorParameter
from mlirtri.lowering.core.size_program import SizeProgram


def interface_of(kind: str, ir: Any, path: Path) -> tuple[str, Interface, str]:
    """Name, interface and semantics; the manifest beside a dumped file knows more than the module does.

    Signs of integers, how results nest, and run-time checks are in no module. A file whose shapes or dtypes were edited
    is what it says it is now.
    """
    name, interface = function_of(kind, ir, path)
    recorded, semantics = read_manifest(path.parent) if path.is_file() else None, "torch"
    if recorded is not None and recorded["kernel"] == name:
        known = from_json(recorded["interface"], path.parent / MANIFEST)
        interface, semantics = known if fits(interface, known) else interface, recorded.get("semantics", "torch")
    if interface.sizes is None and not all(leaf.is_static for leaf in interface.leaves):
        raise ParseError(
            f"{name!r} has results of sizes known at run time only, and the file does not say which",
            Span(str(path), 1, 1),
            help=f"resume from a dump with its {MANIFEST}, or at an earlier stage",
        )
    return name, interface, semantics


def function_of(kind: str, ir: Any, path: Path) -> tuple[str, Interface]:
    """The name of the module's only function and what can be said of its interface without a manifest."""
    return _of_mlir(ir, path) if kind == "mlir" else _of_relax(ir, path)


def fits(found: Interface, known: Interface) -> bool:
    """Whether both have the same parameters and results, apart from names and what later rooms drop.

    Those are signs, from linalg on, complex numbers, which TVM sees as tensors of parts, and which arguments are bound.
    """
    return _bits(found) == _bits(known)


def _bits(interface: Interface) -> tuple[Any, ...]:
    types = [parameter.type for parameter in (*interface.parameters, *interface.bound)]
    groups = (types, interface.leaves)
    return tuple(tuple(_memory(each) for each in group) for group in groups)


def _memory(of: TensorType) -> tuple[Any, ...]:
    shape = (*of.shape, 2) if of.dtype.is_complex else of.shape
    return shape, "int8" if of.dtype.name in STORED else of.dtype.part.name.removeprefix("u")


def _interface(
    names: Sequence[str],
    types: Sequence[TensorType],
    results: Sequence[TensorType],
    updates: Mapping[int, int],
) -> Interface:
    """`updates` has the arguments that the function writes, with the results that are their new contents."""
    parameters = tuple(TensorParameter(name, of) for name, of in zip(names, types, strict=True))
    leaves = tuple(Leaf(index, of) for index, of in enumerate(results) if index not in updates.values())
    tree = None if not leaves else leaves[0] if len(leaves) == 1 else leaves
    return Interface(parameters, tuple(results), tree, updates=tuple(sorted(updates.items())))


# --- MLIR ----------------------------------------------------------------------------------------------------------


def _of_mlir(module: Any, path: Path) -> tuple[str, Interface]:
    from mlirtri.dialect.bindings.locations import name_of
    from mlirtri.dialect.bindings.mlir import public_functions

    functions = public_functions(module)
    if len(functions) != 1:
        raise ParseError(f"expected a module of one function, found {len(functions)}", Span(str(path), 1, 1))
    [function] = functions
    arguments = function.regions[0].blocks[0].arguments
    inputs, results = _signature(module, function, path)
    names = [name_of(argument.location) or f"arg{at}" for at, argument in enumerate(arguments)][: len(inputs)]
    updates = _updates_of_mlir(module, function)
    symbol = function.attributes["sym_name"].value
    if function.operation.name == "llvm.func":
        from mlirtri.lowering.mlir_backend.llvm.bufferized_to_llvmdialect import kernel_of

        symbol = kernel_of(symbol)
    interface = with_facts(function, _interface(names, inputs, results, updates))
    return symbol, replace(interface, sizes=_sizes(module, function))


def _sizes(module: Any, function: Any) -> SizeProgram | None:
    """What the sizes of a function on tensors are, where they are known at run time only."""
    from mlirtri.dialect.bindings.mlir import ir

    if function.operation.name != "func.func":
        return None
    if not all(isinstance(kind, ir.RankedTensorType) for kind in (*function.type.inputs, *function.type.results)):
        return None
    from mlirtri.lowering.mlir.attributes import IMPORTED
    from mlirtri.lowering.sizes.infer_size_program import is_static, size_program

    # Of Python's functions the frontend has seen to sizes inside.
    return None if is_static(function) and IMPORTED not in function.attributes else size_program(module)


def _updates_of_mlir(module: Any, function: Any) -> dict[int, int]:
    """The arguments that the function writes, with the results that are their new contents."""
    from mlirtri.lowering.mlir.imperative import updates_of
    from mlirtri.lowering.mlir_backend.bufferize.fused_to_bufferized import UPDATES

    if UPDATES not in module.operation.attributes:
        return updates_of(function)
    numbers = list(module.operation.attributes[UPDATES])
    return dict(zip(numbers[::2], numbers[1::2], strict=True))


def _signature(module: Any, function: Any, path: Path) -> tuple[list[TensorType], list[TensorType]]:
    """Parameters and results as tensors."""
    from mlirtri.dialect.bindings.locations import span_of
    from mlirtri.dialect.bindings.mlir import ir
    from mlirtri.dialect.definition import type_of

    of = ir.TypeAttr(function.attributes["function_type"]).value
    is_func = function.operation.name == "func.func"
    if not is_func or any(isinstance(each, ir.MemRefType) for each in (*of.inputs, *of.results)):
        of = _signature_before_buffers(module, function, path)
    try:
        return [type_of(each) for each in of.inputs], [type_of(each) for each in of.results]
    except KernelError as error:
        place = span_of(function.location) or Span(str(path), 1, 1)
        raise ParseError(error.message, place, help="kernels take and return ranked tensors") from None


def _signature_before_buffers(module: Any, function: Any, path: Path) -> Any:
    """The function type that bufferization noted on the module."""
    from mlirtri.dialect.bindings.mlir import ir
    from mlirtri.lowering.mlir_backend.bufferize.fused_to_bufferized import SIGNATURE
    from mlirtri.lowering.sizes.size_arguments import unknown_sizes

    place, attributes = Span(str(path), 1, 1), module.operation.attributes
    if SIGNATURE not in attributes:
        raise ParseError(
            f"which buffers of {function.attributes['sym_name'].value!r} are results is not said",
            place,
            help=f"resume at an earlier stage, or give the module {{{SIGNATURE} = (tensor<…>) -> tensor<…>}}",
        )
    of = ir.FunctionType(ir.TypeAttr(attributes[SIGNATURE]).value)
    updated = _updates_of_mlir(module, function).values()
    own = [kind for at, kind in enumerate(of.results) if at not in updated]
    buffers = len(of.inputs) + len(own)
    if function.operation.name == "llvm.func":
        buffers += len(unknown_sizes([kind.shape for kind in (*of.inputs, *own)]))
    if buffers != len(function.regions[0].blocks[0].arguments):
        raise ParseError(f"{SIGNATURE} has not as many types as the function has buffers", place)
    return of


# --- Relax ---------------------------------------------------------------------------------------------------------


def _of_relax(module: Any, path: Path) -> tuple[str, Interface]:
    from mlirtri.lowering.mlir.attributes import BOUND
    from mlirtri.lowering.toolchain.tvm_names import relax
    from mlirtri.lowering.toolchain.tvm_passes import relax_functions

    functions = relax_functions(module)
    if len(functions) != 1:
        raise ParseError(f"expected a module of one Relax function, found {len(functions)}", Span(str(path), 1, 1))
    [(name, function)] = functions
    returned = function.ret_ty
    results = list(returned.fields) if isinstance(returned, relax.TupleType) else [returned]
    names = [parameter.name for parameter in function.params]
    types = [_relax_type(parameter.ty, name, path) for parameter in function.params]
    interface = _interface(names, types, [_relax_type(result, name, path) for result in results], _updates(function))
    count = len(names) - len((function.attrs or {}).get(BOUND, []))
    return name, replace(interface, parameters=interface.parameters[:count], bound=interface.parameters[count:])


def _updates(function: Any) -> dict[int, int]:
    """The arguments that a call in place writes, with the results that are their new contents."""
    from mlirtri.lowering.toolchain.tvm_passes import bindings_of, operator_of

    found: dict[int, int] = {}
    for binding in bindings_of(function):
        if operator_of(binding) == "relax.call_tir_inplace":
            written = enumerate(binding.value.attrs.inplace_indices)
            found |= {int(argument): result for result, argument in written if argument >= 0}
    return found


def _relax_type(of: Any, name: str, path: Path) -> TensorType:
    from mlirtri.lowering.toolchain.tvm_names import tirx

    try:
        sizes = (int(size) if isinstance(size, tirx.IntImm) else UNKNOWN for size in of.shape)
        return TensorType(tuple(sizes), as_dtype(str(of.dtype)))
    except (AttributeError, TypeError, KernelError):
        raise ParseError(
            f"{name!r} takes or returns a {of}",
            Span(str(path), 1, 1),
            help="kernels take and return ranked tensors",
        ) from None


# --- manifests -----------------------------------------------------------------------------------------------------


def to_json(interface: Interface | None) -> dict[str, Any] | None:
    """Parameters, result types, how results nest, and the run-time checks; None before there are types."""
    if interface is None:
        return None
    return {
        "parameters": [_parameter_json(each) for each in interface.parameters],
        "results": [_type_json(leaf) for leaf in interface.leaves],
        "tree": _tree_json(interface.tree),
        "checks": [
            {
                "index": check.index,
                "error": check.error.__name__,
                "message": check.message,
                "span": _span_json(check.span),
            }
            for check in interface.checks
        ],
        "updates": [list(pair) for pair in interface.updates],
        "log": _log_json(interface.log),
        "ordered": list(interface.ordered),
        "bound": [_parameter_json(each) for each in interface.bound],
        "states": [list(pair) for pair in interface.states],
        "numbers": list(interface.numbers),
        "sizes": size_program_json(interface.sizes),
    }


def from_json(data: dict[str, Any], path: Path) -> Interface:
    """The interface that `to_json` wrote; raises `ParseError` for anything else."""
    try:
        results = tuple(_type_of_json(each) for each in data["results"])
        checks = tuple(
            RuntimeCheck(c["index"], error_class(c["error"]), c["message"], Span(*c["span"]) if c["span"] else None)
            for c in data["checks"]
        )
        return Interface(
            tuple(map(_parameter_of_json, data["parameters"])),
            results,
            _tree_of_json(data["tree"], results),
            checks,
            tuple((parameter, result) for parameter, result in data["updates"]),
            _log_of_json(data["log"]),
            tuple(data["ordered"]),
            tuple(map(_parameter_of_json, data["bound"])),
            tuple((bound, result) for bound, result in data["states"]),
            tuple(data["numbers"]),
            size_program_of_json(data["sizes"]),
        )
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, KernelError):
        raise ParseError("the interface in this manifest is not one", Span(str(path), 1, 1), help="remove it") from None


def _parameter_json(of: TensorParameter) -> dict[str, Any]:
    return {"name": of.name, "type": _type_json(of.type), "weak": of.weak}


def _parameter_of_json(data: dict[str, Any]) -> TensorParameter:
    return TensorParameter(data["name"], _type_of_json(data["type"]), data["weak"])


def _type_json(of: TensorType) -> list[Any]:
    return [of.dtype.name, *(None if is_dynamic(size) else size for size in of.shape)]


def _type_of_json(data: list[Any]) -> TensorType:
    return TensorType(
        tuple(UNKNOWN if size is None else size for size in data[1:]), find_stored(data[0]) or as_dtype(data[0])
    )


def _span_json(span: Span | None) -> list[Any] | None:
    return [span.file, span.line, span.column, span.end_line, span.end_column] if span else None


def _log_json(log: PrintLog | None) -> dict[str, Any] | None:
    if log is None:
        return None
    sites = [
        {"span": _span_json(site.span), "parts": [p if isinstance(p, str) else _type_json(p) for p in site.parts]}
        for site in log.sites
    ]
    return {"index": log.index, "count": log.count, "sites": sites}


def _log_of_json(data: dict[str, Any] | None) -> PrintLog | None:
    if data is None:
        return None
    sites = []
    for site in data["sites"]:
        parts = tuple(p if isinstance(p, str) else _type_of_json(p) for p in site["parts"])
        sites.append(PrintSite(Span(*site["span"]) if site["span"] else None, parts))
    return PrintLog(data["index"], data["count"], tuple(sites))


def _tree_json(tree: Any) -> Any:
    if isinstance(tree, Leaf):
        return {"leaf": tree.index, "counts": [list(pair) for pair in tree.counts]} if tree.counts else tree.index
    if tree is None:
        return None
    parts = [_tree_json(each) for each in tree]
    if hasattr(tree, "_fields"):
        return {"name": type(tree).__name__, "fields": list(tree._fields), "parts": parts}
    return {"list" if isinstance(tree, list) else "tuple": parts}


def _tree_of_json(data: Any, results: tuple[TensorType, ...]) -> Any:
    if isinstance(data, int):
        return Leaf(data, results[data])
    if data is None:
        return None
    if "leaf" in data:
        counts = tuple((axis, result) for axis, result in data["counts"])
        return Leaf(data["leaf"], results[data["leaf"]], counts)
    if "fields" in data:
        parts = [_tree_of_json(each, results) for each in data["parts"]]
        return namedtuple(data["name"], data["fields"])(*parts)
    [(kind, parts)] = data.items()
    return {"tuple": tuple, "list": list}[kind](_tree_of_json(each, results) for each in parts)
