"""TVM's compiler loads without torch and without errors of C++, and is afterwards what ``import tvm`` gives."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

FACTS = """
import hashlib, json
from tvm import ir
import tvm_ffi
names = sorted(map(str, ir.Op.list_op_names()))
printed = [(name, str(ir.Op.get(name).get_attr("TScriptPrinterName"))) for name in names]
print(json.dumps([printed, sorted(tvm_ffi.registry.list_global_func_names())]))
"""
LATER = """
import sys
import numpy as np
from mlirtri.lowering.toolchain.tvm_names import ir, tvm
assert "torch" not in sys.modules
import tvm_ffi
assert tvm_ffi.registry.get_global_func.__module__ == "tvm_ffi.registry"
assert tvm_ffi.registry.list_global_func_names.__module__ == "tvm_ffi.registry"
assert type(ir._ffi_api.GetOp) is tvm_ffi.Function and type(ir._ffi_api.RegisterOpAttr) is tvm_ffi.Function
try:
    ir.Op.get("mlirtri.none")
except AttributeError as error:
    print(error)
import torch
import torch.utils.dlpack
values = torch.arange(3.0)
assert np.array_equal(tvm.runtime.from_dlpack(values).numpy(), values.numpy())
assert torch.equal(torch.from_dlpack(tvm_ffi.from_dlpack(values)), values)
assert tvm_ffi.convert(values).shape == (3,)
import tvm.relax.base_py_module, tvm.relax.frontend.torch
"""


def _run(text: str) -> str:
    environment = {**os.environ, "MLIRTRI_CACHE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_compiler_is_what_import_tvm_gives():
    plain = _run("import sys; sys.modules['torch'] = None\nimport mlirtri.lowering.toolchain.tvm_runtime as r\n"
                 "r.machine_library()\nimport tvm\n" + FACTS)  # fmt: skip
    assert _run("from mlirtri.lowering.toolchain import tvm_names\n" + FACTS) == plain


def test_torch_is_not_loaded_and_works_when_it_is_imported_later():
    assert "Operator mlirtri.none is not registered" in _run(LATER)
