"""Kernels from the disk cache: what finds an entry, what does not, and that it is the kernel that was compiled."""

from __future__ import annotations

import enum
import importlib
import json
import sys
import threading
import types
import warnings
from typing import NamedTuple

import numpy as np
import pytest
from disk_caches import DiskCache

import mlirtri as mt
from mlirtri.cache import captures, key
from mlirtri.errors import CacheMissError, CacheWarning

SCALE = 2.0
TABLE = [1.0, 2.0]
constants = types.ModuleType("constants_of_a_test")
constants.OFFSET = 1.0


def helper(x, by=1):
    return x + by


class Pair(NamedTuple):
    sum: object
    product: object


PAIR = Pair(1, 2)


def scaled(a):
    return np.exp(a) * SCALE


def helped(a):
    return helper(a) * TABLE[1]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "constants_of_a_test", constants)
    return DiskCache(tmp_path / "cache", monkeypatch)


@pytest.fixture
def x(random):
    return random.standard_normal(6).astype(np.float32)


# --- what an entry is ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pipeline", ["linalg", "relax", "mlir"])
def test_a_new_process_has_the_kernel_with_its_text(cache, x, pipeline):
    first = cache.jit(scaled, pipeline=pipeline).compile(x)
    function = cache.jit(scaled, pipeline=pipeline)
    np.testing.assert_array_equal(function(x), first(x))
    second = function.compile(x)
    assert (cache.compiles, function.compiles) == (1, 0)
    assert second is not first
    assert dict(second.ir) == dict(first.ir)
    assert second.interface == first.interface
    assert second.pipeline == first.pipeline
    assert second.stats == first.stats
    assert second.to_mlir("tri") == first.to_mlir("tri")
    assert {name: dict(passes) for name, passes in second.passes.items()} == {
        name: dict(passes) for name, passes in first.passes.items()
    }
    if pipeline == "linalg":
        assert str(second.fusion) == str(first.fusion)


def test_results_of_all_forms(cache, x):
    def forms(a, n: int, s):
        total = a.sum()
        a[0] = s
        return PAIR, [a + n, (total, a * s)], None

    def expected():
        a = x.copy()
        total = a.sum()
        a[0] = 0.5
        return a, (a + 2, total, a * np.float32(0.5))

    for _ in range(2):
        a = x.copy()
        pair, listed, nothing = cache.jit(forms)(a, 2, 0.5)
        assert (type(pair), type(listed), type(listed[1]), nothing) == (Pair, list, tuple, None)
        assert tuple(pair) == (1, 2)
        updated, results = expected()
        np.testing.assert_array_equal(a, updated)
        for result, wanted in zip((listed[0], *listed[1]), results, strict=True):
            np.testing.assert_allclose(result, wanted, rtol=1e-6)
    assert cache.compiles == 1


def test_checks_of_a_kernel_from_disk_have_their_line(cache, x):
    def read(a, i: mt.int64):
        return a[i]

    messages = []
    for _ in range(2):
        with pytest.raises(IndexError) as raised:
            cache.jit(read, debug=True)(x, 9)
        messages.append(str(raised.value))
    assert messages[0] == messages[1]
    assert "return a[i]" in messages[0]
    assert cache.compiles == 1


# --- what finds it, and what does not --------------------------------------------------------------------------------


def test_captured_values_are_compared_by_content(cache, x, monkeypatch):
    values = {}
    for value in (2.0, 5.0, 2.0, -0.0, 0.0, 2):
        monkeypatch.setitem(globals(), "SCALE", value)
        values[repr(value)] = cache.jit(scaled)(x)
        np.testing.assert_allclose(values[repr(value)], np.exp(x) * np.float32(value), rtol=1e-6)
    assert cache.compiles == 5
    assert len(cache.entries()) == 5
    assert len({entry.parent for entry in cache.entries()}) == 1
    assert np.signbit(values["-0.0"]).all()


def test_what_a_helper_is_made_of_counts(cache, x, monkeypatch):
    def results():
        return cache.jit(helped)(x) / 2 - x

    np.testing.assert_allclose(results(), 1, rtol=1e-5)
    np.testing.assert_allclose(results(), 1, rtol=1e-5)
    assert cache.compiles == 1
    monkeypatch.setattr(helper, "__defaults__", (3,))
    np.testing.assert_allclose(results(), 3, rtol=1e-5)
    monkeypatch.setitem(globals(), "TABLE", [1.0, 2])
    np.testing.assert_allclose(results(), 3, rtol=1e-5)
    assert cache.compiles == 3


