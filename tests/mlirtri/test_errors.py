"""What users get wrong: every refusal is of its class, stands under its caret, and says the way out.

A case is a kernel with the offending text in ⟦brackets⟧; the file that is compiled has none, and their position is the
line and column that the error must name.
"""

from __future__ import annotations

import importlib.util
import pickle

import numpy as np
import pytest
import torch

import mlirtri as mt
from mlirtri import errors

X = np.ones((2, 3), np.float32)
V = np.ones(3, np.float32)
ROW = np.ones((1, 4), np.float32)
N = np.array([1, 2, 3], np.int32)

SYNTAX = [
    ("    y = x[0] * 1\n    z = y\n    for i in range(99):\n        ⟦y[0] = 1⟧\n        y = z\n    return y",
     "depending on what ran before", "a copy"),
    ("    del ⟦x[0]⟧", "only names and items of lists and dicts can be deleted", "numpy.delete"),
    ("    @helper\n    ⟦def f(): pass⟧", "have no decorators", "outside of the kernel"),
    ("    ⟦try⟧: pass\n    finally: pass", "cannot contain `try`", "check arguments before the call"),
    ("    return (⟦yield x⟧)", "cannot contain `yield`", "return a tuple"),
    ("    ⟦with x: pass⟧", "cannot enter", "context managers"),
    ("    ⟦import numpy⟧", "cannot contain `import`", "top of the file"),
    ("    ⟦global x1⟧", "cannot contain `global`", "as an argument"),
    ("    ⟦class A: pass⟧", "cannot contain a class", ""),
    ("    for i in range(⟦*x⟧): pass\n    return x", "a loop takes no star-expressions", "every bound"),
    ("    t = (x, x)\n    ⟦t[0]⟧ = 1\n    return x", "assigning to an item of a tuple", "new tuple"),
]  # fmt: skip

NAMES = [
    ("    return ⟦y⟧ + x", "name 'y' is not defined", ""),
    ("    return ⟦helpr⟧(x)", "name 'helpr' is not defined", "did you mean 'helper'"),
    (
        "    y = ⟦LIMIT⟧ + x\n    LIMIT = 2\n    return y",
        "name 'LIMIT' is read before this function assigns it",
        "first",
    ),
    ("    ⟦LIMIT += 1⟧\n    return x", "name 'LIMIT' is read before this function assigns it", "first"),
    ("    y = x\n    del y\n    return ⟦y⟧", "name 'y' is read before this function assigns it", "first"),
    ("    return ⟦np.summ⟧(x)", "module 'numpy' has no attribute 'summ'", "did you mean 'sum'"),
    (
        "    return ⟦np.polynomial.polyutils.mapparms(x, x)⟧",
        "np.polynomial.polyutils.mapparms is not a function that kernels have",
        "",
    ),
    ("    return ⟦x.summ⟧()", "a tensor has no attribute 'summ'", "did you mean 'sum'"),
    ("    return ⟦print⟧(x)", "kernels do not have Python's print", "device_print"),
    ("    with ⟦open⟧('f') as f: return x", "kernels do not have Python's open", "read files before the call"),
    ("    return ⟦x.nonsense⟧", "a tensor has no attribute 'nonsense'", "the operation reference lists every method"),
    ("    return ⟦x.append⟧(1)", "a tensor has no attribute 'append'", "did you mean 'numpy.append'?"),
    ("    return ⟦Owner.size⟧ + x", "the class Owner has no attribute 'size'", "a name of its own"),
]

