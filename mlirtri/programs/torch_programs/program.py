"""`mt.from_torch`: a torch module as a program, through torch.export and torch-mlir.

The function takes weights and buffers as bound arguments, without copies: `program.params` has the module's own tensors
by their qualified names.
"""

from __future__ import annotations

import inspect
import os
import re
import warnings
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from mlirtri.compiler.compile_lock import COLLECTIONS
from mlirtri.compiler.records import COMPILING
from mlirtri.errors import ArgumentMismatchError, KernelError, KernelTypeError, UnsupportedOperationError
from mlirtri.kernels.kernel import Kernel
from mlirtri.lowering.core.tracebacks import hide_frames, public
from mlirtri.lowering.importers.from_torch.decompositions.decomposed_programs import decomposed
from mlirtri.lowering.importers.from_torch.graph_passes import half_complex
from mlirtri.lowering.importers.from_torch.graph_to_torch import TorchGraph
from mlirtri.lowering.importers.from_torch.tracing.eager_strides import has_strided_views, keep_strides
from mlirtri.lowering.importers.from_torch.tracing.traceable_modules import (
    EXPORTING,
    replace_prims_views,
    traceable,
)
from mlirtri.programs.params import why_not_held
from mlirtri.programs.program import Program
from mlirtri.programs.torch_programs.caches import register_caches
from mlirtri.programs.torch_programs.calling_convention import Calling
from mlirtri.programs.torch_programs.graphs import split_program
from mlirtri.programs.torch_programs.kernel_calls import functional_kernels
from mlirtri.programs.torch_programs.torch_kernel import TorchKernel


def from_torch(
    module: Any,
    args: object = (),
    kwargs: Mapping[str, object] | None = None,
    *,
    dynamic_shapes: object = None,
    strict: bool = False,
) -> TorchProgram:
    """Return the program of a `torch.nn.Module` called with `args` and `kwargs`, of an `ExportedProgram` or its file.

    `args` is a tuple, or the only argument. A file is one of `torch.export.save`; nothing in it is run.
    `dynamic_shapes` and `strict` are those of `torch.export.export`. A kernel is called like the module, and returns
    what the module returns. Raises `UnsupportedOperationError` for what torch cannot export, `KernelTypeError` for what
    is no module or no arguments, and `ParseError` for a file that is no such archive.
    """
    register_caches()
    try:
        name = file = None
        if isinstance(module, str | os.PathLike):
            file = Path(module)
            name, module = file.stem, _archive(file)
        with EXPORTING, COLLECTIONS:
            exported, halves = _exported(module, _positional(args), dict(kwargs or {}), dynamic_shapes, strict)
            graph, tensors, calling = split_program(exported, halves)
        program = TorchProgram(_as_symbol(name or _name_of(module)), graph, tensors, calling)
        program.original = ("torch", module)
        program.file = str(file) if file is not None else program.file
        return program
    except KernelError as error:
        hide_frames(error)
        raise


def _archive(path: Path) -> torch.export.ExportedProgram:
    from mlirtri.programs.torch_programs.archives import load_archive  # loads what reads archives

    if (reader := _OTHER_FILES.get(path.suffix)) is not None:
        raise KernelTypeError(f"from_torch reads archives of torch.export.save, not {path.suffix}", help=reader)
    return load_archive(path)


_OTHER_FILES = {
    ".onnx": "mt.from_onnx reads it", ".mlir": "mt.from_mlir reads it", ".mlirbc": "mt.from_mlir reads it",
    ".stablehlo": "mt.from_stablehlo reads it",
    ".pt": "load the module in torch, and pass it; a state dict alone has no code",
    ".pth": "load the module in torch, and pass it; a state dict alone has no code",
}  # fmt: skip


def _positional(args: Any) -> tuple[Any, ...]:
    """Return the positional arguments of a call; one that is no sequence is the only one."""
    if isinstance(args, Mapping):
        raise KernelTypeError("args is a dict", help="pass arguments by name as kwargs: from_torch(module, (), {...})")
    given = tuple(args) if isinstance(args, tuple | list) else (args,)
    if any(type(leaf).__module__ == "numpy" and hasattr(leaf, "shape") for leaf in pytree.tree_leaves(given)):
        raise KernelTypeError("an argument is a NumPy array; torch modules take tensors", help="torch.from_numpy(x)")
    return given