def test_edited_files_closures_modules_and_shadowed_builtins(cache, x, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    text = (
        "import constants_of_a_test as c\n\nOTHER = 1\n\n\ndef inner(a):\n    return a + OTHER\n\n\n"
        "def make(k):\n    def f(a):\n        return max(k, 1) * inner(a) + c.OFFSET\n\n    return f\n"
    )
    file = tmp_path / "edited_kernels.py"
    file.write_text(text)
    module = importlib.import_module("edited_kernels")
    monkeypatch.delitem(sys.modules, "edited_kernels")

    def check(expected, compiles, k=2):
        np.testing.assert_allclose(cache.jit(module.make(k))(x), expected, rtol=1e-5)
        assert cache.compiles == compiles

    def edit(old, new):
        file.write_text(file.read_text().replace(old, new))
        exec(compile(file.read_text(), str(file), "exec"), module.__dict__)

    check(2 * (x + 1) + 1, 1)
    check(2 * (x + 1) + 1, 1)
    check(3 * (x + 1) + 1, 2, k=3)
    monkeypatch.setattr(constants, "OFFSET", 4.0)
    check(2 * (x + 1) + 4, 3)
    module.OTHER = 7
    check(2 * (x + 7) + 4, 4)
    module.OTHER = 1
    edit("return a + OTHER", "return a - OTHER")
    check(2 * (x - 1) + 4, 5)
    edit("+ c.OFFSET", "- c.OFFSET")
    check(2 * (x - 1) - 4, 6)
    module.max = lambda a, b: a + b  # in the file: a kernel may call it
    module.max.__module__ = "edited_kernels"
    edit("OTHER = 1\n", "OTHER = 1\nmax = lambda a, b: a + b\n")
    check(3 * (x - 1) - 4, 7)


def test_builtins_that_the_file_shadows_later(cache, x, monkeypatch):
    def largest(a):
        return a * max(2, 3)

    np.testing.assert_allclose(cache.jit(largest)(x), x * 3)
    monkeypatch.setitem(globals(), "max", helper)
    np.testing.assert_allclose(cache.jit(largest)(x), x * 5)
    assert cache.compiles == 2


def test_facts_of_the_machine_and_options_count(cache, x, monkeypatch):
    function = cache.jit(helped)
    function(x)
    flags = sorted(key.cpu_flags())
    with monkeypatch.context() as other:
        other.setattr(key, "cpu_flags", lambda: frozenset(flags[1:]))
        cache.jit(helped)(x)
    assert cache.compiles == 2
    for options in ({"unroll": 2}, {"semantics": "torch"}, {"pipeline": "linalg"}, {"debug": True}):
        cache.jit(helped, **options)(x)
    cache.jit(helped)(x.astype(np.float64))
    monkeypatch.setenv("MLIRTRI_VERIFY", "1")
    cache.jit(helped)(x)
    assert cache.compiles == 8
    cache.jit(helped)(x)
    assert cache.compiles == 8


def test_functions_among_the_arguments_and_in_tables(cache, x):
    def applied(a, f, g):
        return f(a) + g[1](a)

    steps = (helper, lambda v: v * 4)
    for _ in range(2):
        np.testing.assert_allclose(cache.jit(applied)(x, helper, steps), x + 1 + x * 4, rtol=1e-5)
    np.testing.assert_allclose(cache.jit(applied)(x, steps[1], steps), x * 8, rtol=1e-5)
    assert cache.compiles == 2


@pytest.mark.skipif(sys.version_info < (3, 11), reason="lambdas of one line are refused, as code has no columns")
def test_lambdas_of_one_line_are_several_kernels(cache, x):
    def applied(a, f):
        return f(a)

    functions = (lambda a: a + 1, lambda a: a + 2, lambda a: a * 2)
    wanted = (x + 1, x + 2, x * 2)
    for _ in range(2):
        for function, result in zip(functions, wanted, strict=True):
            np.testing.assert_array_equal(cache.jit(function)(x), result)
            np.testing.assert_array_equal(cache.jit(applied)(x, function), result)
    assert cache.compiles == 6


# --- what is not kept ------------------------------------------------------------------------------------------------


def test_what_has_no_content_is_compiled_and_said(cache, x, monkeypatch, capsys):
    def staged(a):
        return a + 1

    pipeline = mt.Pipeline.named("mlir")
    custom = pipeline.insert_after("linalg", mt.Stage("mine", "mlir", lambda module, context: module))
    for _ in range(2):
        cache.jit(staged, pipeline=custom)(x)
    assert cache.compiles == 2
    assert "stage 'mine' is a function of yours" in cache.store.refused()[staged.__qualname__]
    monkeypatch.setenv("MLIRTRI_ASSERT_CACHE_HIT", "1")
    with pytest.raises(CacheMissError, match="stage 'mine' is a function of yours"):
        cache.jit(staged, pipeline=custom)(x)
    assert cache.entries() == []


class Color(enum.IntEnum):
    RED = 1
    BLUE = 2

    def __repr__(self):
        return "a color"


def test_enumerations_and_modules_that_no_import_gives(cache, x, monkeypatch):
    def colored(a, color):
        return a * color

    for color in (Color.RED, Color.BLUE, Color.RED):
        np.testing.assert_allclose(cache.jit(colored)(x, color), x * color.value)
    assert cache.compiles == 2
    made = types.ModuleType("constants_of_a_test")

    def by_module(a):
        return a + made.OFFSET

    for offset in (1.0, 3.0):
        made.OFFSET = offset
        np.testing.assert_allclose(cache.jit(by_module)(x), x + offset, rtol=1e-6)
    assert cache.compiles == 4
    assert "is not the one that an import gives" in cache.store.refused()[by_module.__qualname__]


def test_a_value_that_changes_while_it_is_compiled_is_not_kept(cache, x, monkeypatch):
    recorded = captures.Reached.add
    cache.jit(helped).compile(x)
    monkeypatch.setattr(captures.Reached, "add", recorded)
    monkeypatch.setitem(globals(), "TABLE", table := [1.0, 4.0])
    from mlirtri.kernels import session

    compile_function = session.compile_function

    def changing(*arguments):
        compiled = compile_function(*arguments)
        table[1] = 9.0
        return compiled

    monkeypatch.setattr(session, "compile_function", changing)
    cache.jit(helped).compile(x)
    assert len(cache.entries()) == 1
    np.testing.assert_allclose(cache.jit(helped)(x), (x + 1) * 9, rtol=1e-5)


def test_the_cache_is_off_or_cannot_be_used(cache, x, tmp_path, monkeypatch):
    monkeypatch.setenv("MLIRTRI_CACHE", "0")
    cache.jit(helped)(x)
    assert not cache.folder.exists()
    monkeypatch.setenv("MLIRTRI_CACHE", "1")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MLIRTRI_CACHE_DIR", str(tmp_path / "file" / "below"))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for _ in range(2):
            np.testing.assert_allclose(cache.jit(helped)(x), (x + 1) * 2, rtol=1e-5)
        cache.renew()
    [warning] = [warning for warning in warned if warning.category is CacheWarning]
    assert "Not a directory" in str(warning.message)
    assert "threading" not in warning.filename  # of a thread, where no line of the user's is


# --- a miss that is not allowed --------------------------------------------------------------------------------------


def test_a_miss_names_what_differs(cache, x, monkeypatch, capsys):
    monkeypatch.setenv("MLIRTRI_ASSERT_CACHE_HIT", "1")

    def message(function, *arguments, **options):
        with pytest.raises(CacheMissError) as raised:
            cache.jit(function, **options)(*arguments)
        return str(raised.value)

    assert "has no entry of that name" in message(scaled, x)
    monkeypatch.delenv("MLIRTRI_ASSERT_CACHE_HIT")
    cache.jit(scaled)(x)
    monkeypatch.setenv("MLIRTRI_ASSERT_CACHE_HIT", "1")
    cache.jit(scaled)(x)
    assert "arguments differs" in message(scaled, x[:3].copy())
    assert 'unroll differs: ["int","4"] -> ["int","2"]' in message(scaled, x, unroll=2)
    assert "pipeline differs: mlir -> linalg" in message(scaled, x, pipeline="linalg")
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert "the captured value SCALE is another one" in message(scaled, x)
    monkeypatch.delenv("MLIRTRI_ASSERT_CACHE_HIT")
    monkeypatch.setenv("MLIRTRI_LOG", "cache")
    for _ in range(2):
        cache.jit(scaled)(x)
    missed, found = capsys.readouterr().err.splitlines()
    assert missed.startswith("disk cache: scaled has to be compiled: the captured value SCALE is another one in entry")
    assert found.startswith("disk cache: scaled is entry ")


# --- threads, dumps, prints ------------------------------------------------------------------------------------------


def test_a_kernel_of_its_syntax_alone_is_not_kept(cache, x):
    kernel = cache.jit(scaled, pipeline=mt.Pipeline.named("linalg").until("ast")).compile(x)
    assert list(kernel.ir) == ["ast"]


def test_eight_threads_compile_once(cache, x):
    cache.renew()
    functions = [mt.jit(helped, pipeline="mlir") for _ in range(8)]
    barrier, results = threading.Barrier(8), [None] * 8

    def run(number):
        barrier.wait()
        results[number] = functions[number](x)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        np.testing.assert_allclose(result, (x + 1) * 2, rtol=1e-5)
    assert cache.compiles == 1
    assert len(cache.entries()) == 1


def test_a_hit_is_printed_and_dumped_as_a_compilation(cache, x, tmp_path, monkeypatch, capsys):
    cache.jit(helped, print_ir=("linalg",)).compile(x)
    first = capsys.readouterr().err
    cache.jit(helped, print_ir=("linalg",)).compile(x)
    assert capsys.readouterr().err == first
    assert "linalg.generic" in first
    monkeypatch.setenv("MLIRTRI_DUMP_DIR", str(tmp_path / "dumps"))
    kernel = cache.jit(helped).compile(x)
    [dump] = (tmp_path / "dumps").iterdir()
    manifest = json.loads((dump / "manifest.json").read_text())
    assert manifest["stages"] == list(kernel.pipeline.names)
    resumed = mt.resume(next(dump.glob("*_fused.mlir")), "fused")
    np.testing.assert_array_equal(resumed(x), kernel(x))
    assert cache.compiles == 1
