"""Random programs: every pipeline agrees with NumPy on expressions, broadcasting, reductions, shapes and matmuls.

Hypothesis makes the source of a kernel and its inputs, and shrinks what fails to the smallest such program.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes
from tolerances import tolerance

import mlirtri as mt

PIPELINES = ("linalg", "relax", "mlir")
BOUNDED = settings(
    max_examples=5, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)  # fmt: skip
UNARY = ("np.sin({})", "np.tanh({})", "np.abs({})", "-{}", "np.exp(-np.abs({}))", "np.floor({})", "np.sqrt(np.abs({}))")
BINARY = ("({} + {})", "({} - {})", "({} * {})", "np.maximum({}, {})", "np.where({} > 0, {}, 1.5)", "({} < {})")


def expressions(names):
    leaf = st.sampled_from([*names, "2.5", "3"])
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.tuples(st.sampled_from(UNARY), inner).map(lambda p: p[0].format(p[1])),
            st.tuples(st.sampled_from(BINARY), inner, inner).map(lambda p: p[0].format(p[1], p[2])),
        ),
        max_leaves=8,
    )


def function_of(tmp_path_factory, body: str, parameters: str):
    file = tmp_path_factory.mktemp("program") / "program.py"
    file.write_text(f"import numpy as np\n\ndef program({parameters}):\n    {body}\n")
    namespace: dict = {}
    exec(compile(file.read_text(), str(file), "exec"), namespace)
    return namespace["program"]


def agree(function, *arguments, length=1, growth=1):
    """`length` terms are summed; an expression may multiply its errors by `growth`, or round a half twice."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            wanted = function(*arguments)
        except TypeError:
            # NumPy refuses the dtypes (`-` of bools); what we refuse is test_promotion's matter.
            reject()
        for pipeline in PIPELINES:
            found = mt.jit(function, pipeline=pipeline)(*arguments)
            for f, w in zip(flat(found), flat(wanted), strict=True):
                w = np.asarray(w)
                assert (f.dtype, f.shape) == (w.dtype, w.shape), pipeline
                near = tolerance(w.dtype, length) * (2 if w.dtype == np.float16 else growth)
                np.testing.assert_allclose(f, w, rtol=near, atol=near, err_msg=pipeline)


def flat(value):
    return [leaf for part in value for leaf in flat(part)] if isinstance(value, tuple) else [value]


def filled(shape, seed, dtype=np.float32):
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(dtype)


@BOUNDED
@given(data=st.data())
def test_elementwise_programs(tmp_path_factory, data):
    shape = data.draw(array_shapes(min_dims=1, max_dims=3, max_side=5))
    axes = data.draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)))
    other = tuple(1 if collapse else size for collapse, size in zip(axes, shape, strict=True))
    dropped = data.draw(st.integers(0, len(other)))
    # Integers stay exact in float64, so that comparisons do not hang on a rounding.
    x, y = filled(shape, 1, np.float64), filled(other[dropped:], 2, np.float64)
    first, second = data.draw(expressions(["x", "y"])), data.draw(expressions(["x", "y", "z"]))
    body = f"z = {first} + 0 * x\n    return z, {second} + 0 * y"
    agree(function_of(tmp_path_factory, body, "x, y"), x, y, growth=128)


@BOUNDED
@given(data=st.data())
def test_reductions(tmp_path_factory, data):
    shape = data.draw(array_shapes(min_dims=1, max_dims=4, max_side=5))
    axis = data.draw(st.one_of(st.none(), st.integers(-len(shape), len(shape) - 1)))
    names = data.draw(
        st.lists(
            st.sampled_from(["sum", "max", "min", "mean", "prod", "std", "argmax", "argmin"]), min_size=1, max_size=3
        )
    )
    keep = data.draw(st.booleans())
    parts = ", ".join(f"np.{name}(np.sin(x) * 2, axis={axis}, keepdims={keep})" for name in names)
    x = filled(shape, 3)
    agree(function_of(tmp_path_factory, f"return ({parts},)", "x"), x, length=x.size)


@BOUNDED
@given(data=st.data())
def test_shapes(tmp_path_factory, data):
    shape = data.draw(array_shapes(min_dims=1, max_dims=4, max_side=4))
    x = filled(shape, 4)
    permutation = data.draw(st.permutations(range(len(shape))))
    flips = data.draw(st.sets(st.integers(0, len(shape) - 1)))
    starts = [data.draw(st.integers(0, size - 1)) for size in shape]
    steps = [data.draw(st.sampled_from([1, 2, -1])) for _ in shape]
    index = ", ".join(f"{start}::{step}" for start, step in zip(starts, steps, strict=True))
    axis = data.draw(st.integers(0, len(shape) - 1))
    body = (
        f"y = np.transpose(x, {tuple(permutation)})\n"
        f"    z = np.flip(x, {tuple(sorted(flips))}) if {bool(flips)} else x\n"
        f"    return y.reshape(-1), x[{index}] * 2, np.concatenate([x, z + 1], {axis}), np.stack([x, z], {axis}) + 1"
    )
    agree(function_of(tmp_path_factory, body, "x"), x)


@BOUNDED
@given(data=st.data())
def test_matmuls(tmp_path_factory, data):
    rows, inner, columns = (data.draw(st.integers(1, 9)) for _ in range(3))
    left = data.draw(st.sampled_from([(), (2,), (3, 2), (1, 2)]))
    right = data.draw(st.sampled_from([(), (2,), (3, 1), (1,)]))
    epilogue = data.draw(
        st.sampled_from(["p", "np.maximum(p, 0) + 1", "p * y[..., :1, :]", "p.sum(-1)", "p - x[..., :1]"])
    )
    x, y = filled((*left, rows, inner), 5), filled((*right, inner, columns), 6)
    body = f"p = x @ y\n    return p, {epilogue}"
    agree(function_of(tmp_path_factory, body, "x, y"), x, y, length=inner * columns)


@pytest.mark.slow
@pytest.mark.parametrize("test", [test_elementwise_programs, test_reductions, test_shapes, test_matmuls])
def test_more_programs(tmp_path_factory, test):
    many = settings(BOUNDED, max_examples=100)
    many(given(data=st.data())(test.hypothesis.inner_test))(tmp_path_factory)
