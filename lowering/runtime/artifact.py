"""Write executables to files that run without the compiler, and read them again.

    kernel-1f2e3d4c.so    the compiled functions, linked
    torch_threads.so      what starts their parallel loops on torch's threads
    constants.npz         tensors that the launches read
    kernel.o              pipeline `mlir`: the same code to link with other programs
    kernel.cu, .fatbin    the CUDA source of a library ``cuda-….so``, and its code where nvcc is on PATH

The library's name has a digest of its contents: the system's loader takes a file of a name that it has loaded for the
same file. Reading loads neither MLIR's bindings nor TVM's compiler. What `write_artifact` returns, which is JSON, says
what the files are. Whether they are whole and fit this machine, the caller has checked.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NoReturn

from mlirtri.errors import ArtifactError
from mlirtri.lowering.core.launch_figures import LaunchFigures
from mlirtri.lowering.core.stage import Executable
from mlirtri.lowering.runtime.cuda_executable import CudaExecutable
from mlirtri.lowering.runtime.launch_plan import Plan
from mlirtri.lowering.runtime.linking import SharedLibrary, link, written
from mlirtri.lowering.runtime.mlir_executable import Convention, MlirExecutable
from mlirtri.lowering.runtime.openmp import INSTALL, runtime_library
from mlirtri.lowering.runtime.stored_tensors import read_tensors, write_tensors
from mlirtri.lowering.runtime.torch_threads import loading, starter_engine, use_threads
from mlirtri.lowering.runtime.tvm_executable import KernelExecutable, Library, MachineExecutable, make_executable
from mlirtri.lowering.toolchain import tvm_runtime
from mlirtri.lowering.toolchain.cuda_code import code_of
from mlirtri.lowering.toolchain.nvcc import compiled_by_nvcc, run_nvcc

OBJECT, STARTER, CONSTANTS, SOURCE, FATBIN = (
    "kernel.o", "torch_threads.so", "constants.npz", "kernel.cu", "kernel.fatbin"
)  # fmt: skip
Description = dict[str, Any]


def write_artifact(executable: Executable, folder: Path) -> Description:
    """Write an executable's files into `folder`; return what `read_artifact` needs besides.

    Raises `ArtifactError` for executables that have no files, `CodegenError` where nothing can link them.
    """
    if isinstance(executable, KernelExecutable) and executable.plan is not None:
        return {"kind": "kernel", **_write_kernel(executable, executable.plan, folder)}
    if isinstance(executable, MachineExecutable):
        facts = {"function": executable.function, "kernels": executable.kernels}
        return {"kind": "machine", **facts, "library": _write_library(executable.library, folder)}
    if isinstance(executable, CudaExecutable) and executable.plan is not None:
        return {"kind": "cuda", **_write_cuda(executable, executable.plan, folder)}
    if isinstance(executable, MlirExecutable):
        return {"kind": "mlir", **_write_mlir(executable, folder)}
    if isinstance(executable, CudaExecutable):
        raise ArtifactError(
            "a CUDA kernel whose launches depend on run-time values cannot be written to files",
            help='the CUDA source is kernel.ir["cuda"]',
        )
    if reason := getattr(executable, "why_no_files", ""):
        raise ArtifactError(reason, help='save the one of target="cuda"')
    kind = type(executable).__name__
    raise ArtifactError(f"{kind} objects cannot be written to files", help="compile it for the CPU")


def read_artifact(folder: Path, description: Description) -> Executable:
    """Return the executable that `write_artifact` wrote; raises `ArtifactError`."""
    readers = {"kernel": _read_kernel, "machine": _read_machine, "cuda": _read_cuda, "mlir": _read_mlir}
    try:
        return readers[description["kind"]](folder, description)
    except (KeyError, TypeError, IndexError, AttributeError) as problem:
        raise ArtifactError(f"the description of the artifact in {folder} is not one: {problem!r}") from None
    except (OSError, RuntimeError) as problem:
        raise ArtifactError(f"the artifact in {folder} cannot be loaded: {problem}") from None


def _write_kernel(executable: KernelExecutable, plan: Plan, folder: Path) -> Description:
    library = None if executable.library is None else _write_library(executable.library, folder)
    return {"plan": _write_plan(plan, folder), "library": library}


def _read_kernel(folder: Path, description: Description) -> KernelExecutable:
    plan = _read_plan(folder, description["plan"])
    if description["library"] is None:
        return make_executable(plan, _none)
    return _loaded(
        folder, description["library"], lambda library: make_executable(plan, library.module.__getitem__, library)
    )


def _write_plan(plan: Plan, folder: Path) -> Description:
    if plan.constants:
        write_tensors(folder / CONSTANTS, plan.constants)
    return plan.to_json()


def _read_plan(folder: Path, data: Description) -> Plan:
    return Plan.from_json(data, read_tensors(folder / CONSTANTS) if data["constants"] else {})


def _write_cuda(executable: CudaExecutable, plan: Plan, folder: Path) -> Description:
    """Write the launches' library with the CUDA source, and what nvcc makes of it, where there is nvcc."""
    if executable.file is not None:
        file = _copied(executable.file, folder)
        for name in (SOURCE, FATBIN):
            if executable.file.with_name(name).exists():
                _copied(executable.file.with_name(name), folder)
    else:
        module = executable.make_module(executable.source)
        file = _named(_link_module(module, folder / "cuda.so"))
        (folder / SOURCE).write_text(executable.source, encoding="utf-8")
        if shutil.which("nvcc"):
            (folder / FATBIN).write_bytes(run_nvcc(executable.source, executable.architecture, "-fatbin"))
    host = None if executable.host is None else _write_library(executable.host, folder)
    launches = [{name: getattr(launch, name) for name in _FIGURES} for launch in executable.make_figures()]
    facts = {"kernels": executable.kernels, "architecture": executable.architecture, "launches": launches}
    return {"file": file.name, "host": host, "plan": _write_plan(plan, folder), **facts}


