"""Constants of imported programs: read exactly whatever their type, kept out of the text, replaced, dumped, resumed."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch

import mlirtri as mt
from mlirtri.errors import ArgumentMismatchError, DeviceError, KernelError, ParseError
from mlirtri.programs.mlir_sources import split_resources

COUNT = 100
LARGE = np.arange(COUNT, dtype=np.float32)
DTYPES = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64, "i1": np.bool_, "i8": np.int8,
    "i16": np.int16, "i32": np.int32, "i64": np.int64, "index": np.int64, "complex<f32>": np.complex64,
    "complex<f64>": np.complex128, "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz, "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
}  # fmt: skip


def random_bits(dtype: np.dtype, count: int) -> np.ndarray:
    """Values of all kinds, NaNs with payloads among them."""
    random = np.random.default_rng(0)
    if dtype == np.bool_:
        return random.integers(0, 2, count).astype(dtype)
    return random.integers(0, 256, count * np.dtype(dtype).itemsize, dtype=np.uint8).view(dtype)


def resource(array: np.ndarray) -> str:
    return f'"0x04000000{array.tobytes().hex()}"'


def returning(kind: str, value: str, resources: str = "") -> str:
    text = f'func.func @f() -> {kind} {{\n  %w = arith.constant {value} : {kind} loc("w")\n  return %w : {kind}\n}}\n'
    return f"{text}{{-#\n  dialect_resources: {{ builtin: {{ {resources} }} }}\n#-}}\n" if resources else text


# --- reading -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize("form", ["resource", "hex"])
def test_every_bit_of_a_large_constant_is_kept(element, form):
    array = random_bits(DTYPES[element], COUNT)
    kind = f"tensor<{COUNT}x{element}>"
    if form == "resource":
        program = mt.from_mlir(returning(kind, "dense_resource<w>", f"w: {resource(array)}"))
    else:
        program = mt.from_mlir(returning(kind, f'dense<"0x{array.tobytes().hex()}">'))
    [held] = program.params.values()
    assert held.dtype == array.dtype
    assert held.tobytes() == array.tobytes()


SMALL = {
    "f32": ("[1.5, 0x7FC00001, -0.0]", np.array([0x3FC00000, 0x7FC00001, 0x80000000], np.uint32).view(np.float32)),
    "bf16": ("[1.5, 0x7FC1, -0.0]", np.array([0x3FC0, 0x7FC1, 0x8000], np.uint16).view(ml_dtypes.bfloat16)),
    "i8": ("[1, -128, 127]", np.array([1, -128, 127], np.int8)),
    "i1": ("[true, false, true]", np.array([True, False, True])),
    "complex<f32>": (
        "[(1.0, 2.0), (0.1, -0.0), (0x7F800000, 1.0)]",
        np.array([1 + 2j, complex(0.1, -0.0), complex("inf+1j")], "c8"),
    ),
}


@pytest.mark.parametrize("element", SMALL)
@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_small_constants_stay_in_the_text_and_keep_their_bits(element, pipeline):
    body, array = SMALL[element]
    program = mt.from_mlir(returning(f"tensor<3x{element}>", f"dense<{body}>"))
    assert not program.params
    found = program.compile(pipeline=pipeline)()
    assert found.dtype == array.dtype
    assert found.tobytes() == array.tobytes()


def test_a_large_splat_stays_in_the_text():
    program = mt.from_mlir(returning("tensor<1000xf32>", "dense<2.5>"))
    assert not program.params
    np.testing.assert_array_equal(program(), np.full(1000, 2.5, np.float32))


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_a_long_splat_is_filled_at_run_time(pipeline):
    kernel = mt.from_mlir(returning("tensor<300000xbf16>", "dense<2.5>")).compile(pipeline=pipeline)
    assert "linalg.fill" in kernel.ir["linalg"]
    np.testing.assert_array_equal(kernel(), np.full(300000, 2.5, ml_dtypes.bfloat16))


def test_a_resource_of_packed_bits_is_read():
    array = random_bits(np.bool_, COUNT)
    packed = np.packbits(array, bitorder="little")
    program = mt.from_mlir(returning(f"tensor<{COUNT}xi1>", "dense_resource<w>", f"w: {resource(packed)}"))
    np.testing.assert_array_equal(program.params["w"], array)


@pytest.mark.parametrize(
    ("value", "resources", "message"),
    [
        ("dense_resource<w>", "", "the data of resource 'w' is missing"),
        ("dense_resource<w>", 'v: "0x0400000000"', "the data of resource 'w' is missing"),
        ("dense_resource<w>", 'w: "0x0400000000"', "resource 'w' has 1 bytes, and tensor<100xf32> 400"),
        ("dense_resource<w>", 'w: "0x04xx"', "expected hex string blob"),
        ("dense_resource<w>", "w: 5", "expected hex string blob"),
    ],
)
def test_invalid_resources_are_refused(value, resources, message):
    with pytest.raises(ParseError, match=message) as caught:
        mt.from_mlir(returning("tensor<100xf32>", value, resources))
    assert caught.value.span.file == "<text>"


@pytest.mark.parametrize("element", ["i4", "i24", "f80"])
def test_unknown_element_types_are_refused(element):
    number = "1.0" if element.startswith("f") else "1"
    other = number.replace("1", "2")
    text = returning(f"tensor<{COUNT}x{element}>", f"dense<[{', '.join([number, other] * (COUNT // 2))}]>")
    with pytest.raises(KernelError, match=f"there are no tensors of {element}"):
        mt.from_mlir(text).compile()


def test_removing_the_resource_section_keeps_the_line_count():
    text = b"""module {}
{-#
  dialect_resources: {
    builtin: { a: "0x040000000102", "b c": "0x0400000003" },
    torch: { d: "0x04000000" }
  },
  external_resources: { mlir_reproducer: { verify_each: true, pipeline: "{}#-}" } }
#-}
// end
"""
    rest, resources = split_resources(text)
    assert rest == b"module {}\n\n\n\n\n\n\n\n// end\n"
    assert resources == {"a": b"\1\2", "b c": b"\3", "d": b""}
    for broken in (b"module {}\n{-# dialect_resources: {", b'{-# a: { b: "0', b"{-# dialect_resources #-}"):
        assert split_resources(broken) == (broken, {})


def test_a_large_resource_costs_no_parsing_afterwards():
    array = np.random.default_rng(0).random(1_000_000)
    program = mt.from_mlir(returning("tensor<1000000xf64>", "dense_resource<w>", f"w: {resource(array)}"))
    kernel = program.compile(pipeline="mlir")
    assert all(len(kernel.to_mlir(stage)) < 10_000 for stage in ("linalg", "fused", "bufferized"))
    np.testing.assert_array_equal(kernel(), array)
    assert kernel.params["w"] is program.params["w"]


def test_equal_constants_are_stored_once_under_unique_names():
    kind, body = f"tensor<{COUNT}xf32>", f"dense<{LARGE.tolist()}>"
    other = f"dense<{(LARGE + 1).tolist()}>"
    text = f"""func.func @f() -> ({kind}, {kind}, {kind}, {kind}) {{
  %a = arith.constant {body} : {kind} loc("w")
  %b = arith.constant {body} : {kind} loc("v")
  %c = arith.constant {other} : {kind} loc("w")
  %d = arith.constant dense_resource<w> : {kind}
  return %a, %b, %c, %d : {kind}, {kind}, {kind}, {kind}
}}
{{-# dialect_resources: {{ builtin: {{ w: {resource(LARGE + 2)} }} }} #-}}"""
    program = mt.from_mlir(text)
    assert len(program.params) == 3
    found = program()
    for result, add in zip(found, (0, 0, 1, 2), strict=True):
        np.testing.assert_array_equal(result, LARGE + add)


# --- parameters ----------------------------------------------------------------------------------------------------

SCALED = f"""func.func @main(%x: tensor<{COUNT}xf32>) -> tensor<{COUNT}xf32> {{
  %w = arith.constant dense<{LARGE.tolist()}> : tensor<{COUNT}xf32> loc("w")
  %b = arith.constant dense<{LARGE[::-1].tolist()}> : tensor<{COUNT}xbf16> loc("b")
  %y = arith.mulf %x, %w : tensor<{COUNT}xf32>
  %c = arith.extf %b : tensor<{COUNT}xbf16> to tensor<{COUNT}xf32>
  %z = arith.addf %y, %c : tensor<{COUNT}xf32>
  return %z : tensor<{COUNT}xf32>
}}
func.func @other() -> tensor<{COUNT}xi32> {{
  %w = arith.constant dense<{list(range(COUNT))}> : tensor<{COUNT}xi32> loc("other")
  return %w : tensor<{COUNT}xi32>
}}"""
ONES = np.ones(COUNT, np.float32)


def test_parameters_can_be_replaced_by_others_of_their_type():
    program = mt.from_mlir(SCALED)
    assert sorted(program.params) == ["b", "other", "w"]
    before = program.compile("main")
    assert sorted(before.params) == ["b", "w"]
    np.testing.assert_array_equal(program(ONES), LARGE + LARGE[::-1])
    program.params["w"] = torch.full((COUNT,), 3.0)
    np.testing.assert_array_equal(program(ONES), 3 + LARGE[::-1])
    np.testing.assert_array_equal(program.compile("main")(ONES), 3 + LARGE[::-1])
    np.testing.assert_array_equal(before(ONES), LARGE + LARGE[::-1])
    assert program.compile("main").compilation.records is before.compilation.records, "replacing compiles nothing"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("w", np.ones(COUNT), r"'w' is a float32\[100\], which cannot be replaced by a float64\[100\]"),
        ("w", np.ones(3, np.float32), r"cannot be replaced by a float32\[3\]"),
        ("w", 3.0, "cannot be replaced by a float"),
        ("u", ONES, "bound to no tensor 'u'"),
    ],
)
def test_parameters_keep_their_types_and_names(name, value, message):
    program = mt.from_mlir(SCALED)
    with pytest.raises(ArgumentMismatchError, match=message):
        program.params[name] = value
    with pytest.raises(ArgumentMismatchError, match="the program needs 'w'"):
        del program.params["w"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_cuda_kernels_say_that_their_device_is_missing():
    kernel = mt.from_mlir(SCALED).compile("main", target="cuda:sm_80")
    assert "mlirtri.bound" in kernel.ir["linalg"]
    with pytest.raises(DeviceError, match="there is no CUDA device here"):
        kernel(ONES)


# --- dumps ---------------------------------------------------------------------------------------------------------


def dump(program, folder, monkeypatch, **options):
    monkeypatch.setenv("MLIRTRI_DUMP_DIR", str(folder))
    kernel = program.compile("main", **options)
    monkeypatch.delenv("MLIRTRI_DUMP_DIR")
    [made] = folder.iterdir()
    return kernel, made


@pytest.mark.parametrize("pipeline", ["linalg", "relax", "mlir"])
def test_every_stage_resumes_with_its_parameters(pipeline, tmp_path, monkeypatch):
    program = mt.from_mlir(SCALED)
    program.params["w"] = ONES * 2
    _, folder = dump(program, tmp_path, monkeypatch, pipeline=pipeline)
    files = sorted(each for each in folder.glob("0*") if each.suffix in (".mlir", ".py"))
    assert len(files) >= 4
    for file in files:
        kernel = mt.resume(file, file.stem[3:])
        np.testing.assert_array_equal(kernel(ONES), 2 + LARGE[::-1], err_msg=file.name)
        assert [each.name for each in kernel.interface.bound] == ["w", "b"]
    replaced = mt.resume(files[0], "linalg", params={"w": ONES * 3})
    np.testing.assert_array_equal(replaced(ONES), 3 + LARGE[::-1])


def test_a_resumed_stage_without_its_parameters_can_be_read_but_not_called(tmp_path, monkeypatch):
    _, folder = dump(mt.from_mlir(SCALED), tmp_path, monkeypatch, pipeline="mlir")
    (folder / "params.npz").unlink()
    kernel = mt.resume(folder / "00_linalg.mlir", "linalg")
    assert "mlirtri.bound" in kernel.ir["fused"]
    with pytest.raises(ArgumentMismatchError, match=r"bound to 'w', a float32\[100\] that is not here"):
        kernel(ONES)
    (folder / "params.npz").write_bytes(b"no archive")
    with pytest.raises(ParseError, match="these parameters cannot be read"):
        mt.resume(folder / "00_linalg.mlir", "linalg")


def test_an_edited_stage_replaces_the_compilers_own(tmp_path, monkeypatch):
    _, folder = dump(mt.from_mlir(SCALED), tmp_path, monkeypatch)
    file = folder / "00_linalg.mlir"
    text = file.read_text()
    assert "arith.addf" in text
    file.write_text(text.replace("arith.addf", "arith.subf"))
    monkeypatch.setenv("MLIRTRI_OVERRIDE_DIR", str(tmp_path))
    kernel = mt.from_mlir(SCALED).compile("main")
    np.testing.assert_array_equal(kernel(ONES), LARGE - LARGE[::-1])


def test_text_of_bound_functions_names_missing_parameters():
    text = mt.from_mlir(SCALED).compile("main").to_mlir("linalg")
    with pytest.raises(ArgumentMismatchError, match="bound to 'w'"):
        mt.from_mlir(text)(ONES)
