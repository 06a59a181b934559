"""Archives of `torch.export.save`: those of data are loaded, those with code are refused and nothing of it runs."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import pickle
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import mlirtri as mt
from mlirtri.errors import ParseError
from mlirtri.lowering.importers.from_torch.graph_to_torch import span_of_node
from mlirtri.programs.torch_programs.archives import load_archive

MODEL, WEIGHTS, SAMPLES = "models/model.json", "data/weights/model_weights_config.json", "data/sample_inputs/model.pt"


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)
        self.register_buffer("scale", torch.tensor([2.0, 3.0]))

    def forward(self, target, flag=True):
        return {"name": torch.cond(target.sum() > 0, torch.sin, torch.cos, (self.linear(target) * self.scale,))}


def archive_of(model: torch.nn.Module, x: torch.Tensor) -> bytes:
    file = io.BytesIO()
    shapes = {"target": {0: torch.export.Dim("rows", min=2, max=64)}, "flag": None}
    torch.export.save(torch.export.export(model, (x,), {"flag": True}, dynamic_shapes=shapes), file)
    return file.getvalue()


X = torch.linspace(-1, 2, 12).reshape(4, 3)
"""Its sum is far from 0, on which a branch depends, in any order of additions."""
MODULE = Scaled().eval()
ARCHIVE = archive_of(MODULE, X)


def changed(members: dict[str, bytes]) -> bytes:
    """Return the archive with other members; the first folder's name is that of the archive."""
    result = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(ARCHIVE)) as source, zipfile.ZipFile(result, "w") as target:
        root = source.namelist()[0].split("/")[0]
        for name in source.namelist():
            inner = name.partition("/")[2]
            target.writestr(name, members.pop(inner, None) or source.read(name))
        for inner, content in members.items():
            target.writestr(f"{root}/{inner}", content)
    return result.getvalue()


def with_json(member: str, change) -> bytes:
    with zipfile.ZipFile(io.BytesIO(ARCHIVE)) as source:
        root = source.namelist()[0].split("/")[0]
        content = json.loads(source.read(f"{root}/{member}"))
    change(content)
    return changed({member: json.dumps(content).encode()})


def test_an_archive_of_data_is_loaded(tmp_path):
    file = tmp_path / "model.pt2"
    file.write_bytes(ARCHIVE)
    for source in (file, ARCHIVE):
        result = mt.from_torch(load_archive(source)).compile(pipeline="mlir")(X, flag=True)
        torch.testing.assert_close(result, MODULE(X))


class Attack:
    """Its pickle creates a file when it is read."""

    def __init__(self, file: Path):
        self.file = file

    def __reduce__(self):
        return Path.touch, (self.file,)


def touch(file: Path) -> str:
    return f"__import__('pathlib').Path({str(file)!r}).touch()"


def pickled(file: Path) -> bytes:
    buffer = io.BytesIO()
    torch.save(Attack(file), buffer)
    return buffer.getvalue()


def in_a_size(file: Path) -> bytes:
    def change(model):
        model["graph_module"]["graph"]["tensor_values"]["target"]["sizes"][0]["as_expr"]["expr_str"] = touch(file)

    return with_json(MODEL, change)


def in_a_name(file: Path) -> bytes:
    text = json.dumps(json.loads(member(MODEL))).replace('"target"}', json.dumps(f"a=[{touch(file)}]") + "}")
    return changed({MODEL: text.encode()})


def member(name: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(ARCHIVE)) as source:
        return source.read(f"{source.namelist()[0].split('/')[0]}/{name}")


def in_a_weight(file: Path) -> bytes:
    config = json.loads(member(WEIGHTS))
    config["config"]["linear.weight"]["use_pickle"] = True
    return changed({WEIGHTS: json.dumps(config).encode(), "data/weights/weight_0": pickled(file)})


def as_an_operator(target: str):
    def change(model):
        model["graph_module"]["graph"]["nodes"][0]["target"] = target

    return lambda file: with_json(MODEL, change)


def in_the_tree(file: Path) -> bytes:
    def change(model):
        context = {"default_factory_module": "antigravity", "default_factory_name": "x", "dict_context": []}
        tree = {"type": "collections.defaultdict", "context": context, "children_spec": []}
        model["graph_module"]["module_call_graph"][0]["signature"]["in_spec"] = json.dumps([1, tree])

    return with_json(MODEL, change)


