"""Settings: argument beats environment beats default, bad values are refused, unknown names warned about once."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from mlirtri import settings
from mlirtri.errors import UnknownOptionError
from mlirtri.lowering.core.target import as_target


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    for name in settings.SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(settings, "_warned", set())
    monkeypatch.setattr(settings, "_looked_at", [-1])


def test_argument_beats_environment_beats_default(monkeypatch):
    assert settings.get("MLIRTRI_PIPELINE") == "linalg"
    monkeypatch.setenv("MLIRTRI_PIPELINE", "relax")
    assert settings.get("MLIRTRI_PIPELINE") == "relax"
    assert settings.get("MLIRTRI_PIPELINE", "mlir") == "mlir"


def test_a_false_argument_beats_the_environment(monkeypatch):
    monkeypatch.setenv("MLIRTRI_VERIFY", "1")
    assert settings.get("MLIRTRI_VERIFY", False) is False


@pytest.mark.parametrize(
    ("text", "value"), [("1", True), ("on", True), ("TRUE", True), ("0", False), ("off", False), ("False", False)]
)
def test_switches(monkeypatch, text, value):
    monkeypatch.setenv("MLIRTRI_DEBUG", text)
    assert settings.get("MLIRTRI_DEBUG") is value


def test_values_have_their_types(monkeypatch):
    monkeypatch.setenv("MLIRTRI_DUMP_DIR", "~/dumps")
    monkeypatch.setenv("MLIRTRI_PRINT_IR", "linalg, fused,")
    monkeypatch.setenv("MLIRTRI_NUM_THREADS", " 3 ")
    assert settings.get("MLIRTRI_DUMP_DIR") == Path.home() / "dumps"
    assert settings.get("MLIRTRI_PRINT_IR") == ("linalg", "fused")
    assert settings.get("MLIRTRI_NUM_THREADS") == 3


def test_an_empty_variable_is_unset(monkeypatch):
    monkeypatch.setenv("MLIRTRI_DUMP_DIR", "")
    assert settings.get("MLIRTRI_DUMP_DIR") is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("MLIRTRI_VERIFY", "yes please"),
        ("MLIRTRI_NUM_THREADS", "0"),
        ("MLIRTRI_NUM_THREADS", "4097"),
        ("MLIRTRI_MAX_PASS_BYTES", "1000"),
    ],
)
def test_a_bad_value_names_the_variable_and_what_it_takes(monkeypatch, name, text):
    monkeypatch.setenv(name, text)
    with pytest.raises(UnknownOptionError) as error:
        settings.get(name)
    assert f"{name}={text} is not {settings.SETTINGS[name].kind}" in str(error.value)


def test_an_unknown_name_warns_once_with_the_nearest(monkeypatch):
    monkeypatch.setenv("MLIRTRI_DUMPDIR", "x")
    with pytest.warns(UserWarning, match="MLIRTRI_DUMPDIR is not a setting.*did you mean 'MLIRTRI_DUMP_DIR'"):
        settings.get("MLIRTRI_TARGET")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        settings.get("MLIRTRI_TARGET")


def test_the_number_of_threads_reaches_the_target(monkeypatch):
    monkeypatch.setenv("MLIRTRI_NUM_THREADS", "7")
    assert as_target("cpu").threads == 7


def test_importing_mlirtri_stays_light():
    heavy = "{'torch', 'tvm', 'tvm_ffi', 'torch_mlir', 'scipy', 'rich'}"
    code = f"import sys, mlirtri, mlirtri.settings; print(sorted({heavy} & sys.modules.keys()))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "[]"


@pytest.mark.parametrize("statement", ["mt.jit(lambda a: a)", "mt.Config()", "mt.jit(lambda a: a).compile(x)"])
def test_an_unknown_name_warns_at_the_users_line(statement, tmp_path):
    script = tmp_path / "users.py"
    script.write_text(f"import numpy as np\nimport mlirtri as mt\nx = np.ones(3)\n{statement}\n")
    environment = {**os.environ, "MLIRTRI_PIPELIN": "mlir"}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=True)
    assert f"{script}:4: UserWarning: MLIRTRI_PIPELIN is not a setting of mlirtri: did you mean" in done.stderr
    assert statement in done.stderr
