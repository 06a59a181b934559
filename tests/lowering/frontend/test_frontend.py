"""What a kernel may be written with: names, constants, helpers, indexing, structure, and where it may be defined."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from tolerances import tolerance

import mlirtri as mt
from mlirtri import errors

X = np.arange(12, dtype=np.float32).reshape(3, 4)
SCALE = 3.0
PARTS = (2, 1.5)


def run(function, *arguments, **keywords):
    """The kernel's result, after checking it against the function itself."""
    result = mt.jit(function)(*arguments, **keywords)
    np.testing.assert_allclose(result, function(*arguments, **keywords), rtol=tolerance("float32"))
    return result


def scaled(x, factor=2.0):
    return x * factor


def shifted(x, *, by):
    y = scaled(x, factor=by)
    return y + PARTS[0]


def uses_globals(x):
    return x * SCALE + PARTS[1] - math.pi


def uses_helpers(x):
    return shifted(x, by=4) + scaled(x)


def reassigns(x):
    y = x
    y = y + 1
    y *= 2
    a, (b, c) = y, (x, 3)
    return a - b * c


def unpacks_shape(x):
    rows, columns = x.shape
    return x.reshape(columns, rows) / (rows * columns)


def branches_on_shape(x, mode="double"):
    if x.ndim == 2 and mode == "double":
        result = x * 2
    elif mode == "broken":
        result = x @ x + undefined_name  # noqa: F821 - never looked at
    else:
        result = x.no_such_method()
    return result if x.shape[0] > 1 else result.nothing


def compares_dtypes(x):
    if x.dtype == np.float32 and x.dtype == "float32" and x.dtype != np.int8:
        return x + 1
    return x


def early_return(x):
    if x.shape[1] == 4:
        return x[0]
    return x


def walrus_and_format(x):
    mt.static_assert(f"{x.ndim:>3}" == "  2")
    return (y := x + 1) * y


def chained_constants(x):
    return x * (1 if 0 < x.shape[0] <= 3 else 0) + ((x.shape[0] and 5) or 7) + (not x.shape)


@pytest.mark.parametrize(
    "function",
    [uses_globals, uses_helpers, reassigns, unpacks_shape, branches_on_shape, compares_dtypes, early_return,
     walrus_and_format, chained_constants],
)  # fmt: skip
def test_programs(function):
    if function in (branches_on_shape, walrus_and_format):
        mt.jit(function)(X)
    else:
        run(function, X)


def test_compile_time_parameters_choose_the_code():
    kernel = mt.jit(branches_on_shape)
    assert np.array_equal(kernel(X), X * 2)
    with pytest.raises(errors.UnknownNameError, match="no_such_method"):
        kernel(X, mode="other")
    with pytest.raises(errors.KernelTypeError, match="inner sizes"):
        kernel(X, mode="broken")


def makes(shape_from, out_dtype=mt.float32, block: int = 4):
    """Outputs are made in the kernel, from constants of the key (B4, B6)."""
    return mt.full((shape_from.shape[0], block), 1.5, out_dtype) + mt.zeros((block,), out_dtype)


def test_keyword_constants_are_in_the_key():
    kernel = mt.jit(makes)
    assert kernel(torch.ones(3)).shape == (3, 4)
    assert kernel(torch.ones(3), block=2).shape == (3, 2)
    assert kernel(torch.ones(3), out_dtype=torch.float64).dtype == torch.float64
    assert kernel(torch.ones(3), out_dtype=np.float64, block=2).dtype == torch.float64
    assert kernel.compiles == 4


def applies(x, function):
    return function(x) + function(x * 2)


def test_functions_are_arguments():
    kernel = mt.jit(applies)
    assert np.array_equal(kernel(X, scaled), applies(X, scaled))
    assert np.allclose(kernel(X, np.sin), applies(X, np.sin))


jitted_helper = mt.jit(scaled)


def calls_a_jit_function(x):
    return jitted_helper(x, 5.0) + 1


def test_jit_functions_inline_in_kernels():
    assert np.array_equal(mt.jit(calls_a_jit_function)(X), X * 5 + 1)


def test_closures():
    def made(factor):
        return mt.jit(lambda x: x * factor)

    assert np.array_equal(made(2.0)(X), X * 2)
    assert np.array_equal(made(3.0)(X), X * 3)


@pytest.mark.parametrize(
    "index",
    ["0", "-1", "1:", "::2", "::-1", "..., 0", "None", "1, 2", ":, None, 1:3", "..., ::-2", "-2:, -3:-1", "2:1",
     "1:100", "..., None", "0, ..., None", "5:, 0"],
)  # fmt: skip
@pytest.mark.parametrize("pipeline", ["linalg", "relax", "mlir"])
def test_basic_indexing(tmp_path, index, pipeline):
    file = tmp_path / "indexing.py"
    file.write_text(f"def f(x):\n    return x[{index}] + 0\n")
    namespace: dict = {}
    exec(compile(file.read_text(), str(file), "exec"), namespace)
    found = mt.jit(namespace["f"], pipeline=pipeline)(X)
    wanted = namespace["f"](X)
    assert found.shape == wanted.shape
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize(
    ("name", "symbol"),
    [("plain", "plain"), ("größe", "gru00f6u00dfe"), ("exp", "exp"), ("main", "main"), ("malloc", "malloc")],
)
def test_any_identifier_makes_a_symbol(tmp_path, name, symbol):
    file = tmp_path / "names.py"
    file.write_text(f"def {name}(x):\n    return x + 1\n")
    namespace: dict = {}
    exec(compile(file.read_text(), str(file), "exec"), namespace)
    for pipeline in ("linalg", "relax", "mlir"):
        kernel = mt.jit(namespace[name]).compile(X, pipeline=pipeline)
        assert f"func.func @{symbol}(" in kernel.ir["tri"]
        assert np.array_equal(kernel(X), X + 1)
    assert "__global__" in mt.jit(namespace[name]).compile(X, target="cuda").ir["cuda"]


