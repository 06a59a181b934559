"""The benchmark of architectures: a library that cannot be imported is a line, and its models are left out."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIBRARIES = ("transformers", "timm", "torchvision")


@pytest.fixture
def model_list(monkeypatch, tmp_path):
    """The module, and libraries of this test's own before those that may be installed."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path, str(ROOT)])
    for name in [name for name in sys.modules if name.partition(".")[0] in LIBRARIES]:
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / "transformers.py").write_text("CONFIG_MAPPING = {'bert': None, 'vit': None}\n")
    (tmp_path / "torchvision.py").write_text("raise RuntimeError('operator torchvision::nms\\n does not exist')\n")
    (tmp_path / "timm.py").write_text("import torchvision_that_is_missing.ops\n")
    importlib.invalidate_caches()
    yield importlib.import_module("benchmarks.model_list")
    for name in LIBRARIES:
        sys.modules.pop(name, None)


def test_a_library_that_cannot_be_imported_is_a_line(model_list, capsys):
    assert [model.name for model in model_list.models()] == ["bert", "vit"]
    assert capsys.readouterr().out.splitlines() == [
        "timm is left out, it cannot be imported: ModuleNotFoundError: No module named 'torchvision_that_is_missing'",
        "torchvision is left out, it cannot be imported: RuntimeError: operator torchvision::nms does not exist",
    ]


@pytest.mark.parametrize("name", ["convnext", "vit"])
def test_every_image_has_the_size_of_its_model(model_list, monkeypatch, name):
    class Library:
        class AutoModel:
            from_config = staticmethod(lambda configuration: configuration)

    monkeypatch.setitem(sys.modules, "transformers", Library)
    monkeypatch.setattr(model_list, "_configuration", lambda name: name)
    _, arguments = model_list._image(name)
    assert arguments["pixel_values"].shape == (1, 3, *[model_list.IMAGE_SIZES.get(name, 32)] * 2)


def test_refusals_name_files_from_their_packages(model_list):
    line = importlib.import_module("benchmarks.models")._line(
        ValueError("/opt/venv/lib/python3.11/site-packages/timm/layers.py:3:1: error: no\nmore")
    )
    assert line == "timm/layers.py:3:1: error: no"
