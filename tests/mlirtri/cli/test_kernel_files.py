"""Commands find kernels in files, and say where a file is wrong."""

from __future__ import annotations

from mlirtri.sources.python_files import each_kernel, load_kernel


def test_broken_import_names_the_line(run, tmp_path):
    file = tmp_path / "broken_module.py"
    file.write_text("import mlirtri\n\nraise SystemExit(3)\n")
    status, _, err = run("emit", str(file))
    assert status == 1
    assert "broken_module.py:3:1: error: broken_module.py does not import: SystemExit: 3" in err


def test_syntax_error_names_the_location(run, tmp_path):
    file = tmp_path / "unfinished.py"
    file.write_text("def f(:\n    pass\n")
    _, _, err = run("emit", str(file))
    assert "unfinished.py:1:7: error: unfinished.py is not valid Python" in err


def test_a_null_character_has_a_position(run, tmp_path):
    file = tmp_path / "garbage.py"
    file.write_bytes(b"x = 1\ny\xff\0")
    _, _, err = run("emit", str(file))
    assert "garbage.py:2:3: error: garbage.py is not valid Python: a null character" in err


def test_a_name_near_a_kernel_is_suggested(run, kernels):
    status, _, err = run("emit", f"{kernels}::chian")
    assert status == 1
    assert "did you mean 'chain'?" in err


def test_several_kernels_and_no_name(run, kernels):
    status, _, err = run("emit", kernels)
    assert status == 1
    assert "chain|scaled" in err


def test_each_kernel(kernels):
    assert each_kernel(f"{kernels}::*") == [f"{kernels}::{name}" for name in ("chain", "scaled", "first", "picked")]
    assert each_kernel(f"{kernels}::a,b") == [f"{kernels}::a", f"{kernels}::b"]
    assert each_kernel(kernels) == [kernels]


def test_each_kernel_takes_its_own_arguments(run, tmp_path):
    kernels = "".join(
        f"@mt.jit\ndef {name}(a, {other}):\n    return a * {other}\n" for name, other in (("f", "n"), ("g", "m"))
    )
    (tmp_path / "k.py").write_text(f"import mlirtri as mt\n{kernels}")
    every = f"{tmp_path}/k.py::*"
    status, out, err = run("emit", every, "--stage=tri", *_arguments("a=f32[4]", "n=i64[4]", "m=f32[4]", "g.a=f64[4]"))
    assert (status, err) == (0, "")
    assert "@f(%a: tensor<4xf32>, %n: tensor<4xi64>)" in out
    assert "@g(%a: tensor<4xf64>, %m: tensor<4xf32>)" in out
    assert run("emit", f"{tmp_path}/k.py::f", "--stage=tri", *_arguments("f.a=f32[4]", "n=2"))[0] == 0
    for wrong, message in (("x=3", "no kernel has a parameter 'x'"), ("f.m=3", "did you mean 'g.m'")):
        status, _, err = run("emit", every, "--stage=tri", *_arguments("a=f32[4]", wrong))
        assert status == 1
        assert message in err


def _arguments(*texts):
    return [word for text in texts for word in ("--arg", text)]


def test_files_of_one_name_are_different_modules(tmp_path):
    for number in (1, 2):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "twin_module.py").write_text(
            f"import mlirtri as mt\n@mt.jit\ndef k(a):\n    return a + {number}\n"
        )
    found = [load_kernel(str(tmp_path / str(number) / "twin_module.py")) for number in (1, 2)]
    assert found[0].__mlirtri_function__.__code__.co_filename != found[1].__mlirtri_function__.__code__.co_filename


def test_a_relative_path_names_the_file_of_the_current_folder(tmp_path, monkeypatch):
    found = []
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "relative_module.py").write_text(
            f"import mlirtri as mt\n@mt.jit\ndef k(a):\n    return a + {number}\n"
        )
        monkeypatch.chdir(folder)
        found += [load_kernel("relative_module.py"), load_kernel(str(folder / "relative_module.py"))]
    assert found[0] is found[1]
    assert found[2] is found[3]
    assert found[0] is not found[2]


def test_ir_from_a_file_is_located_in_it(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    signature = "func.func @f(%a: tensor<4xf32>) -> tensor<4xf32>"
    text = f"{signature} {{\n  %0 = math.absf %a : tensor<4xf32>\n  return %0 : tensor<4xf32>\n}}\n"
    (tmp_path / "f.mlir").write_text(text)
    _, out, _ = run("emit", "f.mlir", "--from=linalg", "--stage=linalg,fused", "--complete", "--pipeline=mlir")
    assert 'loc("f.mlir":2:8)' in out
    assert 'loc("f.mlir":1:14)' in out
    assert '"-"' not in out