def test_nested_functions_and_lambdas_have_symbols():
    def inner(x):
        return x - 1

    assert "func.func @inner(" in mt.jit(inner).compile(X).ir["tri"]
    square = mt.jit(lambda x: x * x)
    assert "func.func @lambda" in square.compile(X).ir["tri"]
    assert np.array_equal(square(X), X * X)


# fmt: off
ONE_LINE = (lambda x: x + 1, lambda x: x + 2, lambda x, /, y=3: x * y, lambda x: (lambda x: x - 5)(x) if 1 else x)
NESTED = lambda x: lambda x: x * 10  # noqa: E731
LONG = [lambda x: (x
                   + 7), lambda x: "é" and x - 7]
# fmt: on


@pytest.mark.skipif(sys.version_info < (3, 11), reason="code has no columns")
@pytest.mark.parametrize("function", [*ONE_LINE, NESTED(1), *LONG])
def test_lambdas_on_one_line(function):
    wanted = function(X)
    assert np.array_equal(mt.jit(function, pipeline="interpreter")(X), wanted)


def test_lambdas_without_columns_are_refused(tmp_path):
    file = tmp_path / "lambdas.py"
    file.write_text(
        "import numpy as np\nimport mlirtri as mt\nf, g = lambda x: x + 1, lambda x: x + 2\n"
        "try:\n    mt.jit(g)(np.ones(2))\nexcept mt.KernelError as error:\n    print(error.span.line, error)\n"
    )
    command = [sys.executable, *(["-X", "no_debug_ranges"] if sys.version_info >= (3, 11) else []), str(file)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert shown.startswith("3 ")
    assert "several functions called '<lambda>' start on the same line" in shown
    assert "put each on a line of its own" in shown


def test_a_notebook_cell_has_source():
    """IPython keeps cells in linecache, under names that are no files."""
    code = (
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\n"
        "result = shell.run_cell('''import mlirtri as mt, numpy as np\n@mt.jit\ndef f(x):\n    return x + 1\n"
        "print(f(np.ones(2)).sum())\ntry:\n    mt.jit(lambda x: y)(np.ones(2))\nexcept mt.KernelError as e:\n"
        "    print(e.span.line)''')\n"
    )
    pytest.importorskip("IPython")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-2:] == ["4.0", "7"], done.stderr + done.stdout


def test_semantics_follow_the_arguments():
    def halves(x):
        return x / 2, x.sum()

    array = np.array([1, 2], np.int8)
    quotient, total = mt.jit(halves)(array)
    assert (quotient.dtype, total.dtype) == (np.float64, np.int64)
    quotient, total = mt.jit(halves)(torch.from_numpy(array))
    assert (quotient.dtype, total.dtype) == (torch.float32, torch.int64)


def relu_of_product(x: mt.Tensor[[2, 3], mt.float32], y: mt.Tensor((3, 2), "float32")):
    return mt.relu(x @ y)


def test_string_annotations_are_read():
    """This file has ``from __future__ import annotations``."""
    kernel = mt.jit(relu_of_product)
    x, y = torch.randn(2, 3), torch.randn(3, 2)
    torch.testing.assert_close(kernel(x, y), torch.relu(x @ y))
    with pytest.raises(errors.ArgumentMismatchError, match=r"'x': expected float32\[2, 3\]"):
        kernel(y, x)


def takes_out(x, out):
    return x + out


def test_a_parameter_may_be_called_out():
    x = torch.ones(3)
    assert torch.equal(mt.jit(takes_out)(x, out=x * 2), x * 3)
    assert torch.equal(mt.jit(takes_out).compile(x, x)(x, out=x * 2), x * 3)


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_bare_mlir_has_nothing_of_ours(pipeline):
    kernel = mt.jit(relu_of_product).compile(pipeline=pipeline)
    stages = ("linalg", "fused") if pipeline == "linalg" else ("fused", "bufferized", "llvmdialect")
    for stage in stages:
        text = kernel.to_mlir(stage, bare=True)
        assert "mlirtri." not in text
        assert "loc(" not in text
        assert "func @" in text
    assert kernel.to_mlir() == kernel.to_mlir("fused")
    assert f'"{__file__}":' in kernel.to_mlir()


def test_only_mlir_stages_are_given_out():
    kernel = mt.jit(relu_of_product).compile(pipeline="relax")
    with pytest.raises(errors.UnknownOptionError, match="has no stage 'fused'"):
        kernel.to_mlir()
    with pytest.raises(errors.UnknownOptionError, match="is not MLIR") as caught:
        kernel.to_mlir("tir")
    assert caught.value.help == "its MLIR stages are tri"


def conditions(counts, x):
    out = np.zeros((4, 5), np.int64)
    for i in range(5):
        out[0, i] = 1 if i == 3 or (i != 2 and counts[i]) else 0
        if counts[i] and x[i]:
            out[1, i] = 1
        if not (counts[i] or x[i] > 1 or i):
            out[2, i] = 1
        k = i
        while k < 5 and counts[k]:
            k += 1
        out[3, i] = k
    return out


def test_operands_of_several_dtypes_in_a_condition():
    counts, x = np.array([0, 3, 0, 7, 1], np.uint8), np.array([0.0, 1.5, -2.0, 0.0, 4.0])
    np.testing.assert_array_equal(mt.jit(conditions, pipeline="mlir")(counts, x), conditions(counts, x))
