"""When a call compiles, when it takes a kernel that is there, and that threads agree about it."""

from __future__ import annotations

import gc
import importlib
import math
import sys
import threading
import types

import numpy as np
import pytest
import torch
from tolerances import within

import mlirtri as mt

SCALE = 2.0
TABLE = [1.0, 2.0]
ZERO = 0.0
settings = types.ModuleType("settings_of_a_test")
settings.OFFSET = 1.0


def helper(x):
    return x + 1


def newer_helper():
    def helper(x):
        return x + 3

    return helper


def scaled(a):
    return a * SCALE


def indexed(a):
    return a * TABLE[1]


def signed(a):
    return a * ZERO


def helped(a):
    return helper(a) * 2


def offset(a):
    return a + settings.OFFSET


@pytest.fixture
def x():
    return torch.full((3,), 3.0)


# --- what recompiles -------------------------------------------------------------------------------------------------


def test_a_changed_global_recompiles_and_the_old_value_finds_its_kernel(x, monkeypatch):
    function = mt.jit(scaled)
    assert function(x)[0] == 6
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    assert function(x)[0] == 15
    assert function.compiles == 2
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    assert function(x)[0] == 6
    assert function.compiles == 2


def test_a_list_changed_in_place_recompiles(x, monkeypatch):
    function = mt.jit(indexed)
    assert function(x)[0] == 6
    monkeypatch.setitem(globals(), "TABLE", table := [1.0, 2.0])
    assert function(x)[0] == 6
    table[1] = 7.0
    assert function(x)[0] == 21


def test_the_sign_of_a_captured_zero_counts(x, monkeypatch):
    function = mt.jit(signed)
    assert math.copysign(1, function(x)[0]) == 1
    monkeypatch.setitem(globals(), "ZERO", -0.0)
    assert math.copysign(1, function(x)[0]) == -1


def test_an_attribute_of_a_module_is_looked_at_again(x, monkeypatch):
    function = mt.jit(offset)
    assert function(x)[0] == 4
    monkeypatch.setattr(settings, "OFFSET", 10.0)
    assert function(x)[0] == 13


def test_another_helper_recompiles(x, monkeypatch):
    function = mt.jit(helped)
    assert function(x)[0] == 8

    def better(x):
        return x + 2

    monkeypatch.setitem(globals(), "helper", better)
    assert function(x)[0] == 10


def test_new_code_in_an_old_helper_recompiles(x, monkeypatch):
    function = mt.jit(helped)
    assert function(x)[0] == 8
    monkeypatch.setattr(helper, "__code__", newer_helper().__code__)
    assert function(x)[0] == 12