TYPES = [
    ("    return ⟦{y for y in x}⟧", "a key is known at compile time", "into an array"),
    ("    return ⟦{x: 1}⟧", "a key is known at compile time", "into an array"),
    ("    return ⟦helper(**x)⟧", "has no keys", "takes a dict"),
    ("    return ⟦np.random.rand(3)⟧", "numpy.random.rand is not supported", "outside"),
    ("    y = x\n    ⟦for i in range(99): y = y[0]⟧\n    return y", "before this loop, and", "before the loop"),
    ("    ⟦x += 1j⟧\n    return x", "does not fit into 'x'", "makes a new tensor"),
    ("    ⟦x += np.zeros((4, 1, 1))⟧\n    return x", "does not fit into 'x'", "makes a new tensor"),
    ("    return ⟦x + np.ones((4,))⟧", "shapes (2, 3) and (4,) do not broadcast together", ""),
    ("    return ⟦x @ x⟧", "matmul of float32[2, 3] and float32[2, 3]: the inner sizes 3 and 2 differ", ""),
    ("    return ⟦x & x⟧", "bitwise_and", ""),
    ("    return ⟦x + 'a'⟧", "expected a tensor or a number, got str 'a'", ""),
    ("    return ⟦x + helper⟧", "expected a tensor or a number, got the function helper", ""),
    ("    if ⟦x > 0⟧: return x\n    return -x", "is not one of true and false", ".any()"),
    ("    return x if ⟦x⟧ else -x", "is not one of true and false", ".any()"),
    ("    return ⟦x⟧ and x", "is not one of true and false", ".any()"),
    ("    return not ⟦x⟧", "is not one of true and false", ".any()"),
    ("    return ⟦0 < x < 1⟧", "a chained comparison", "(a < b) & (b < c)"),
    ("    return ⟦np.sum(x, wher=1)⟧", "numpy.sum() has no parameter 'wher'", "did you mean 'where'? its signature is"),
    ("    return ⟦np.exp(x, where=x > 0)⟧", "numpy.exp(where=…) is not supported", ""),
    ("    ⟦a, b, c⟧ = x\n    return a", "cannot unpack 2 values into 3 names", ""),
    ("    return ⟦GLOBAL_ARRAY⟧ + x", "the captured value 'GLOBAL_ARRAY' is an array", "as an argument"),
    ("    return ⟦OBJECT⟧ + x", "which a kernel cannot hold", ""),
    ("    ⟦return 'text'⟧", "a kernel cannot return str 'text'", "return tensors"),
    ("    return ⟦np.concatenate([x, np.ones((3, 4))])⟧", "do not concatenate along axis 0", ""),
    ("    return ⟦np.split(x, 2, axis=1)⟧", "do not split into 2 equal parts", "array_split"),
    ("    return ⟦helper(x, x)⟧", "helper(): too many positional arguments", "its parameters are x"),
    ("    return ⟦helper(x, c=x)⟧", "helper() has no parameter 'c'", "its parameters are x"),
    ("    return ⟦helper(c=x, d=x)⟧", "helper() has no parameter 'c' and 'd'", "its parameters are x"),
    ("    f = lambda y, z=1: y\n    return ⟦f(x, c=x)⟧", "lambda() has no parameter 'c'", "its parameters are y, z"),
    ("    f = lambda y, z=1: y\n    return ⟦f(x, y=x)⟧", "multiple values for argument 'y'", "its parameters are y, z"),
    ("    f = lambda y, /: y\n    return ⟦f(y=x)⟧", "lambda():", "its parameters are y"),
    ("    return ⟦pow(x, 2, 3)⟧", "pow(): too many positional arguments", ""),
    ("    return ⟦complex(x)⟧", "complex() takes numbers", "astype"),
    ("    return ⟦np.stack(x)⟧", "expected a tuple or list of arrays, got float32[2, 3]", "[x, y]"),
    ("    return x[0:⟦'a'⟧]", "a slice takes integers, got str 'a'", ""),
    ("    return ⟦x[0:1.5]⟧", "a slice takes integers, got float 1.5", ""),
    ("    return ⟦sorted(x)⟧", "sorted() of a tensor", "numpy.sort"),
    ("    return ⟦all(x > 0)⟧", "all() of a tensor", "x.all()"),
    ("    return ⟦1 in x[0, 0]⟧", "has no elements", "x == value"),
    ("    return ⟦x.sum + 1⟧", "expected numbers, got the function ndarray.sum", ""),
    ("    return ⟦-x.sum⟧", "expected numbers, got the function ndarray.sum", "call it"),
    ("    return ⟦x[0, 0] + [1, 2, 3]⟧", "got a list of int 1", "numpy.array([…])"),
    ("    return ⟦x.shape()⟧", "a tuple of int 2, int 3 is not a function", "leave out the parentheses"),
    ("    return ⟦x(1)⟧", "a tensor float32[2, 3] is not a function", "x[i]"),
    ("    for i in ⟦len(x)⟧: pass", "cannot loop over int 2", "write range(len(x))"),
    ("    for i in ⟦range(x)⟧: pass", "range takes integers, got a tensor", "range(len(x))"),
    ("    return ⟦isinstance(x, 3)⟧", "isinstance() takes classes", "x.dtype"),
    ("    ⟦a, b⟧ = x.sum()", "cannot unpack a tensor float32[]", "one name"),
    ("    ⟦return x.sum⟧", "a kernel cannot return the function ndarray.sum", "return tensors"),
    ("    return ⟦x[x[0] > 0]⟧", "is not a mask for", ""),
    ("    return ⟦max(x, x)⟧", "max() of arrays", "maximum(x, y)"),
]  # fmt: skip

