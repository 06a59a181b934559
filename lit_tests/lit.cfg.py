"""The lit tests: each file's RUN lines show the text of one stage to FileCheck.

Needs the environment that `make lit` makes, and no PATH: every tool is found beside the Python that runs lit.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import lit.formats

from mlirtri.cli import doctor

HERE = Path(__file__).parent

config.name = "mlirtri"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".py", ".mlir"]
config.excludes = ["lit.cfg.py", ".out", "inputs"]
config.test_source_root = str(HERE)
config.test_exec_root = str(HERE / ".out")


def add_tool(name, path):
    """Let RUN lines say `name` where a command stands, without touching paths or options that contain it."""
    if path is None:
        lit_config.fatal(f"{name} is not installed beside {sys.executable}: run `make lit`, which installs it")
    config.substitutions.append((rf"(?<![\w./%-]){name}(?![\w./-])", path.replace("\\", "/")))


native_filecheck = doctor.native_filecheck()
add_tool("mlirtri-opt", doctor.script("mlirtri-opt"))
add_tool("mlirtri", doctor.script("mlirtri"))
add_tool("FileCheck", native_filecheck or doctor.script("filecheck"))
config.substitutions.append(("%python", sys.executable))

# A user's MLIRTRI_* variables must not change what the tests see, so lit's bare environment is kept but for these.
for variable in ("HOME", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "VIRTUAL_ENV"):
    if variable in os.environ:
        config.environment[variable] = os.environ[variable]
config.environment["COLUMNS"] = "120"
config.environment["NO_COLOR"] = "1"
config.environment["MLIRTRI_STRICT"] = "1"
config.environment["MLIRTRI_CACHE"] = "0"
# One process loads MLIR and TVM for all tests. A test that says `env -u MLIRTRI_SERVE` runs by itself.
config.environment["MLIRTRI_SERVE"] = "1"
subprocess.run(
    [doctor.script("mlirtri"), "serve", "--detach", "--idle", "60"],
    env=config.environment,
    stdout=subprocess.DEVNULL,
    check=False,
)


def has_cuda_device():
    """Whether torch can run on a device; asked only where a driver answers, since importing torch takes seconds."""
    if shutil.which("nvidia-smi") is None:
        return False
    asks = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", asks], check=False).returncode == 0


features = {
    "nvcc": shutil.which("nvcc") is not None,
    "objdump": shutil.which("objdump") is not None,
    "native-filecheck": native_filecheck is not None,
    "cuda": has_cuda_device(),
    "x86": os.uname().machine in ("x86_64", "amd64") if hasattr(os, "uname") else False,
}
config.available_features.update(name for name, present in features.items() if present)