class TorchProgram(Program):
    """A torch module as a program."""

    def __init__(self, name: str, graph: TorchGraph, tensors: dict[str, torch.Tensor], calling: Calling):
        super().__init__("torch", lambda: graph, (name,), f"<{name}>", tensors, "torch")
        self.graph = graph
        self.calling = calling
        self.written = frozenset(calling.buffer_updates)
        self._alive: weakref.WeakSet[TorchKernel] = weakref.WeakSet()

    @public
    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Bind the program and its kernels to other weights; raises `ArgumentMismatchError` before changing any.

        Tensors of `state` that the program does not use are ignored; those that it uses must be there.
        """
        problems = [problem for name in self.params if (problem := self._problem(name, state))]
        if problems:
            raise ArgumentMismatchError("; ".join(problems))
        with COMPILING:  # a kernel that is being compiled would keep the old ones
            self.params.update({name: state[name].detach() for name in self.params if name in state})
            for kernel in list(self._alive):
                kernel.rebind(self.params)

    def _problem(self, name: str, state: Mapping[str, Any]) -> str | None:
        current = self.params[name]
        if name not in state:
            # State dicts have neither constants nor non-persistent buffers.
            return None if name not in self.calling.persistent else f"{name} is missing"
        new = state[name]
        if new.shape == current.shape and new.dtype == current.dtype:
            problem = why_not_held(new)
            return problem and f"{name} cannot be a tensor {problem}"
        return f"{name} is {current.dtype} {list(current.shape)}, got {new.dtype} {list(new.shape)}"

    def _kernel(self, *parts: Any) -> Kernel:
        kernel = TorchKernel(*parts)
        kernel.calling = self.calling
        kernel.held = dict(self.params)
        self._alive.add(kernel)
        return kernel


def _exported(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any, strict: bool) -> Any:
    """Return the decomposed program, and the positions of its inputs and outputs that were complex32."""
    given = module
    if isinstance(module, torch.jit.ScriptModule):
        raise KernelTypeError(
            "TorchScript modules are not taken: torch.export, which reads a module's Python, cannot read them",
            help="pass the module that was scripted",
        )
    if inspect.isclass(module) and issubclass(module, torch.nn.Module):
        raise KernelTypeError(f"{module.__name__} is a class of modules", help=f"pass a module: {module.__name__}(...)")
    if not isinstance(module, torch.export.ExportedProgram):
        if not isinstance(module, torch.nn.Module):
            if not callable(module):
                raise KernelTypeError(f"from_torch takes a torch.nn.Module or an ExportedProgram, got {module!r}")
            module = _Function(module)
        if not args and not kwargs and _takes_arguments(module):
            help = "give those of a call: from_torch(module, (x,)), or kwargs"
            raise KernelTypeError(f"{_name_of(module)} takes arguments, and none are given", help=help)
        if isinstance(dynamic_shapes, torch.export.ShapesCollection):  # keyed by identity
            dynamic_shapes = dynamic_shapes.dynamic_shapes(module, args, kwargs)
        args, kwargs = _distinct((args, kwargs))
        module = _export(module, args, kwargs, dynamic_shapes, strict)
    try:
        with warnings.catch_warnings(), functional_kernels(module.graph_module):
            # torch warns about its own use of its own class.
            warnings.simplefilter("ignore", FutureWarning)
            return _decomposed(module, is_given=module is given)
    except KernelError:
        raise
    except Exception as error:
        raise UnsupportedOperationError(f"torch cannot decompose the program: {_first_line(error)}") from error


def _decomposed(exported: Any, is_given: bool) -> tuple[Any, half_complex.Positions]:
    if is_given and has_strided_views(exported.graph):
        exported = exported.run_decompositions({})  # a copy: the program is the caller's
        keep_strides(exported.graph_module)
    halves: half_complex.Positions = (frozenset(), frozenset())
    if half_complex.has_half_complex(exported):
        exported = exported.run_decompositions({})
        halves = half_complex.positions(exported)
        half_complex.rewrite(exported)
    return decomposed(exported), halves


def _export(module: torch.nn.Module, args: tuple, kwargs: dict[str, Any], dynamic_shapes: Any, strict: bool) -> Any:
    try:
        with traceable(module, strict):
            exported = torch.export.export(module, args, kwargs, dynamic_shapes=dynamic_shapes, strict=strict)
        replace_prims_views(exported.graph_module)
        keep_strides(exported.graph_module)
        return exported
    except KernelError:
        raise
    except Exception as error:
        raise UnsupportedOperationError(
            f"torch.export cannot trace {type(module).__name__}: {_first_line(error)}",
            help="torch's own message is above; what it cannot trace can often be written otherwise"
            + ("" if strict else ", and strict=True reads the code itself, where numbers come from elements"),
        ) from error


def _distinct(arguments: Any) -> Any:
    """Replace what torch.export ignores, refuses or does not decompose by other objects of the same memory.

    The first is the second occurrence of a tensor. The others are views: of a tensor of another dtype, and of one whose
    sizes torch guards as well, so that those of the view are not dynamic.
    """
    identities: set[int] = set()

    def own(leaf: Any) -> Any:
        if type(leaf) is torch.Tensor and _has_base(leaf):
            leaf = _without_base(leaf)
        if type(leaf) is not torch.Tensor or id(leaf) not in identities:
            identities.add(id(leaf))
            return leaf
        return leaf.detach().requires_grad_(leaf.requires_grad)

    return pytree.tree_map(own, arguments)


def _has_base(leaf: torch.Tensor) -> bool:
    return leaf._base is not None and not (leaf.is_conj() or leaf.is_neg())


def _without_base(leaf: torch.Tensor) -> torch.Tensor:
    placed = leaf.untyped_storage(), leaf.storage_offset(), leaf.size(), leaf.stride()
    own = torch.empty(0, dtype=leaf.dtype, device=leaf.device).set_(*placed)  # type: ignore[arg-type]
    return own.requires_grad_(leaf.requires_grad)


class _Function(torch.nn.Module):
    def __init__(self, function: Any):
        super().__init__()
        self.function = function
        if inspect.isfunction(function):
            # Its parameters then have their own names.
            self.forward = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def _name_of(module: Any) -> str:
    """Return the name of a function or of a module's class; an exported program keeps the class in its nodes."""
    if isinstance(module, torch.export.ExportedProgram):
        stacks = (node.meta.get("nn_module_stack") for node in module.graph.nodes)
        classes = (str(next(iter(stack.values()))[1]) for stack in stacks if stack)
        return next(classes, "exported").rpartition(".")[2].rstrip("'>")
    module = module.function if isinstance(module, _Function) else module
    return getattr(module, "__name__", None) or type(module).__name__


def _takes_arguments(module: torch.nn.Module) -> bool:
    """Return whether a call needs an argument."""
    parameters = inspect.signature(module.forward).parameters.values()
    return any(
        parameter.default is parameter.empty and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        for parameter in parameters
    )


def _as_symbol(name: str) -> str:
    clean = re.sub(r"\W", "_", name)
    return clean if clean and not clean[0].isdigit() else f"_{clean}"


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0].strip() if lines else type(error).__name__
