"""Names of the package: those that load late, those that do not exist, and classes of errors by their names."""

from __future__ import annotations

import subprocess
import sys
import traceback

import numpy as np
import pytest

import mlirtri as mt
from mlirtri import errors


def test_every_public_name_is_there_and_none_loads_numpy_before_its_use():
    assert all(getattr(mt, name) is not None for name in mt.__all__)
    assert set(mt.__all__) <= set(dir(mt))
    program = "import sys; import mlirtri.serve.client; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [("Kernl", "'Kernel'"), ("from_onx", "'from_onnx'"), ("flaot32", "'float32'"), ("softmx", "'softmax'")],
)
def test_a_missing_name_of_the_package_has_suggestions(name, suggestion):
    with pytest.raises(AttributeError) as caught:
        getattr(mt, name)
    assert str(caught.value).startswith(f"module 'mlirtri' has no attribute {name!r}: did you mean {suggestion}")
    assert "Did you mean" not in "".join(traceback.format_exception(caught.value))


def test_a_missing_name_like_no_other():
    with pytest.raises(AttributeError, match=r"has no attribute 'qqq': dir\(mlirtri\) lists them$"):
        mt.qqq
    assert {"compare", "from_jax", "Stage", "exp", "static_print"} <= set(dir(mt))


def test_the_class_whose_base_is_numpys_is_found_by_its_name(monkeypatch):
    monkeypatch.delitem(vars(errors), "KernelLinearAlgebraError", raising=False)
    kind = errors.error_class("KernelLinearAlgebraError")
    assert issubclass(kind, (np.linalg.LinAlgError, errors.KernelValueError))
    assert errors.error_class("KernelLinearAlgebraError") is kind
    with pytest.raises(AttributeError):
        errors.error_class("KernelNothing")