VALUES = [
    ("    while ⟦True⟧: x = x + 1\n    return x", "never ends", ""),
    ("    return ⟦x.sum(axis=2)⟧", "axis 2 is out of range for a tensor of rank 2", ""),
    ("    return ⟦x.reshape(4)⟧", "does not reshape to (4,)", ""),
    ("    return ⟦x[2]⟧", "index 2 is out of bounds for axis 0 of float32[2, 3]", ""),
    ("    return ⟦x[0, 0, 0]⟧", "3 indices for float32[2, 3]", ""),
    ("    return ⟦np.transpose(x, (0, 0))⟧", "not a permutation", ""),
    ("    return ⟦np.max(x[0:0])⟧", "no elements", ""),
    ("    return ⟦np.squeeze(x, 0)⟧", "has size 2, not 1", ""),
    ("    return ⟦np.arange(3, dtype='int8') + 300⟧", "Python int 300 does not fit int8", ""),
    ("    return ⟦np.arange(3) ** -1⟧", "negative integer power", ""),
]

PRELUDE = """import numpy as np
import torch
import mlirtri as mt

GLOBAL_ARRAY = np.zeros(3)
OBJECT, LIMIT = object(), 3

class Owner:
    size = 4

def helper(x):
    return x @ x

"""


def kernel_of(tmp_path, body: str, parameters: str = "x"):
    """The function, and the (line, column, end column) that the brackets stood at."""
    text = f"{PRELUDE}def kernel({parameters}):\n{body}\n"
    place = None
    if "⟦" in text:
        before, _, _ = text.partition("⟦")
        line, column = before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1
        place = (line, column)
        text = text.replace("⟦", "").replace("⟧", "")
    file = tmp_path / "case.py"
    file.write_text(text)
    specification = importlib.util.spec_from_file_location("case", file)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module.kernel, str(file), place


@pytest.mark.parametrize(
    ("kind", "body", "message", "help"),
    [
        *((errors.UnsupportedSyntaxError, *case) for case in SYNTAX),
        *((errors.UnknownNameError, *case) for case in NAMES),
        *((errors.KernelTypeError, *case) for case in TYPES),
        *((errors.KernelValueError, *case) for case in VALUES),
        (errors.KernelDivisionError, "    return ⟦1 / 0⟧ + x", "division by zero", ""),
    ],
)
def test_refusals(tmp_path, kind, body, message, help):
    function, file, place = kernel_of(tmp_path, body)
    with pytest.raises(kind) as caught:
        mt.jit(function)(X)
    error = caught.value
    assert message in error.message
    assert help in (error.help or "")
    assert (error.span.file, error.span.line, error.span.column) == (file, *place)
    shown = str(error).splitlines()
    assert shown[0].startswith(f"{file}:{place[0]}:{place[1]}: error: ")
    assert shown[-1 - bool(error.help)].index("^") == place[1] - 1 + len("    ")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize(("body", "message", "note"), [
    ("    if x[0, 0] > 0:\n        ⟦y = helper⟧\n    return y", "assigned in one arm of this", "does not assign it"),
    ("    if x[0, 0] > 0:\n        ⟦y = x⟧\n    else:\n        y = x[0]\n    return y", "would be one of", "other arm"),
])  # fmt: skip
def test_branches_that_disagree_show_both_locations(tmp_path, body, message, note):
    function, file, place = kernel_of(tmp_path, body)
    with pytest.raises(errors.KernelError) as caught:
        mt.jit(function)(X)
    error = caught.value
    assert message in error.message
    assert (error.span.file, error.span.line, error.span.column) == (file, *place)
    assert [note in each.message for each in error.notes] == [True]
    assert error.notes[0].span.line != error.span.line


def test_texts_of_two_arms_are_refused_with_what_to_write(tmp_path):
    function, *_ = kernel_of(tmp_path, "    y = 'low'\n    if x[0, 0] > 0:\n        ⟦y = 'high'⟧\n    return y")
    with pytest.raises(errors.KernelTypeError) as caught:
        mt.jit(function)(X)
    assert "choose the text by it after the call" in caught.value.help


