"""Run NVIDIA's compiler on CUDA source, if it is on PATH."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from mlirtri.errors import CodegenError, DeviceError, Span


def run_nvcc(source: str, architecture: str, product: str) -> bytes:
    """Return nvcc's output for `source`: `product` is ``-ptx``, ``-cubin`` or ``-fatbin``.

    Raises `DeviceError` without nvcc, `CodegenError` with nvcc's first message.
    """
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        raise DeviceError(
            f"CUDA source becomes {product[1:]} by NVIDIA's compiler nvcc, which is not on PATH",
            help='install the CUDA toolkit, or stop at the stage "cuda"',
        )
    with tempfile.TemporaryDirectory() as folder:
        source_file, output_file = Path(folder, "kernels.cu"), Path(folder, "kernels.out")
        source_file.write_text(source)
        command = [nvcc, f"-arch={architecture}", product, "-o", str(output_file), str(source_file)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            raise _refused(ran.stderr + ran.stdout, architecture)
        return output_file.read_bytes()


def _refused(output: str, architecture: str) -> CodegenError:
    message = next((line for line in output.splitlines() if "error" in line or "fatal" in line), output.strip())
    if match := re.match(r"(.+)\((\d+)\): (?:catastrophic )?error.*?: (.+)", message):
        file, line, text = match.groups()
        span = None if file.endswith("kernels.cu") else Span(file, int(line), 1)
        return CodegenError(f"nvcc refused the CUDA source for {architecture}: {text}", span)
    return CodegenError(f"nvcc refused the CUDA source for {architecture}: {message}")