def _read_cuda(folder: Path, description: Description) -> CudaExecutable:
    file, architecture = folder / description["file"], description["architecture"]
    plan = _read_plan(folder, description["plan"])
    source, fatbin = (folder / SOURCE).read_text(encoding="utf-8"), folder / FATBIN
    code = fatbin.read_bytes() if fatbin.exists() else None

    def make_module(source: str) -> Any:
        with code_of(source, architecture, code):
            return tvm_runtime.load_library(file)

    host = None
    if description["host"] is not None:
        host = _loaded(folder, description["host"], lambda library: library)
    make_figures = partial(_figures, description["launches"], source)
    executable = CudaExecutable(plan, description["kernels"], source, make_module, architecture, host, make_figures)
    executable.file, executable.flops = file, description.get("flops")
    return executable


def _none(name: str) -> NoReturn:
    raise ArtifactError(f"there is no kernel {name}")


def _read_machine(folder: Path, description: Description) -> MachineExecutable:
    # The virtual machine's own format of code has to be known before the library is loaded.
    tvm_runtime.machine_library()
    function, kernels = description["function"], description["kernels"]
    return _loaded(folder, description["library"], lambda library: MachineExecutable(library, function, kernels))


def _write_library(library: Library, folder: Path) -> Description:
    """Write the functions and, where their loops may run on torch's threads, what starts these."""
    if library.file is not None:
        file = _copied(library.file, folder)
        if library.has_loops:
            _copied(library.file.with_name(STARTER), folder)
    else:
        file = _named(_link_module(library.module, folder / "kernel.so"))
        if library.has_loops:
            (folder / STARTER).write_bytes(_starter())
    facts = {"threads": library.threads, "has_loops": library.has_loops, "long": list(library.long)}
    return {"file": file.name, **facts}


def _copied(file: Path, folder: Path) -> Path:
    try:
        return Path(shutil.copyfile(file, folder / file.name))
    except OSError as problem:
        raise ArtifactError(f"{file}, from which the kernel was loaded, cannot be copied: {problem.strerror}") from None