def test_a_range_of_several_lines_is_underlined_to_the_end_of_the_first(tmp_path):
    file = tmp_path / "source.py"
    file.write_text("y = f([a,  \n   b])\n")
    shown = errors.Span(str(file), 1, 5, 2, 6).excerpt().splitlines()
    assert shown[1] == "        ^~~~~"
    assert errors.Span(str(file), 1, 5, 1, 6).excerpt().splitlines()[1] == "        ^"


def test_several_problems_are_reported_together(tmp_path):
    body = "    a = x @ x\n    b = nothing + x\n    c = a + b\n    d = x.reshape(7)\n    return c"
    function, _, _ = kernel_of(tmp_path, body)
    with pytest.raises(errors.SeveralErrors) as caught:
        mt.jit(function)(X)
    # `c` and `d` use or follow what failed: only true mistakes are listed.
    assert [type(each).__name__ for each in caught.value.errors] == [
        "KernelTypeError", "UnknownNameError", "KernelValueError",
    ]  # fmt: skip
    assert [each.span.line for each in caught.value.errors] == [15, 16, 18]


def test_an_error_in_a_helper_names_the_call(tmp_path):
    function, file, _ = kernel_of(tmp_path, "    return helper(x)")
    with pytest.raises(errors.KernelTypeError) as caught:
        mt.jit(function)(X)
    assert caught.value.span.line == 12
    [note] = caught.value.notes
    assert note.message == "in helper, called from here"
    assert (note.span.file, note.span.line, note.span.column) == (file, 15, 12)


def test_unbounded_recursion_is_refused(tmp_path):
    file = tmp_path / "recursive.py"
    file.write_text("def again(x):\n    return again(x)\n")
    specification = importlib.util.spec_from_file_location("recursive", file)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    # The second text is that of a process in which `torch.compile` of another test evaluates frames.
    with pytest.raises(errors.KernelValueError, match=r"more than 500 calls deep|inlined \d+ calls deep here"):
        mt.jit(module.again)(X)


def test_calls_that_use_up_the_frames_of_python_are_told_from_deep_expressions(monkeypatch):
    monkeypatch.setattr("mlirtri.lowering.frontend.inlining.FRAMES_OF_CALL", 0)

    def again(x):
        return again(x)

    with pytest.raises(errors.KernelValueError, match=r"(?s)inlined \d+ calls deep here.*end the recursion") as caught:
        mt.jit(again, inline_depth=10_000)(X)
    assert caught.value.span.line == again.__code__.co_firstlineno + 1


def test_a_loop_whose_types_change_in_each_iteration_says_which():
    def grow(x):
        for _ in range(40):
            x = np.append(x, 1.0)
        return x

    with pytest.raises(
        mt.KernelError, match=r"the loop-carried value 'x' is a tensor float64\[\d+\] before an"
    ) as caught:
        mt.jit(grow)(np.zeros(3))
    assert caught.value.span.line == grow.__code__.co_firstlineno + 1


def test_errors_of_arguments_show_the_definition_below_its_decorators():
    @mt.jit(
        debug=True,
    )
    def decorated(x):
        return x

    with pytest.raises(errors.ArgumentMismatchError) as caught:
        decorated(X, X)
    assert "    def decorated(x):\n    ^" in caught.value.span.excerpt().replace("        ", "    ")


ARGUMENTS = [
    ("x, y", (X,), {}, "missing a required argument: 'y'"),
    ("x", (X, X), {}, "too many positional arguments"),
    ("x", (X,), {"z": 1}, "kernel() has no parameter 'z'"),
    ("x, y", (X,), {"z": 1}, "kernel() has no parameter 'z'"),
    ("x: mt.Tensor[[2, 4], mt.float32]", (X,), {}, "'x': expected float32[2, 4], got float32[2, 3]"),
    ("x: mt.Tensor((2, 3), 'float64')", (X,), {}, "'x': expected float64[2, 3], got float32[2, 3]"),
    ("x: mt.Tensor[[int, int, int], None]", (X,), {}, "expected any dtype[?, ?, ?], got float32[2, 3]"),
    ("x, n: int", (X, "a"), {}, "'n': expected int, got str 'a'"),
    ("x, n: int", (X, 2.5), {}, "'n': expected int, got float 2.5"),
    ("x, n: int", (X, mt.int32), {}, "(pass the value, or annotate the parameter mt.int32), got the dtype int32"),
    ("x, n: mt.int32", (X, 2**40), {}, "does not fit int32"),
    ("x, n: mt.float32", (X, "a"), {}, "expected a scalar of float32"),
    ("x, n: mt.int32", (X, mt.int32), {}, "mt.Tensor((), mt.int32) stands for a scalar of run time"),
    ("x", (np.array(["a"]),), {}, "dtype <U1 is not supported"),
    ("x", (np.ones(2, "m8[s]"),), {}, "dtype timedelta64[s] is not supported"),
    ("x", (X.astype(">f4"),), {}, "is not supported"),
    ("x", ({"a": {1}},), {}, "'x'['a']: a set is not an argument kernels take"),
    ("x", ((X, np.array(["a"])),), {}, "'x'[1]: dtype <U1 is not supported"),
]


