"""Results share memory with their operand exactly where they do in the library: a write to one shows in the other.

A reshape is a view where the strides allow it. The kernels are interpreted: what a view is, is decided in the frontend.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from numpy.lib.stride_tricks import sliding_window_view
from program_runner import load

import mlirtri as mt

ROWS = mt.Tensor[[mt.dyn["N"], 2], mt.float64]
VECTOR = mt.Tensor[[mt.dyn["N"]], mt.float64]
NUMPY = """
np.diag(x)  np.diagonal(a=x)  np.broadcast_arrays(x,x[0])[0]
np.meshgrid(x[0],x[1],copy=False)[0]  np.meshgrid(x[0],x[1])[0]
x.flatten()  np.flip(m=x,axis=0)  np.moveaxis(x,source=0,destination=1)  x[1:].reshape(-1)  x[:2][:1].reshape(-1)
x[:,0].reshape(2,-1)  x[:,:1].ravel()  x[:,1].ravel()  x.T[0].T.reshape(2,-1)
x[None][:,1:].ravel().reshape(1,-1)  x[::2].reshape(-1)
x[::-1][::-1].ravel()  x.T.ravel()  x.T.reshape(-1)  np.ascontiguousarray(x.T)  np.ascontiguousarray(x[1:])
x[:,:2].reshape(8)
np.rot90(x)  np.split(x,2)[0].reshape(-1)
""".split()
TORCH = """
torch.diag(x)  torch.flip(x,[0])  x.flip(0)  torch.rot90(x)  x.flatten()  x[1:].flatten()  x.t().flatten()
torch.unbind(x)[0]
x.contiguous()  x.t().contiguous()  x[:,0].reshape(2,-1)  x[:2].unsqueeze(1).flatten()  x.chunk(2)[1].reshape(-1)
torch.meshgrid(x[0],x[1],indexing="ij")[0]  x.narrow(0,1,2).reshape(2,-1)
""".split()
RESULTS = {
    "numpy": """a.T+1  a+1  (a+1).T  a[::-1].T-1  a[:,[0,1]]  a[[0,1]]  np.where(a.T>.5,a.T,0)  np.copy(a.T)  a.T.copy()
        +a.T  a.T**2  a.T.astype(np.float32)  np.zeros_like(a.T)  a.T+a[:,0]  
        np.broadcast_to(a[:,:1],(3,4))+1  a.T@a  np.sort(a.T,0)
        c.transpose(2,0,1)*2  c[:,[2,0,1],[1,0,1]]  np.tile(a.T,(1,2))  a.reshape(2,6).T+1
        c.transpose(1,0,2)+c.swapaxes(0,1)""",
    "torch": """a.T+1  a+1  (a+1).T  a[:,[0,1]]  torch.where(a.T>.5,a.T,0.)  a.T.clone()  a.T.contiguous()  -a.T
        torch.relu(a.T)  c.permute(2,0,1)*2  a.T.expand(2,4,3)+1""",
}
UNKNOWN = {
    "numpy": """np.einsum('ij,jk->ki',a,a.T)  np.cumsum(a.T,0)  a.T[[0,1]]  c.transpose(2,0,1).sum(0)""",
    "torch": "torch.linalg.inv(a[:,:3])  torch.flip(a.T,(0,))  torch.rot90(a)  torch.softmax(a.T,0)",
}
WRITES = {"operand": "x[:] = 5", "result": "y[...] = 7"}


def kernels():
    for library, expressions in (("numpy", NUMPY), ("torch", TORCH)):
        for expression, (written, statement) in itertools.product(expressions, WRITES.items()):
            yield pytest.param(library, expression, statement, id=f"{expression}-{written}")


@pytest.mark.parametrize(("library", "expression", "statement"), list(kernels()))
def test_views_and_copies(library, expression, statement, tmp_path):
    text = (
        f"import numpy as np\nimport torch\n\n\ndef program(x):\n    y = {expression}\n    {statement}\n    return y\n"
    )
    program = load(text, tmp_path).program
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    plain, ours = (x.copy() if library == "numpy" else torch.from_numpy(x.copy()) for _ in range(2))
    try:
        expected = program(plain)
    except (ValueError, RuntimeError):
        pytest.skip("a view that the library does not write")
    try:
        result = mt.jit(program, pipeline="interpreter")(ours)
    except mt.KernelError as error:
        if "elements share memory" not in str(error):
            raise
        return
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(ours, plain)


def _written_through_a_reshape(library, expression, folder, write):
    text = f"import numpy as np\nimport torch\n\n\ndef program(a, c):\n    y = {expression}\n    z = y.reshape(-1)\n"
    program = load(text + f"    {write} = 99\n    return y, z\n", folder).program
    a, c = (np.random.default_rng(0).random(shape) for shape in ((3, 4), (2, 3, 4)))
    return program, ((a, c) if library == "numpy" else (torch.from_numpy(a), torch.from_numpy(c)))


@pytest.mark.parametrize("write", ["z[1]", "y[0, 1]"])
@pytest.mark.parametrize(("library", "expression"), [(k, e) for k, v in RESULTS.items() for e in v.split()])
def test_reshapes_of_new_arrays_follow_the_librarys_order_in_memory(library, expression, write, tmp_path):
    program, arguments = _written_through_a_reshape(library, expression, tmp_path, write)
    for result, expected in zip(mt.jit(program, pipeline="interpreter")(*arguments), program(*arguments), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-12)


@pytest.mark.parametrize(("library", "expression"), [(k, e) for k, v in UNKNOWN.items() for e in v.split("  ")])
def test_a_reshape_of_an_array_of_unknown_order_is_not_written(library, expression, tmp_path):
    program, arguments = _written_through_a_reshape(library, expression, tmp_path, "z[1]")
    with pytest.raises(mt.KernelError, match="how the library lays out the array"):
        mt.jit(program, pipeline="interpreter")(*arguments)


def test_orders_in_memory_through_loops_branches_and_arguments():
    def kernel(a, n: mt.int32):
        y = a.T + 1
        for _ in range(n):
            y = y * 2
        z = a + 1
        if n > 2:
            z = a * 2
        y.reshape(-1)[1], z.reshape(-1)[1] = 99, 99
        return y, z

    compiled, a = mt.jit(kernel, pipeline="mlir"), np.arange(12.0).reshape(3, 4)
    for argument in (a, a, a[:, ::2], a[::-1]):
        for result, expected in zip(compiled(argument, np.int32(3)), kernel(argument, 3), strict=True):
            np.testing.assert_array_equal(result, expected)
    for _ in range(2):
        with pytest.raises(mt.KernelError, match="laid out as 'a', which is not in row-major order"):
            compiled(np.asfortranarray(a), np.int32(3))


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_reshapes_of_strided_views_in_compiled_kernels(pipeline):
    def program(x):
        view = x[:, 0].reshape(2, -1)
        copy = x[:, :2].reshape(-1)
        x[:] = x + 1
        view[0, 0] = 100
        return view * 1, copy

    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    plain, ours = x.copy(), x.copy()
    for result, expected in zip(mt.jit(program, pipeline=pipeline)(ours), program(plain), strict=True):
        np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(ours, plain)


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_writes_through_reshapes_of_run_time_sizes(pipeline):
    def program(x: ROWS):
        flat = x.reshape(-1)
        for i in range(flat.shape[0]):
            flat[i] = i
        halves = flat.reshape(2, -1)
        for i in range(halves.shape[1]):
            halves[1, i] += 100
        halves[0, 1:] = 9
        return x

    kernel = mt.jit(program, pipeline=pipeline)
    for rows in (4, 6, 2):
        plain, ours = np.zeros((rows, 2)), np.zeros((rows, 2))
        np.testing.assert_array_equal(kernel(ours), program(plain))
        np.testing.assert_array_equal(ours, plain)


def windows(x):
    return (sliding_window_view(x, (3, 2)), sliding_window_view(x, 3, axis=1), sliding_window_view(x, (2, 4), (1, 0)),
            sliding_window_view(x, 4, 0), sliding_window_view(x[0], 1).sum(-1))  # fmt: skip


def test_windows():
    x = np.arange(20.0).reshape(4, 5)
    for mine, other in zip(mt.jit(windows)(x), windows(x), strict=True):
        np.testing.assert_array_equal(mine, other)


def test_windows_of_run_time_lengths():
    def averages(x: VECTOR):
        return sliding_window_view(x, 3).mean(-1)

    kernel = mt.jit(averages, pipeline="mlir")
    for length in (3, 7):
        x = np.arange(float(length))
        np.testing.assert_array_equal(kernel(x), averages(x))
    with pytest.raises(ValueError, match="a window of 3 elements does not fit into axis 0"):
        kernel(np.arange(2.0))


def test_windows_are_no_copies():
    def of_windows(x):
        w = sliding_window_view(x, 2, 0)
        w[0] = 1
        return w

    def of_array(x):
        w = sliding_window_view(x, 2, 0)
        x[0] = 1
        return w.sum()

    for function, message in ((of_windows, "cannot write in place"), (of_array, "was written since")):
        with pytest.raises(mt.KernelError, match=message):
            mt.jit(function)(np.ones((3, 3)))
