"""Run NVIDIA's compiler on CUDA source, if it is on PATH: for code, and for what a kernel takes of a device."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

from mlirtri.errors import CodegenError, DeviceError, Span
from mlirtri.lowering.core.launch_figures import Compiled


def run_nvcc(source: str, architecture: str, product: str) -> bytes:
    """Return nvcc's output for `source`: `product` is ``-ptx``, ``-cubin`` or ``-fatbin``.

    Raises `DeviceError` without nvcc, `CodegenError` with nvcc's first message.
    """
    return _run(source, architecture, product)[0]


def compiled_by_nvcc(source: str, kernel: str, architecture: str) -> Compiled | None:
    """Return what nvcc makes of a kernel of a CUDA source for an architecture; None without nvcc."""
    return _usage(source, architecture).get(kernel)


@lru_cache(maxsize=32)
def _usage(source: str, architecture: str) -> dict[str, Compiled]:
    """Return what nvcc makes of each kernel of a source; empty without nvcc."""
    if shutil.which("nvcc") is None:
        return {}
    _, log = _run(source, architecture, "-cubin", "-Xptxas", "-v")
    usage = {}
    for entry in log.split("Compiling entry function '")[1:]:
        stores, loads = map(int, re.findall(r"(\d+) bytes spill (?:stores|loads)", entry)[:2])
        registers = re.search(r"Used (\d+) registers", entry)
        usage[entry.partition("'")[0]] = Compiled(int(registers.group(1)) if registers else 0, stores + loads)
    return usage


def _run(source: str, architecture: str, product: str, *options: str) -> tuple[bytes, str]:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        raise DeviceError(
            f"CUDA source becomes {product[1:]} by NVIDIA's compiler nvcc, which is not on PATH",
            help='install the CUDA toolkit, or stop at the stage "cuda"',
        )
    with tempfile.TemporaryDirectory() as folder:
        source_file, output_file = Path(folder, "kernels.cu"), Path(folder, "kernels.out")
        source_file.write_text(source)
        command = [nvcc, *_targets(architecture, product), product, *options, "-o", str(output_file), str(source_file)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            raise _refused(ran.stderr + ran.stdout, architecture)
        return output_file.read_bytes(), ran.stderr + ran.stdout


def _targets(architecture: str, product: str) -> list[str]:
    if product != "-fatbin":
        return [f"-arch={architecture}"]
    # Machine code, and PTX for later devices. Of `-arch=sm_90a` alone nvcc 13.0 makes PTX for sm_90.
    virtual = architecture.replace("sm", "compute")
    return [f"-arch={virtual}", f"-code={architecture},{virtual}"]


def _refused(output: str, architecture: str) -> CodegenError:
    message = next((line for line in output.splitlines() if "error" in line or "fatal" in line), output.strip())
    if match := re.match(r"(.+)\((\d+)\): (?:catastrophic )?error.*?: (.+)", message):
        file, line, text = match.groups()
        span = None if file.endswith("kernels.cu") else Span(file, int(line), 1)
        return CodegenError(f"nvcc refused the CUDA source for {architecture}: {text}", span)
    return CodegenError(f"nvcc refused the CUDA source for {architecture}: {message}")