def with_a_large_size(file: Path) -> bytes:
    def change(model):
        model["graph_module"]["graph"]["tensor_values"]["target"]["sizes"][0]["as_expr"]["expr_str"] = "9**9**9**9"

    return with_json(MODEL, change)


def with_many_symbols(file: Path) -> bytes:
    return with_json(MODEL, lambda model: model["range_constraints"].update(u99999999999={"min_val": 0, "max_val": 4}))


ATTACKS = {
    "sample inputs": (lambda file: changed({SAMPLES: pickled(file)}), "sample inputs that are more than tensors"),
    "a weight": (in_a_weight, "objects that are not tensors"),
    "old weights": (lambda file: changed({"data/weights/model.pt": pickled(file)}), "a member 'data/weights/model.pt'"),
    "an object": (lambda file: changed({"data/constants/opaque_obj_0": pickle.dumps(Attack(file))}), "opaque_obj_0"),
    "a library": (lambda file: changed({"data/aotinductor/model/model.so": b"\x7fELF"}), "a member 'data/aoti"),
    "a size": (in_a_size, "which is not arithmetic"),
    "a tower of powers": (with_a_large_size, "which is not arithmetic"),
    "symbols without end": (with_many_symbols, "calls a size 'u99999999999'"),
    "a name": (in_a_name, "which is not an identifier"),
    "a function of torch": (as_an_operator("torch.hub.load"), "calls 'torch.hub.load'"),
    "a library of operators": (as_an_operator("torch.ops.load_library"), "not an operator of torch"),
    "a file as a tensor": (as_an_operator("torch.ops.aten.from_file.default"), "not an operator of torch"),
    "a method of an operator": (as_an_operator("torch.ops.aten.__init__.__call__"), "not an operator of torch"),
    "a module to import": (in_the_tree, "arguments in a 'collections.defaultdict'"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_archive_with_code_is_refused_and_nothing_of_it_runs(name, tmp_path):
    attack, message = ATTACKS[name]
    file = tmp_path / "attacked"
    data = attack(file)
    with pytest.raises(ParseError, match=message) as caught:
        load_archive(data)
    assert not file.exists()
    assert "torch.export.load if you trust it" in caught.value.help


def test_the_attack_is_one(tmp_path):
    file = tmp_path / "attacked"
    logging.disable()  # torch's own warning about it does not format
    try:
        with contextlib.suppress(Exception):
            torch.export.load(io.BytesIO(ATTACKS["sample inputs"][0](file)))
    finally:
        logging.disable(logging.NOTSET)
    assert file.exists(), "what torch itself does with the archive that is refused here"


def test_what_is_no_archive_is_refused(tmp_path):
    for data in (b"", b"PK\x05\x06" + b"\0" * 18, ARCHIVE[: len(ARCHIVE) // 2], b"\0" * 1000):
        with pytest.raises(ParseError, match="this is not an archive of torch"):
            load_archive(data)
    for path in (tmp_path, tmp_path / "missing.pt2"):
        with pytest.raises(ParseError, match="cannot be read: "):
            load_archive(path)


def test_a_tensor_without_data_is_not_allocated():
    config = json.loads(member(WEIGHTS))
    config["config"]["linear.weight"]["tensor_meta"]["sizes"] = [{"as_int": 1 << 40}, {"as_int": 1 << 20}]
    data = changed({WEIGHTS: json.dumps(config).encode(), "data/weights/weight_0": b""})
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        assert any(info.filename.endswith("weight_0") for info in file.infolist())
    with pytest.raises(ParseError):
        load_archive(data)


def test_lines_of_torch_where_a_program_was_exported_are_none_of_the_users():
    frames = ["/home/a/net.py", "/opt/x/lib/python3.12/site-packages/torch/nn/modules/conv.py"]
    trace = "".join(f'  File "{file}", line {number}, in forward\n' for number, file in enumerate(frames, 7))
    span = span_of_node(SimpleNamespace(meta={"stack_trace": trace}))
    assert (span.file, span.line) == ("/home/a/net.py", 7)
