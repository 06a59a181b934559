"""Check what this machine has and lacks for mlirtri, with the command that repairs it.

TVM, MLIR and torch are imported in processes of their own, so that one that crashes is a line of the report.
"""

from __future__ import annotations

import platform
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version
from rich.table import Table
from rich.text import Text

from mlirtri.compiler.records import Failures
from mlirtri.errors import DeviceError
from mlirtri.lowering.core.target import host_cpu_name, host_threads
from mlirtri.lowering.cuda_emulation.library import cxx_compiler
from mlirtri.lowering.runtime.openmp import INSTALL, runtime_library
from mlirtri.lowering.spirv.vulkan import VulkanError, device
from mlirtri.lowering.toolchain.tvm_runtime import installed_version
from mlirtri.testing.tools import native_filecheck

TESTED_PLATFORM = ("Linux", "x86_64")

_TORCH_PROBE = """
import torch
print(f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "built for CPUs only")
for index in range(torch.cuda.device_count()):
    print(torch.cuda.get_device_name(index), "sm_%d%d" % torch.cuda.get_device_capability(index))
from mlirtri.lowering.runtime.openmp import torch_runtime
print("kernels run on its threads,", torch_runtime()) if torch_runtime() else print("kernels run on TVM's threads")
"""

_PROBES = {
    "TVM imports": (
        ("apache-tvm", "apache-tvm-ffi"),
        "from mlirtri.lowering.toolchain.tvm_names import target; print('LLVM', target.codegen.llvm_version_major())",
    ),
    "MLIR imports": (
        ("torch-mlir",),
        "from mlirtri.dialect.bindings.mlir import ir; ir.Context(); print('the bindings of torch-mlir')",
    ),
    "torch imports": (("torch",), _TORCH_PROBE),
}
"""Name of the check → the packages it is about, and the program that prints what they are when they work."""

_INTERESTING_CPU_FEATURES = (
    "sse4_2", "avx", "avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512bw", "avx512vl", "avx512_bf16", "avx512_fp16",
    "amx_tile", "amx_bf16", "asimd", "asimdhp", "bf16", "sve", "sve2", "v",
)  # fmt: skip


@dataclass(frozen=True)
class Check:
    """One fact about the machine."""

    name: str
    found: str
    ok: bool | None = None
    """True when it is as mlirtri needs it, False when something must be done, None for what is only good to know."""
    fix: str = ""
    """The command, or sentence, that mends it."""


def collect() -> list[Check]:
    """Run every check, in the order of the report."""
    return [
        _check_platform(),
        _check_python(),
        *_check_packages(),
        *_check_imports(),
        *_check_cpu(),
        _check_cuda_device(),
        _check_nvcc(),
        _check_vulkan(),
        _check_cxx(),
        _check_openmp(),
        *_check_test_tools(),
    ]


def as_table(checks: list[Check]) -> Table:
    """Return the checks as a table for `rich`."""
    marks = {True: "[green]ok[/]", False: "[red]fix[/]", None: "[dim]·[/]"}
    table = Table(box=None, pad_edge=False)
    for heading in ("", "what", "found", "do this"):
        table.add_column(heading, overflow="fold")
    for check in checks:
        table.add_row(marks[check.ok], check.name, check.found.replace("[", "\\["), check.fix.replace("[", "\\["))
    return table


def failures_table(failures: Failures) -> Table:
    """Return a table for `rich` of the rules and passes that failed in one compilation."""
    table = Table(title=f"{failures.kernel}, compiled {failures.time}", box=None, pad_edge=False, title_justify="left")
    for heading in ("failed and skipped", "function", "reason", "line"):
        table.add_column(heading, overflow="fold")
    for step in failures.steps:
        table.add_row(*(Text(step[key]) for key in ("step", "kernel", "reason", "line")))
    return table


def _check_platform() -> Check:
    machine = (platform.system(), platform.machine())
    if machine == TESTED_PLATFORM:
        return Check("platform", f"{machine[0]} {machine[1]}, which mlirtri is tested on", True)
    return Check("platform", f"{machine[0]} {machine[1]}: untested; the wheels exist, and reports are welcome")


def _check_python() -> Check:
    version = platform.python_version()
    supported = (3, 10) <= sys.version_info[:2] <= (3, 14)
    return Check("Python", f"{version} ({sys.executable})", supported, "" if supported else "use Python 3.10 to 3.14")


