"""`mt.from_relax`: a Relax module, of TVM's frontends or TVMScript, as a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlirtri.compiler.dumps import read_text
from mlirtri.compiler.interfaces import function_of
from mlirtri.compiler.printing import parse
from mlirtri.errors import ArgumentMismatchError, KernelError, KernelTypeError, ParseError, Span, did_you_mean
from mlirtri.lowering.core.interface import Interface, Leaf, kernel_names
from mlirtri.lowering.core.tracebacks import hide_frames
from mlirtri.programs.program import Program


def from_relax(module: Any, params: Mapping[Any, Any] | None = None) -> RelaxProgram:
    """Return the program of a Relax module: an `IRModule`, its TVMScript text, or the path of a file.

    `params` binds parameters of its functions to tensors, by name, or as `relax.frontend.detach_params` returns
    them: by function name, for its last parameters. TVM's parser runs TVMScript as Python: trust such a text as you
    would a program. Raises `ParseError` for what does not parse, `ArgumentMismatchError` for names that no function
    has.
    """
    try:
        return RelaxProgram(*_read(module), params or {})
    except KernelError as error:
        hide_frames(error)
        raise


class RelaxProgram(Program):
    """A Relax module as a program. It stays Relax unless a pipeline is named that goes through linalg."""

    usual_pipeline = "relax"

    def __init__(self, module: Any, file: str, params: Mapping[Any, Any]):
        # TVM loads with the first Relax program: the command line imports this file for all programs.
        from mlirtri.lowering.toolchain.tvm_passes import relax_functions

        self.module = module
        functions = dict(relax_functions(module))
        if not functions:
            raise ParseError("this module has no Relax function", Span(file, 1, 1))
        super().__init__("relax", lambda: module, tuple(functions), file, _bound(functions, params))

    def _interface(self, module: Any) -> Interface:
        """Return the function's interface; results nest as in Relax if its own stage comes first."""
        from mlirtri.lowering.toolchain.tvm_names import IRModule

        if not isinstance(module, IRModule):
            symbol, interface = function_of("mlir", module, Path(self.file))
        else:
            symbol, interface = function_of("tvmscript", module, Path(self.file))
            if not all(isinstance(size, int) for type_ in interface.leaves for size in type_.shape):
                interface = replace(interface, sizes=_sizes(module, symbol))
        kernels = kernel_names(self.functions)
        kind = self.module[next(name for name in self.functions if kernels[name] == symbol)].ret_ty
        leaves = {leaf.index: leaf for leaf in _leaves_of(interface.tree)}
        if len(leaves) != len(interface.leaves):
            return interface
        return replace(interface, tree=_tree(kind, iter(range(len(leaves))), leaves))


def _sizes(module: Any, symbol: str) -> Any:
    # Load MLIR, which pipeline relax does not need otherwise.
    from mlirtri.lowering.importers.from_relax.relax_to_linalg import translate
    from mlirtri.lowering.sizes.infer_size_program import size_program

    return size_program(translate(module, symbol))


def _tree(kind: Any, numbers: Any, leaves: Mapping[int, Leaf]) -> Any:
    from mlirtri.lowering.toolchain.tvm_names import relax

    if isinstance(kind, relax.TupleType):
        return tuple(_tree(field, numbers, leaves) for field in kind.fields)
    return leaves[next(numbers)]


def _leaves_of(tree: Any) -> list[Leaf]:
    if tree is None or isinstance(tree, Leaf):
        return [tree] if tree else []
    return [leaf for part in tree for leaf in _leaves_of(part)]


def _read(module: Any) -> tuple[Any, str]:
    if isinstance(module, (str, Path)):
        is_path = isinstance(module, Path) or "\n" not in module
        text, file = (read_text(Path(module)), str(module)) if is_path else (str(module), "<text>")
        return parse("tvmscript", text, file), file
    from mlirtri.lowering.toolchain.tvm_names import IRModule

    if not isinstance(module, IRModule):
        raise KernelTypeError(
            f"from_relax takes an IRModule, TVMScript or a path, not {type(module).__name__}",
            help="a decorated class of TVMScript is an IRModule already",
        )
    return module, "<module>"


def _bound(functions: Mapping[str, Any], params: Mapping[Any, Any]) -> dict[str, Any]:
    names = [parameter.name for function in functions.values() for parameter in function.params]
    tensors: dict[str, Any] = {}
    for key, value in params.items():
        if isinstance(value, Sequence) and not hasattr(value, "dtype"):
            tensors |= _last_parameters(functions, str(key), value)
            continue
        name = str(getattr(key, "name", key))
        if name not in names:
            raise ArgumentMismatchError(
                f"no function has a parameter {name!r}",
                help=f"{did_you_mean(name, names)}its parameters are {', '.join(dict.fromkeys(names))}",
            )
        tensors[name] = _as_array(value)
    return tensors


def _last_parameters(functions: Mapping[str, Any], name: str, values: Sequence[Any]) -> dict[str, Any]:
    if name not in functions:
        raise ArgumentMismatchError(f"the module has no function {name!r}", help=f"it has {', '.join(functions)}")
    parameters = list(functions[name].params)
    if len(values) > len(parameters):
        raise ArgumentMismatchError(f"{name!r} has {len(parameters)} parameters, not {len(values)}")
    last = parameters[len(parameters) - len(values) :]
    return {parameter.name: _as_array(value) for parameter, value in zip(last, values, strict=True)}


def _as_array(value: Any) -> Any:
    from mlirtri.lowering.toolchain.tvm_names import tvm

    if not isinstance(value, tvm.runtime.Tensor):
        return value
    if str(value.dtype) != "bfloat16":
        return value.numpy()
    # torch is optional: import it only here
    import torch

    return torch.from_dlpack(value)