def _named(library: Path) -> Path:
    digest = sha256(library.read_bytes()).hexdigest()[:12]
    return library.rename(library.with_name(f"{library.stem}-{digest}.so"))


def _link_module(module: Any, file: Path) -> Path:
    core = [tvm_runtime.core_library()._name]
    if not module.imports:
        with _temporary(file.parent) as folder:
            path = folder / OBJECT
            path.write_bytes(written(lambda name: module.write_to_file(name, "o")))
            link([path], file, core)
        return file

    def compiled(name: str, objects: list[str], **_options: Any) -> None:
        link([Path(path) for path in objects], Path(name), core)

    with _temporary(file.parent) as folder:
        module.export_library(str(file), fcompile=compiled, workspace_dir=str(folder))
    return file


@contextlib.contextmanager
def _temporary(inside: Path | None = None) -> Iterator[Path]:
    """Make a folder for a while; `tempfile.TemporaryDirectory` cannot be made while Python ends."""
    folder = Path(mkdtemp(prefix="mlirtri-", dir=inside))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@cache
def _starter() -> bytes:
    engine = starter_engine()
    with _temporary() as folder:
        path, library = folder / OBJECT, folder / STARTER
        engine.raw_lookup("set")  # compiles
        path.write_bytes(written(engine.dump_to_object_file))
        link([path], library)
        return library.read_bytes()


def _loaded(folder: Path, description: Description, make: Callable[[Library], Any]) -> Any:
    threads, has_loops = description["threads"], description["has_loops"]
    use_threads(threads)
    with loading(has_loops, threads, folder / STARTER):
        module = tvm_runtime.load_library(folder / description["file"])
        return make(Library(module, threads, has_loops, tuple(description["long"]), folder / description["file"]))


def _write_mlir(executable: MlirExecutable, folder: Path) -> Description:
    code = executable.code
    if isinstance(code, SharedLibrary):
        file = _copied(code.path, folder)
        _copied(code.path.with_name(OBJECT), folder)
    else:
        (folder / OBJECT).write_bytes(written(code.dump_to_object_file))  # type: ignore[attr-defined]
        link([folder / OBJECT], folder / "kernel.so", _threads(executable.convention))
        file = _named(folder / "kernel.so")
    facts = {"kernels": executable.kernels, "bytes": executable.bytes}
    return {"file": file.name, "convention": asdict(executable.convention), **facts}


def _read_mlir(folder: Path, description: Description) -> MlirExecutable:
    facts = description["convention"]
    sizes, strides = (tuple((buffer, axis) for buffer, axis in facts[name]) for name in ("sizes", "strides"))
    convention = replace(Convention(**facts), updates=tuple(facts["updates"]), sizes=sizes, strides=strides)
    # The library finds the runtime that the process has loaded by its name.
    _threads(convention)
    library = SharedLibrary(folder / description["file"])
    return MlirExecutable(library, convention, description["kernels"], description["bytes"])


def _threads(convention: Convention) -> list[str]:
    if not convention.has_threads:
        return []
    if (library := runtime_library()) is None:
        raise ArtifactError("the kernel has OpenMP's threads, and there is no OpenMP runtime", help=INSTALL)
    return [library]


_FIGURES = ("kernel", "grid", "block", "shared_bytes", "barriers", "bytes")
"""What is stored of launch figures. A loaded kernel asks nvcc for registers and spills, as a compiled one does."""


def _figures(launches: Sequence[dict[str, Any]], source: str) -> tuple[LaunchFigures, ...]:
    """Return the stored figures of the kernels of a CUDA source."""
    figures = []
    for launch in launches:
        kernel, (x, y, z), (across, down, deep), shared, barriers, size = (launch[name] for name in _FIGURES)
        compiled = partial(compiled_by_nvcc, source, kernel)
        figures.append(LaunchFigures(kernel, (x, y, z), (across, down, deep), shared, barriers, size, compiled))
    return tuple(figures)