@pytest.mark.parametrize(("parameters", "arguments", "keywords", "message"), ARGUMENTS)
def test_arguments_that_do_not_fit(tmp_path, parameters, arguments, keywords, message):
    function, file, _ = kernel_of(tmp_path, "    return x", parameters)
    with pytest.raises(errors.ArgumentMismatchError) as caught:
        mt.jit(function)(*arguments, **keywords)
    assert message in caught.value.message
    assert (caught.value.span.file, caught.value.span.line) == (file, 14)


def test_all_argument_mismatches_are_in_one_message(tmp_path):
    function, _, _ = kernel_of(
        tmp_path, "    return x", "x: mt.Tensor[[1], mt.float32], y: mt.Tensor[[1], mt.int8], n: int"
    )
    with pytest.raises(errors.ArgumentMismatchError) as caught:
        mt.jit(function)(X, N, "n")
    assert all(f"'{name}': expected" in caught.value.message for name in ("x", "y", "n"))


@pytest.mark.parametrize(
    ("options", "message", "help"),
    [
        ({"target": "tpu"}, "unknown target 'tpu'", '"cuda:sm_90"'),
        ({"pipeline": "linlg"}, "unknown pipeline 'linlg'", "did you mean 'linalg'"),
        ({"pipeline": ["mlir"]}, "unknown pipeline ['mlir']", "the pipelines are"),
        ({"schedule": "fast"}, "unknown schedule 'fast'", "default"),
        ({"pipeline": "mlir", "target": "cuda"}, "makes CPU code only", "linalg"),
        ({"pipeline": "mlir", "schedule": "meta"}, "'mlir' takes no schedule 'meta'", "linalg"),
        ({"pipeline": "poly", "schedule": "none"}, "'poly' takes no schedule 'none'", "leave it out"),
    ],
)
def test_unknown_options(options, message, help):
    with pytest.raises(errors.UnknownOptionError) as caught:
        mt.jit(lambda x: x, **options)
    assert message in caught.value.message
    assert help in caught.value.help


def test_unknown_stage():
    kernel = mt.jit(lambda x: x + 1).compile(X)
    with pytest.raises(errors.UnknownOptionError, match="did you mean 'fused'"):
        kernel.ir["fusd"]
    with pytest.raises(errors.UnknownOptionError, match="is not MLIR"):
        kernel.to_mlir("relax")


def test_static_assert_and_print(tmp_path, capsys):
    body = (
        "    mt.static_print('shape', x.shape, x)\n    ⟦mt.static_assert(x.shape[0] == 3, f'{x.shape}')⟧\n    return x"
    )
    function, _, place = kernel_of(tmp_path, body)
    with pytest.raises(errors.StaticAssertionError, match=r"static assertion failed: \(2, 3\)") as caught:
        mt.jit(function)(X)
    assert (caught.value.span.line, caught.value.span.column) == place
    assert capsys.readouterr().err == "shape (2, 3) float32[2, 3]\n"


def test_integer_division_by_zero_raises_as_torch_does():
    divide = mt.jit(lambda x, y: x // y)
    x, zero = torch.tensor([1, 2]), torch.tensor([1, 0])
    for pipeline in ("linalg", "relax", "mlir"):
        kernel = divide.compile(x, zero, pipeline=pipeline)
        with pytest.raises(errors.KernelDivisionError, match="integer division by zero") as caught:
            kernel(x, zero)
        assert isinstance(caught.value, ZeroDivisionError)
        assert caught.value.span.file == __file__
        assert torch.equal(kernel(x, x), torch.tensor([1, 1]))


def test_negative_integer_powers_raise_as_numpy_does():
    power = mt.jit(lambda x, y: x**y)
    with pytest.raises(errors.KernelValueError, match="negative integer powers"):
        power(N, np.array([1, -1, 2], np.int32))
    assert np.array_equal(power(N, N), N**N)
