"""Views, indices and updates: what a kernel reads and writes through them is what NumPy and torch read and write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from combinations import in_turn
from numpy_kernel_checks import compare_results
from program_runner import load

import mlirtri as mt
from mlirtri.errors import IntegerBoundsError

SQUARE = np.arange(20.0).reshape(4, 5)
VECTOR = np.array([3.0, -1.0, 4.0, 1.0, -5.0, 9.0, 2.0])
POSITIONS = np.array([2, 0, -1, 2])
MASK = VECTOR > 1

STATEMENTS = {
    "element": "a[1, 2] = 7.0",
    "negative element": "a[-1, -2] = 7.0",
    "row": "a[1] = a[2] * 2",
    "column": "a[:, -1] = a[:, 0]",
    "block": "a[1:3, 2:] = 5.0",
    "steps": "a[::2, ::-1] = a[1::2, :]",
    "broadcast": "a[:] = v[:5]",
    "overlap forwards": "v[1:] = v[:-1]",
    "overlap backwards": "v[:-1] = v[1:]",
    "reversed onto itself": "v[:] = v[::-1]",
    "transposed onto itself": "a[:, :4] = a[:, :4].T",
    "update slice": "a[1, :] += a[0, :]",
    "update element": "a[2, 3] -= a[0, 1] * 2",
    "update name": "a *= v[:5]",
    "update view": "b = a[1:, 1:]\nb += 1\nb[0] = b[1] + a[1, 1]",
    "view sees writes": "b = a[2]\na[2, 0] = 99.0\nv[:5] = b",
    "writes through a transposed view": "b = a.T\nb[0] = 4.0\nb[1:3, 2] += 1",
    "writes through a reshaped view": "b = a.reshape(2, 10)\nb[1, 3] = -1.0\nc = b.ravel()\nc[0] = 5.0",
    "reshaped copies": "b = a.T.reshape(20)\nb[0] = -7.0",
    "copies share nothing": "b = a.copy()\nb[0] = 0.0\nc = a[0] * 1\nc[1] = 1.0",
    "flatten copies": "b = a.flatten()\nb[:] = 0.0",
    "new axes": "a[:, None, :][1, 0] = 3.0\nv[None][0, 1] = 2.0",
    "ellipsis": "a[..., 1] = 0.0\nv[...] = 1.0",
    "chained": "a[1:][1][2:4] = 8.0",
    "swap elements": "v[0], v[1] = v[1], v[0]",
    "swap rows through copies": "a[0], a[1] = a[1].copy(), a[0].copy()",
    "swap of views as NumPy has it": "a[0], a[1] = a[1], a[0]",
    "mask scalar": "v[v > 2] = 0.0",
    "mask update": "v[m] *= 10",
    "mask array": "v[m] = v[m][::-1]",
    "mask of rows": "a[a[:, 0] > 4] = v[:5]",
    "mask beside an integer": "a[m[:4], 1] = 5.0\na[0, m[:5]] += 1\nv[:5] = a[m[:4], 0].sum()",
    "mask after a slice": "a[:, m[:5]] = a[:, m[:5]] * 2\na[1:3, m[:5]] = a[1:3, :1]\nv[0] = a[:, m[:5]][1, -1]",
    "mask and a slice between": "b = a.reshape(2, 2, 5)\nb[m[:2], :, 0] = -1.0\nb[0, :, m[:5]] = v[:2]",
    "mask and a new axis": "v[:] = a[None, m[:4]].sum() + a[m[:4], None, 1:3].max()",
    "masks and new axes beside positions": "a[m[:4], p[:2]] = -1.0\na[p[:2, None], None, p] += 2.0\n"
    "v[0] = a[None, p, 1].sum() + a[np.ix_(m[:4], [1, 2])].max() + a[[[0, 1]], 1][0, 1]",
    "where of a ufunc": "np.divide(1, v, out=v, where=v > 2)\nnp.sqrt(a, out=a, where=m[:5])",
    "gather": "v[:4] = v[p]",
    "scatter, the last one wins": "v[p] = np.array([1.0, 2.0, 3.0, 4.0])",
    "scatter update counts once": "v[p] += 1",
    "gather rows": "a[:] = a[p]",
    "gather column": "v[:4] = a[p, 1]",
    "gather pairs": "v[:4] = a[p, p]",
    "scatter rows": "a[p[:2]] = v[:5]",
    "list of positions": "a[[0, 2], 1:3] = 6.0",
    "out": "np.add(a, 1, out=a)\nnp.multiply(v, v, v)",
    "shape": "b = a.copy()\nc = b\nb.shape = (5, 4)\nc[4, 3] = 0.5\na[0] = b[4, 3]",
    "slices beyond the end": "v[5:100] = 0.0\nv[-100:2] = 1.0\nv[4:2] = 5.0",
    "casts on assignment": "v[0] = 3\na[0] = p[0]",
}


def program(statements: str, tmp_path) -> Any:
    from importlib import util

    file = tmp_path / "program.py"
    body = statements.replace("\n", "\n    ")
    file.write_text(f"import numpy as np\n\ndef program(a, v, m, p):\n    {body}\n    return a * 1, v.sum()\n")
    spec = util.spec_from_file_location("program", file)
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.program


@pytest.mark.parametrize(("name", "pipeline"), in_turn(STATEMENTS, ["linalg", "mlir"]))
def test_numpy_updates(name, pipeline, tmp_path):
    function = program(STATEMENTS[name], tmp_path)
    plain, ours = ([SQUARE.copy(), VECTOR.copy(), MASK.copy(), POSITIONS.copy()] for _ in range(2))
    expected = function(*plain)
    found = mt.jit(function, pipeline=pipeline)(*ours)
    compare_results(found, expected, 1e-13, "returned value")
    compare_results(tuple(ours), tuple(plain), 1e-13, "argument")


TORCH = {
    "elements are views": "x = v[0]\nx += 5\nv[1] = x",
    "in-place slice": "a[1:] += a[:-1].clone()",
    "view": "b = a.view(5, 4)\nb[0] = 1.0\na.t()[2] = 3.0",
    "mask": "v[v > 2] = 0.0",
    "narrow": "v.narrow(0, 1, 2)[:] = 9.0",
}


@pytest.mark.parametrize("statements", TORCH.values(), ids=TORCH)
def test_torch_updates(statements, tmp_path):
    function = program(statements, tmp_path)
    plain, ours = ([torch.from_numpy(each.copy()) for each in (SQUARE, VECTOR, MASK, POSITIONS)] for _ in range(2))
    expected = function(*plain)
    found = mt.jit(function)(*ours)
    for mine, other in zip((*found, *ours), (*expected, *plain), strict=True):
        assert torch.equal(mine, other)


def test_a_mask_takes_one_value_or_one_for_each_true_element():
    def assigned(a, m, values):
        a[m] = values
        return a

    kernel, mask = mt.jit(assigned), SQUARE > 7
    values = np.arange(float(mask.sum()))
    for given in (values, values[:1]):
        np.testing.assert_array_equal(kernel(SQUARE.copy(), mask, given), assigned(SQUARE.copy(), mask, given))
    with pytest.raises(ValueError, match="another number of values"):
        kernel(SQUARE.copy(), mask, values[:-1])


def add_rows(a, b):
    for i in range(a.shape[0]):
        a[i] += b[i]


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
@pytest.mark.parametrize("kind", ["array", "tensor"])
def test_strided_arguments_are_written(pipeline, kind):
    memory, wanted = np.zeros((8, 10)), np.zeros((8, 10))
    b = np.arange(20.0).reshape(4, 5)
    wanted[::2, ::2] += b
    a = memory[::2, ::2]
    arguments = (a, b) if kind == "array" else (torch.from_numpy(memory)[::2, ::2], torch.from_numpy(b))
    with pytest.warns(UserWarning, match="not contiguous"):
        mt.jit(add_rows, pipeline=pipeline)(*arguments)
    np.testing.assert_array_equal(memory, wanted)


def count_to(a, n):
    while a < n:
        a += 1
    b = a
    b *= 2
    return b + 1


@pytest.mark.parametrize("pipeline", ["linalg", "relax", "mlir", "interpreter"])
@pytest.mark.parametrize("make", [np.zeros, torch.zeros])
def test_arguments_of_rank_0_are_written(pipeline, make):
    a, wanted = make(()), make(())
    result = mt.jit(count_to, pipeline=pipeline)(a, 5)
    assert result == count_to(wanted, 5) == 11
    assert a == wanted == 10


@pytest.mark.parametrize("number", [np.float32(0), np.int8(0), 0.0])
def test_numbers_are_not_written(number):
    kernel = mt.jit(count_to)
    assert kernel(np.zeros((), np.asarray(number).dtype), 5) == 11
    assert kernel(number, 5) == 11
    assert kernel.compile(number, 5).writes == ()


def test_a_kernel_of_rank_0_arrays_refuses_a_number_that_it_would_write():
    kernel = mt.jit(count_to).compile(np.zeros((), np.float32), 5)
    assert kernel.writes == ("a",)
    with pytest.raises(mt.KernelError, match="'a', which the kernel writes, is a float32, which has no memory"):
        kernel(np.float32(0))


def test_arguments_that_overlap_are_refused():
    memory = np.zeros((9, 5))
    kernel = mt.jit(add_rows)
    with pytest.raises(mt.KernelError, match="'a', which the kernel writes, shares memory with 'b'"):
        kernel(memory[:4], memory[1:5])
    kernel(memory[:4], memory[4:8])


def test_arguments_that_cannot_be_written_are_refused():
    kernel = mt.jit(add_rows)
    fixed = np.zeros((2, 2))
    fixed.flags.writeable = False
    with pytest.raises(mt.KernelError, match="is read-only"):
        kernel(fixed, np.zeros((2, 2)))
    with pytest.raises(mt.KernelError, match="several elements at one address"):
        kernel(torch.zeros(1, 2).expand(2, 2), torch.zeros(2, 2))


def test_a_diagonal_by_einsum_is_read_but_not_written(tmp_path):
    rest = VECTOR.copy(), MASK.copy(), POSITIONS.copy()
    reads = program("v[:4] = np.einsum('ii->i', a[:, :4])", tmp_path)
    mt.jit(reads, pipeline="mlir")(SQUARE.copy(), *rest)
    np.testing.assert_array_equal(rest[0][:4], SQUARE.diagonal())
    with pytest.raises(mt.KernelError, match="the result of einsum"):
        mt.jit(program("b = np.einsum('ii->i', a[:, :4])\nb[0] = 9.0", tmp_path))(SQUARE.copy(), *rest)


@pytest.mark.parametrize("reshaped", ["a.ravel()", "a.reshape(-1)", "a.reshape(2, -1)[0]"])
def test_views_in_another_shape_need_arguments_in_order(reshaped, tmp_path):
    function = program(f"b = {reshaped}\nb[0] = 9.0", tmp_path)
    rest = VECTOR.copy(), MASK.copy(), POSITIONS.copy()
    a = SQUARE.copy()
    mt.jit(function, pipeline="mlir")(a, *rest)
    assert a[0, 0] == 9
    with pytest.raises(mt.KernelError, match="is not contiguous: NumPy would copy it there"):
        mt.jit(function, pipeline="mlir")(SQUARE.copy()[:, ::-1], *rest)


def test_a_view_in_another_shape_that_is_read_after_a_write_needs_an_argument_in_order():
    def doubled(a):
        b = a.reshape(-1)
        a *= 2
        return b

    np.testing.assert_array_equal(mt.jit(doubled)(SQUARE.copy()), 2 * SQUARE.ravel())
    with pytest.raises(mt.KernelError, match="is not contiguous: NumPy would copy it there"):
        mt.jit(doubled)(SQUARE.copy()[:, ::-1])


def test_positions_are_checked_at_run_time():
    def pick(a, p):
        total = 0.0
        for i in range(p.shape[0]):
            total += a[p[i]]
        return total

    kernel = mt.jit(pick)
    assert kernel(VECTOR, np.array([0, -1])) == 5.0
    with pytest.raises(IndexError, match="an index is out of bounds for axis 0 of size 7") as caught:
        kernel(VECTOR, np.array([0, 7]))
    assert caught.value.span.line == pick.__code__.co_firstlineno + 3


def test_a_loop_that_leaves_its_array_is_refused():
    def beyond(a):
        for i in range(9):
            a[i] += 1

    def before(a):
        for i in range(1, 3):
            for j in range(7):
                a[2 - i - j] = 0

    for function, message, line in ((beyond, "index i reaches 8", 2), (before, r"index -i - j \+ 2 reaches -6", 3)):
        with pytest.raises(IndexError, match=message) as caught:
            mt.jit(function)(np.zeros(4 if function is beyond else 5))
        assert caught.value.span.line == function.__code__.co_firstlineno + line


def test_a_number_is_updated_by_a_conditional_expression():
    def program(y, x):
        a = 0.0
        for _ in range(5):
            a += x[1] if y[0] > 0.25 else x[0]
        if y[1] > 0.25:
            a -= x[0] if y[0] > 0.75 else x[1]
        return a

    y, x = np.array([0.5, 0.6]), np.array([1.0, 2.0])
    for pipeline in ("linalg", "mlir", "interpreter"):
        assert mt.jit(program, pipeline=pipeline)(y, x) == program(y, x)


def under_a_condition(a):
    for i in range(9):
        if i < a.shape[0]:
            a[i] += 1


def before_a_break(a):
    for i in range(9):
        if i >= a.shape[0]:
            break
        a[i] += 1


def in_a_loop_that_may_not_run(a, n: mt.int32 = 0):
    for _ in range(n):
        for i in range(9):
            a[i] += 1


def with_a_step(a):
    for i in range(0, 8, 2):
        a[i // 2] += 1


@pytest.mark.parametrize("function", [under_a_condition, before_a_break, in_a_loop_that_may_not_run, with_a_step])
def test_indices_that_stay_inside_though_their_loop_does_not(function):
    expected, result = np.zeros(4), np.zeros(4)
    function(expected)
    mt.jit(function)(result)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("statement", ["a[0] = 300", "a[:] = [1, 2, 300]", "a[a > 3] = 300", "a[[0, 1]] = 300.5"])
@pytest.mark.parametrize("make", [np.array, torch.tensor])
def test_ints_that_do_not_fit_are_refused(statement, make, tmp_path):
    function = load(f"def program(a):\n    {statement}\n    return a\n", tmp_path).program
    small = make([5, 250, 44])
    small = small.to(torch.uint8) if make is torch.tensor else small.astype(np.uint8)
    with pytest.raises(IntegerBoundsError, match="Python int 300 does not fit uint8"):
        mt.jit(function)(small)


def test_new_arrays_refuse_ints_that_do_not_fit():
    for function in (
        lambda a: np.array([1, 2, 300], np.uint8) + a,
        lambda a: np.full(3, -1, np.uint8) + a,
        lambda a: torch.full((3,), 300, dtype=torch.uint8) + a,
        lambda a: a.fill(300),
        lambda a: np.uint8(300) + a,
    ):
        with pytest.raises(OverflowError, match=r"Python int (300|-1) does not fit uint8"):
            mt.jit(function)(np.zeros(3, np.uint8))


@pytest.mark.parametrize("pipeline", ["interpreter", "linalg", "relax", "mlir"])
def test_torch_wraps_the_ints_of_arithmetic(pipeline):
    def program(a):
        return a + 300, a * -1, a > 300, a == 300, 300 - a

    a = torch.tensor([5, 250, 44], dtype=torch.uint8)
    for mine, other in zip(mt.jit(program, pipeline=pipeline)(a), program(a), strict=True):
        assert torch.equal(mine, other)
        assert mine.dtype == other.dtype


def test_assert_and_device_print(capsys):
    def check(a, n: mt.int32):
        for i in range(n):
            mt.device_print("turn", i, a[i])
            assert a[i] < 5, "too large"
        return n

    assert mt.jit(check)(VECTOR, 6) == 6
    assert capsys.readouterr().out == ""
    with pytest.raises(AssertionError, match="too large"):
        mt.jit(check, debug=True)(VECTOR, 6)
    assert capsys.readouterr().out.splitlines()[1] == "turn 1 -1.0"


def test_two_threads_write_their_own_arrays():
    from concurrent.futures import ThreadPoolExecutor

    kernel = mt.jit(add_rows)
    arrays = [np.zeros((50, 40)) for _ in range(8)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda each: [kernel(each, np.ones((50, 40))) for _ in range(20)], arrays))
    assert all((each == 20).all() for each in arrays)
