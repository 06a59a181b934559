"""Arguments that are tuples, lists and dicts of tensors, and parameters that take the rest of a call."""

from __future__ import annotations

import warnings
from collections import namedtuple

import numpy as np
import pytest
import torch

import mlirtri as mt
from mlirtri.calls.argument_conversion import NonContiguousWarning
from mlirtri.errors import ArgumentMismatchError, KernelTypeError, UnsupportedSyntaxError
from mlirtri.kernels.cached import Request
from mlirtri.kernels.options import Options
from mlirtri.language.signature import Signature

State = namedtuple("State", "x steps")
V = np.arange(3.0)


def dense(parameters, x):
    return {"y": x @ parameters["w"] + parameters["b"], **parameters}


def layers(weights, x):
    for w in weights:
        x = np.maximum(x @ w, 0)
    return x, weights


def step(state, rate):
    return state._replace(x=state.x * rate * state.steps)


def nested(settings):
    norms = []
    for layer in settings["layers"]:
        layer["w"] -= settings["rate"] * layer["w"]
        norms.append(layer["w"].sum())
    return norms, [{name: w * settings["n"] for name, w in layer.items()} for layer in settings["layers"]]


def rest(a, *others, scale=1.0, **named):
    for other in others:
        a = a + other
    for value in named.values():
        a = a * value
    return a * scale, len(others)


def part(x, where):
    return x[where]


def plain(value):
    """Return a result with lists in place of arrays, and its classes."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value).__name__, [plain(part) for part in value]
    return (np.asarray(value).tolist(), getattr(value, "dtype", type(value)))


CALLS = {
    "dict": (dense, lambda: ({"w": np.eye(3), "b": V}, np.ones((2, 3), np.float32))),
    "dict of torch tensors": (dense, lambda: ({"w": torch.eye(3), "b": torch.ones(3)}, torch.ones(2, 3))),
    "list": (layers, lambda: ([np.eye(3), -np.eye(3)], np.ones((2, 3)))),
    "empty list": (layers, lambda: ([], np.ones((2, 3)))),
    "named tuple": (step, lambda: (State(V, 2), 3.5)),
    "nested, written": (nested, lambda: ({"layers": [{"w": V.copy()}, {"w": V[:2].copy()}], "rate": 0.5, "n": 3},)),
    "slice": (part, lambda: (V, slice(None, None, -2))),
    "tuple of a slice": (part, lambda: (V, (slice(1, 3),))),
}


@pytest.mark.parametrize("pipeline", ["linalg", "relax", "mlir"])
@pytest.mark.parametrize("name", CALLS)
def test_they_are_taken_apart_and_given_back(name, pipeline):
    function, make = CALLS[name]
    ours, pythons = make(), make()
    result = mt.jit(function, pipeline=pipeline)(*ours)
    assert plain(result) == plain(function(*pythons))
    assert plain(ours) == plain(pythons)


def test_parameters_that_take_the_rest():
    kernel = mt.jit(rest)
    for others, named in (((), {}), ((1.5, V), {"z": 2.0}), ((2.5, V), {"z": 3.0, "scale": 2.0})):
        result, pythons = kernel(V, *others, **named), rest(V, *others, **named)
        np.testing.assert_array_equal(result[0], pythons[0])
        assert result[1] == pythons[1]
    assert kernel.compiles == 2  # floats are no part of a kernel
    assert "*others" in str(kernel.signature)
    assert "**named" in str(kernel.signature)


def test_floats_in_them_are_run_time_numbers_and_integers_are_not():
    kernel = mt.jit(nested)
    for rate, n in ((0.5, 1), (0.25, 1), (0.25, 2)):
        kernel({"layers": [{"w": V.copy()}], "rate": rate, "n": n})
    assert kernel.compiles == 2


def test_compiled_kernels_take_containers_or_their_elements():
    parameters = {"w": np.eye(3), "b": V}
    kernel = mt.jit(dense).compile(parameters, np.ones((2, 3)))
    assert [parameter.name for parameter in kernel.interface.parameters] == ["parameters_w", "parameters_b", "x"]
    for arguments in ((parameters, np.ones((2, 3))), (np.eye(3), V, np.ones((2, 3)))):
        np.testing.assert_array_equal(kernel(*arguments)["y"], np.ones((2, 3)) + V)
    abstract = {"w": mt.Tensor((3, 3), mt.float64), "b": mt.Tensor((3,), mt.float64)}
    assert mt.jit(dense).compile(abstract, mt.Tensor((2, 3), mt.float64)).interface.tree == kernel.interface.tree


def test_graphs_pass_values_in_containers():
    layer = mt.jit(dense)
    with mt.graph(semantics="numpy") as graph:
        w, x = (graph.argument(name, mt.Tensor((3, 3), mt.float64)) for name in "wx")
        first = layer({"w": w, "b": w}, x)["y"]
        graph.returns(layer({"w": first, "b": x}, w)["y"])
    a, b = np.arange(9.0).reshape(3, 3), np.eye(3)
    np.testing.assert_array_equal(graph(a, b), a @ (b @ a + a) + b)


def put(settings):
    settings["a"] = settings["a"] + 1


def add_all(values):
    values[0] += values[1]


@pytest.mark.parametrize(
    ("function", "argument", "error", "message"),
    [
        (put, {"a": V}, UnsupportedSyntaxError, "a kernel cannot change: it is an argument of the kernel"),
        (put, {"a": np.ones(2, "m8[s]")}, ArgumentMismatchError, r"'settings'\['a'\]: dtype timedelta64\[s\]"),
        (put, {"a": [V, {1}]}, ArgumentMismatchError, r"'settings'\['a'\]: \[1\]: a set is not an argument"),
        (put, (v for v in [V]), ArgumentMismatchError, r"a generator is not an argument .* pass list\(…\) of it"),
        (add_all, [V, V], ArgumentMismatchError, "'values_0', which the kernel writes, shares memory with 'values_1'"),
    ],
)
def test_what_is_refused(function, argument, error, message):
    with pytest.raises(error, match=message):
        mt.jit(function)(argument)


def test_measurements_name_what_they_do_not_take():
    with pytest.raises(KernelTypeError, match="'parameters' is a container of tensors"):
        mt.compare(mt.jit(dense), {"w": np.eye(3), "b": V}, np.ones((2, 3)))


def test_the_disk_cache_tells_them_by_class_keys_and_elements():
    def digest(argument):
        signature = Signature(part)
        specialization = signature.specialize({"x": argument, "where": 0})
        return Request(part, signature.annotations, specialization, Options()).key.digest

    assert digest({"w": V}) == digest({"w": V + 1})
    assert len({digest(argument) for argument in ({"w": V}, {"v": V}, [V], (V,), [V, V], [V, 1], [V, 2])}) == 7


def test_advice_for_an_element_is_a_parameter_of_its_own():
    @mt.jit
    def total(p, *rest):
        return p["w"].sum() + rest[0].sum() + p["n"]

    total({"w": np.zeros(3), "n": 1}, np.zeros(4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(NonContiguousWarning, match=r"'rest_0' is not contiguous and is copied at each call$"):
            total({"w": np.zeros(3), "n": 1}, np.zeros(8)[::2])
    total({"w": np.zeros(5), "n": 2}, np.zeros(4))
    text = str(total.explain())
    assert 'help: make it a parameter of its own, and annotate p_w: mt.Tensor[[mt.dyn["n"]], mt.float64]' in text
    assert "help: make it a parameter of its own, and annotate p_n: mt.int32 to decide it at run time" in text
