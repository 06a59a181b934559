"""Other libraries that a comparison measures beside the pipelines, chosen by what the kernel is written in.

A library that is not installed, or does not run the kernel, is a row with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch

from mlirtri.calls.arrays import as_torch
from mlirtri.errors import KernelError, KernelTypeError, KernelValueError, UnknownOptionError, did_you_mean
from mlirtri.kernels.options import Options
from mlirtri.language.arguments import is_torch
from mlirtri.lowering.core.interface import Leaf
from mlirtri.measure.columns import Column, columns_of
from mlirtri.measure.copies import copied, host_array, written
from mlirtri.measure.eager import leaves, plain_call
from mlirtri.measure.subjects import KernelSubject, ProgramSubject, Subject, subjects_of

Call = Callable[[], Any]


@dataclass(frozen=True)
class Library:
    """A way to run a kernel without mlirtri."""

    name: str
    package: str
    """What has to be installed."""
    fits: Callable[[Subject], bool]
    """Whether it runs what the subject is written in."""
    call: Callable[[Subject, Mapping[str, Any]], Call]
    """Returns a call on these arguments."""
    is_usual: bool
    """Whether a comparison has it unless libraries are named; others compile for seconds."""
    project: str = ""
    """What pip installs, where the package has another name."""

    @property
    def is_installed(self) -> bool:
        try:
            return find_spec(self.package) is not None
        except ModuleNotFoundError:
            # The package that it is in is not there.
            return False


ALL = "all"
"""Every library that fits and is installed."""


def libraries_of(subject: Subject, names: Sequence[str] | None) -> list[Library]:
    """Return the libraries to run beside a subject; raises `UnknownOptionError` for a name that is none.

    None are those that compile nothing; ``all`` are all that fit and are installed.
    """
    names = [names] if isinstance(names, str) else names
    for name in names or ():
        if name not in (*LIBRARIES, ALL):
            help = f"{did_you_mean(name, LIBRARIES)}the libraries are {', '.join(LIBRARIES)}, or all"
            raise UnknownOptionError(f"there is no library {name!r} to compare with", help=help)
    fitting = [library for library in LIBRARIES.values() if library.fits(subject)]
    if names is None:
        return [library for library in fitting if library.is_usual and library.is_installed]
    if ALL in names:
        return [library for library in fitting if library.is_installed]
    named = [LIBRARIES[name] for name in names]
    usual = [library for library in fitting if library.is_usual and library.is_installed]
    return list(dict.fromkeys([*usual, *named]))


def call_of(library: Library, subject: Subject, values: Mapping[str, object]) -> Call:
    """Return the library's call on these arguments; raises `KernelTypeError` where it cannot be had."""
    if not library.is_installed:
        raise KernelTypeError(
            f"{library.name} is not installed", help=f"pip install {library.project or library.package}"
        )
    if not library.fits(subject):
        fitting = ", ".join(each.name for each in LIBRARIES.values() if each.fits(subject))
        raise KernelTypeError(f"{library.name} does not run what this is written in", help=f"it runs in {fitting}")
    return library.call(subject, values)


def results_by(
    name: str, file: str, arguments: Mapping[str, object], arrays: Mapping[str, np.ndarray],
    actual: Mapping[str, np.ndarray],
) -> dict[str, np.ndarray]:  # fmt: skip
    """Return what a library gives for what ``FILE[::name]`` names, by the names of the kernel's own results.

    `arrays` are data of some of the arguments. Results are what it returns, then the arguments that it writes. Raises
    `KernelError`, also where the library does.
    """
    [subject] = subjects_of(file, (), arguments, columns_of(("linalg",), None, None, None))
    subject.compilations = 1
    given = {key: _as(value, arrays[key]) if key in arrays else value for key, value in subject.named.items()}
    values = copied(given)
    try:
        with torch.no_grad(), np.errstate(all="ignore"):
            results = leaves(call_of(LIBRARIES[name], subject, values)())
    except KernelError:
        raise
    except Exception as error:
        # Other people's compilers, and a plain function, raise anything.
        raise KernelValueError(f"{name} does not run it: {type(error).__name__}: {error}") from error
    changed = {key: host_array(values[key]) for key in written(values, given)}
    returned = [key for key in actual if key not in subject.named]
    if len(results) != len(returned):
        return {**{f"result{number}": array for number, array in enumerate(results)}, **changed}
    narrow = narrowed(results, [actual[key] for key in returned])
    return {**dict(zip(returned, narrow, strict=True)), **changed}


def _as(value: object, array: np.ndarray) -> object:
    """Return the array as what the value is: a tensor or an array."""
    return as_torch(array.copy()) if is_torch(value) else array