def test_an_edited_file_recompiles_after_its_reload(x, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "kernels_of_a_test.py"
    source = "import mlirtri as mt\n\n\n@mt.jit\ndef f(a):\n    return a + {}\n"
    file.write_text(source.format(1))
    module = importlib.import_module("kernels_of_a_test")
    assert module.f(x)[0] == 4
    file.write_text(source.format(20))
    assert importlib.reload(module).f(x)[0] == 23


def test_closure_values_are_looked_at_again(x):
    amount = 1.0

    def shifted(a):
        return a + amount

    function = mt.jit(shifted)
    assert function(x)[0] == 4
    amount = 2.0
    assert function(x)[0] == 5


def test_functions_made_in_a_loop_have_their_own_values(x):
    def make(amount):
        @mt.jit
        def shifted(a):
            return a + amount

        return shifted

    functions = [make(amount) for amount in (1.0, 2.0, 3.0)]
    assert [function(x)[0].item() for function in functions] == [4, 5, 6]
    assert functions[0].compile(x) is make(1.0).compile(x)
    assert functions[0].compile(x) is not functions[1].compile(x)


def test_constants_of_other_values_or_types_recompile(x):
    function = mt.jit(lambda a, n: a * n)
    assert [function(x, n)[0].item() for n in (1, 2, 3, 1.5, 2)] == [3, 6, 9, 4.5, 6]
    assert function.compiles == 4


def test_floats_in_tuples_and_annotated_floats_are_compiled_in(x):
    first = mt.jit(lambda a, t: a * t[0])
    assert [math.copysign(1, first(x, (zero,))[0]) for zero in (0.0, -0.0)] == [1, -1]
    assert [first(x, (value,))[0].item() for value in (2.0, 3.0)] == [6, 9]

    @mt.jit
    def constant(a, factor: float):
        return a * factor

    assert [constant(x, factor)[0].item() for factor in (2.0, 3.0, 2.0)] == [6, 9, 6]
    assert constant.compiles == 2


def test_other_shapes_dtypes_semantics_pipelines_and_targets_are_other_kernels(x):
    function = mt.jit(lambda a: a + a)
    kernels = [
        function.compile(x),
        function.compile(x.double()),
        function.compile(torch.ones(4)),
        function.compile(np.ones(3, np.float32)),
        function.compile(x, pipeline="mlir"),
        function.compile(x, target="cuda"),
        function.compile(x, schedule="none"),
    ]
    assert len({id(kernel) for kernel in kernels}) == len(kernels)
    assert function.compiles == len(kernels)


def test_the_number_of_threads_is_part_of_the_key(x, monkeypatch):
    function = mt.jit(lambda a: a - a)
    monkeypatch.setenv("MLIRTRI_NUM_THREADS", "1")
    one = function.compile(x)
    monkeypatch.setenv("MLIRTRI_NUM_THREADS", "2")
    assert function.compile(x) is not one


# --- what does not ---------------------------------------------------------------------------------------------------


def test_fifty_values_of_a_float_are_one_compile(x):
    function = mt.jit(lambda a, s: a * s + s)
    for value in range(50):
        torch.testing.assert_close(function(x, value / 7), x * (value / 7) + value / 7)
    assert function.compiles == 1


def test_a_warm_call_compiles_nothing(x, monkeypatch):
    function = mt.jit(scaled)
    function(x)
    monkeypatch.setattr(sys.modules["mlirtri.kernels.session"], "compile_function", None)
    assert function(x)[0] == 6


def test_the_same_content_is_the_same_kernel(x):
    first, second = mt.jit(scaled), mt.jit(scaled)
    assert first.compile(x) is first.compile(x) is second.compile(mt.Tensor((3,), mt.float32))
    assert second.compiles == 0


def test_one_body_at_two_locations_is_two_kernels(x):
    def shifted(a):
        return a + 9

    first = mt.jit(shifted).compile(x)

    def shifted(a):
        return a + 9

    second = mt.jit(shifted).compile(x)
    assert first is not second
    assert first.to_mlir(bare=True) == second.to_mlir(bare=True)


def test_a_failed_compile_is_tried_again(x, monkeypatch):
    def refused(a):
        return a.nothing if settings.OFFSET else a

    function = mt.jit(refused)
    for _ in range(2):
        with pytest.raises(mt.KernelError):
            function(x)
    monkeypatch.setattr(settings, "OFFSET", 0.0)
    assert function(x)[0] == 3


# --- threads ---------------------------------------------------------------------------------------------------------


def together(count, work):
    """Run `work(number)` in threads that start at once; gives what each returned."""
    barrier = threading.Barrier(count)
    results, problems = [None] * count, []

    def run(number):
        barrier.wait()
        try:
            results[number] = work(number)
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    return results


@pytest.mark.parametrize("pipeline", ["linalg", "relax", "mlir"])
def test_threads_that_call_a_cold_function_compile_it_once(x, pipeline):
    def twice(a):
        return (a + a).exp()

    function = mt.jit(twice, pipeline=pipeline)
    results = together(4, lambda number: function(x))
    assert function.compiles == 1
    for result in results:
        torch.testing.assert_close(result, (x + x).exp())


@pytest.mark.parametrize("pipeline", ["linalg", "relax", "mlir"])
def test_threads_do_not_mix_their_results(pipeline):
    def mixed(a, s):
        b = (a * s).sum(0)
        return b.exp() - a, b

    function = mt.jit(mixed, pipeline=pipeline)
    inputs = [torch.full((64, 32), 0.001 * number) for number in range(4)]

    def work(number):
        for _ in range(50):
            first, second = function(inputs[number], 0.5)
            wanted = (inputs[number] * 0.5).sum(0)
            torch.testing.assert_close(second, wanted, **within("float32", 64))
            torch.testing.assert_close(first, wanted.exp() - inputs[number], **within("float32", 64))

    together(4, work)
    assert function.compiles == 1


def test_threads_compile_different_functions(x):
    def make(amount):
        return mt.jit(lambda a: a * amount + amount)

    results = together(4, lambda number: make(float(number))(x)[0].item())
    assert results == [4.0 * number for number in range(4)]


def test_threads_read_passes_of_one_kernel(x):
    kernel = mt.jit(lambda a: (a - 1).exp()).compile(x)
    together(3, lambda number: kernel.passes["fused"]["cse"])


def test_a_call_finds_what_compile_gave_although_nobody_kept_it(monkeypatch):
    monkeypatch.setenv("MLIRTRI_CACHE", "0")
    function = mt.jit(lambda a: a * 5 - 1)
    function.compile(np.ones(3, np.float32))
    gc.collect()
    function(np.ones(3, np.float32))
    assert function.compiles == 1