def _requirements(extra: str = "") -> list[Requirement]:
    try:
        lines = metadata.requires("mlirtri") or []
    except metadata.PackageNotFoundError:
        return []
    requirements = [Requirement(line) for line in lines]
    markers = [(requirement, requirement.marker) for requirement in requirements]
    if not extra:
        return [requirement for requirement, marker in markers if marker is None or marker.evaluate({"extra": ""})]
    return [requirement for requirement, marker in markers if marker and marker.evaluate({"extra": extra})]


def _check_package(requirement: Requirement) -> Check:
    version = installed_version(requirement.name)
    pinned = f"{requirement.name}{requirement.specifier}"
    if version is None:
        return Check(requirement.name, "not installed", False, f'pip install "{pinned}"')
    if requirement.specifier.contains(Version(version), prereleases=True):
        return Check(requirement.name, version, True)
    return Check(requirement.name, f"{version}, but mlirtri needs {pinned}", False, f'pip install "{pinned}"')


def _check_packages() -> list[Check]:
    version = installed_version("mlirtri")
    if version is None:
        return [Check("mlirtri", "not installed", False, "pip install -e . (in the checkout)")]
    return [Check("mlirtri", version, True), *map(_check_package, _requirements())]


def _check_import(name: str) -> Check:
    packages, program = _PROBES[name]
    try:
        run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        return Check(name, "no answer within two minutes", False, _reinstall(packages))
    if run.returncode == 0:
        return Check(name, run.stdout.strip(), True)
    problem = run.stderr.strip().splitlines()[-1:] or [f"the process ended with status {run.returncode}"]
    return Check(name, problem[0], False, _reinstall(packages))


def _reinstall(packages: tuple[str, ...]) -> str:
    needed = [requirement for requirement in _requirements() if requirement.name in packages]
    return " ".join(["pip install --force-reinstall", *(f'"{package.name}{package.specifier}"' for package in needed)])


def _check_imports() -> list[Check]:
    with ThreadPoolExecutor() as pool:
        return list(pool.map(_check_import, _PROBES))


def _cpu_facts() -> dict[str, str]:
    try:
        first = Path("/proc/cpuinfo").read_text().split("\n\n")[0]
    except OSError:
        return {}
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first.splitlines())}


def _check_cpu() -> list[Check]:
    facts = _cpu_facts()
    flags = set((facts.get("flags") or facts.get("Features") or facts.get("isa") or "").split())
    features = [feature for feature in _INTERESTING_CPU_FEATURES if feature in flags]
    return [
        Check("CPU", host_cpu_name()),
        Check("CPU features", " ".join(features) or "unknown"),
        Check("CPU threads", str(host_threads())),
    ]


def _first_line(*command: str, containing: str = "") -> str | None:
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = [line.strip() for line in run.stdout.splitlines() if containing in line]
    return lines[0] if run.returncode == 0 and lines else None


def _check_cuda_device() -> Check:
    device = _first_line("nvidia-smi", "--query-gpu=name,compute_cap,driver_version", "--format=csv,noheader")
    return Check("CUDA device", device or "none: CUDA source is still generated, and runs where there is one")


def _check_nvcc() -> Check:
    version = _first_line("nvcc", "--version", containing="release")
    return Check("nvcc", version or "not on PATH: PTX is not made; CUDA source needs no nvcc")


def _check_vulkan() -> Check:
    try:
        return Check("Vulkan", device().name)
    except VulkanError as problem:
        return Check("Vulkan", f'none ({problem}): kernels of target="spirv" are compiled, and cannot be called')


def _check_cxx() -> Check:
    try:
        return Check("C++ compiler", shlex.join(cxx_compiler()))
    except DeviceError:
        return Check("C++ compiler", 'none: target="cuda:emulated" needs one', fix="install g++ or clang++")


def _check_openmp() -> Check:
    library = runtime_library()
    return Check("OpenMP", library or "no runtime: pipeline mlir runs on one thread", fix="" if library else INSTALL)


def _check_test_tools() -> list[Check]:
    """Check the tools of the tests; a missing one is no fault, for no kernel needs it."""
    # In whichever extra they are.
    lines = (metadata.requires("mlirtri") or []) if installed_version("mlirtri") else []
    needed = [requirement for requirement in map(Requirement, lines) if requirement.name in ("lit", "filecheck")]
    tools = [_check_package(requirement) for requirement in needed]
    tools.append(Check("native FileCheck", native_filecheck() or "none: PyPI's filecheck serves"))
    return [check if check.ok else replace(check, ok=None) for check in tools]