def narrowed(results: list[np.ndarray], returned: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return floating-point results in the dtypes that a kernel returned, where these are narrower."""
    if len(results) != len(returned):
        return results
    return [
        wide.astype(narrow.dtype)
        if wide.dtype == np.float64 and narrow.dtype.itemsize < wide.itemsize and narrow.dtype.kind in "fV"
        else wide
        for wide, narrow in zip(results, returned, strict=True)
    ]


def _is_kernel_of(semantics: str) -> Callable[[Subject], bool]:
    return lambda subject: isinstance(subject, KernelSubject) and subject.specialization.semantics == semantics


def _is_program_of(source: str) -> Callable[[Subject], bool]:
    return lambda subject: isinstance(subject, ProgramSubject) and (_original(subject) or ("",))[0] == source


def _original(subject: ProgramSubject) -> Any:
    return getattr(subject.program, "original", None)


def _eager(subject: Subject, values: Mapping[str, Any]) -> Call:
    assert isinstance(subject, KernelSubject)
    return subject.plain(values)


def _module(subject: Subject, values: Mapping[str, Any]) -> Call:
    assert isinstance(subject, ProgramSubject)
    module, (arguments, keywords) = _torch_module(subject), subject.structured(values)
    return lambda: module(*arguments, **keywords)


def _torch_module(subject: ProgramSubject) -> Any:
    if subject.program.params.version:  # type: ignore[union-attr]
        raise KernelTypeError("torch has the weights of when the program was exported, and they were replaced")
    module = _original(subject)[1]
    # An exported program is no module, and its module is a new one.
    return module.module() if hasattr(module, "graph_signature") else module


def _compiled_by_torch(subject: Subject, values: Mapping[str, Any]) -> Call:
    torch.compiler.reset()
    if isinstance(subject, ProgramSubject):
        module, (arguments, keywords) = torch.compile(_torch_module(subject)), subject.structured(values)
        return lambda: module(*arguments, **keywords)
    return plain_call(subject.function, values, torch.compile)


def _compiled_by_numba(subject: Subject, values: Mapping[str, Any]) -> Call:
    import numba

    assert isinstance(subject, KernelSubject)
    return plain_call(subject.function, values, numba.njit)


def _by_onnxruntime(subject: Subject, values: Mapping[str, Any]) -> Call:
    import onnxruntime  # pyright: ignore[reportMissingImports] - installed by who compares with it

    assert isinstance(subject, ProgramSubject)
    model = _original(subject)[1]
    source = model if isinstance(model, (str, bytes)) else _serialized(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = _threads()
    session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    names = [operand.name for operand in session.get_inputs()]
    feed = dict(zip(names, map(host_array, values.values()), strict=True))
    return lambda: tuple(session.run(None, feed))


def _by_iree(subject: Subject, values: Mapping[str, Any]) -> Call:
    """Have IREE compile stage `linalg`, which is MLIR before anything of ours fuses or tiles."""
    from iree import compiler, runtime  # pyright: ignore[reportMissingImports] - installed by who compares with it

    kernel = subject.compile(Column("iree", Options("cpu", "mlir")))
    if kernel.writes:
        raise KernelTypeError("IREE's functions return what they compute, and this kernel writes an argument")
    text = kernel.to_mlir("linalg", bare=True, params="inline")
    assert isinstance(text, str)
    name = _PUBLIC.search(text)
    assert name is not None
    device = runtime.get_device("local-task" if _threads() > 1 else "local-sync")
    code = compiler.compile_str(text, target_backends=["llvm-cpu"], extra_args=_IREE_FLAGS)
    config = runtime.Config(device=device)
    module = runtime.load_vm_modules(runtime.VmModule.copy_buffer(config.vm_instance, code), config=config)[0]
    function = module[name[1]]
    tensors = {parameter.name for parameter in kernel.interface.parameters}
    arrays = [_signless(host_array(value)) for key, value in values.items() if key in tensors]
    given = [runtime.asdevicearray(device, array) for array in arrays]
    shown = _leaves(kernel.interface.tree)
    return lambda: _picked(function(*given), shown)


_PUBLIC = re.compile(r"func\.func (?:public )?@([\w$.]+)")
_IREE_FLAGS = ["--iree-llvmcpu-target-cpu=host", "--iree-input-demote-f64-to-f32=false"]


def _signless(array: Any) -> Any:
    """Return an array as IREE takes it: its integers have no sign, as MLIR's, and its truth values are bytes."""
    kind = {"u": f"i{array.itemsize}", "b": "i1"}.get(array.dtype.kind)
    return array if kind is None else array.view(kind)


def _signed(result: Any, dtype: str) -> Any:
    array = np.asarray(result.to_host() if hasattr(result, "to_host") else result)
    return array if array.dtype.name == dtype or array.itemsize != np.dtype(dtype).itemsize else array.view(dtype)


def _leaves(tree: Any) -> list[Leaf]:
    if isinstance(tree, (tuple, list)):
        return [leaf for part in tree for leaf in _leaves(part)]
    return [tree] if isinstance(tree, Leaf) else []


def _picked(results: Any, leaves: Sequence[Leaf]) -> tuple[Any, ...]:
    """Return the results that the kernel returns: the others say whether run-time checks held."""
    flat = list(results) if isinstance(results, (tuple, list)) else [results]
    return tuple(_signed(flat[leaf.index], leaf.type.dtype.name) for leaf in leaves)


def _serialized(model: Any) -> Any:
    return model.SerializeToString() if hasattr(model, "SerializeToString") else str(model)


def _threads() -> int:
    return torch.get_num_threads()


LIBRARIES = {
    library.name: library
    for library in (
        Library("numpy", "numpy", _is_kernel_of("numpy"), _eager, is_usual=True),
        Library(
            "torch", "torch",
            lambda subject: _is_kernel_of("torch")(subject) or _is_program_of("torch")(subject),
            lambda subject, values: (_eager if isinstance(subject, KernelSubject) else _module)(subject, values),
            is_usual=True,
        ),
        Library("onnxruntime", "onnxruntime", _is_program_of("onnx"), _by_onnxruntime, is_usual=True),
        Library(
            "iree", "iree.compiler", lambda _: True, _by_iree, is_usual=False,
            project="iree-base-compiler iree-base-runtime",
        ),
        Library("numba", "numba", _is_kernel_of("numpy"), _compiled_by_numba, is_usual=False),
        Library(
            "torch.compile", "torch",
            lambda subject: _is_kernel_of("torch")(subject) or _is_program_of("torch")(subject),
            _compiled_by_torch, is_usual=False,
        ),
    )
}  # fmt: skip
"""By name. `numpy` and `torch` run the plain function, or torch's own module."""
