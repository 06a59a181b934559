"""Every compile says which part of the key changed, and how to avoid it; kernels of a function are bounded."""

import gc
import weakref

import numpy as np
import pytest
import torch
from threads import run_in_threads

import mlirtri as mt
from mlirtri.kernels.recompiles import SpecializationWarning

SCALE = 2.0


def helper(x):
    return x + 1


@pytest.fixture
def scaled():
    @mt.jit
    def scaled(a, k=3, apply=helper):
        return apply(a) * SCALE + k

    return scaled


def test_each_compile_names_what_changed_and_the_annotation_that_avoids_it(scaled, monkeypatch, capfd):
    monkeypatch.setenv("MLIRTRI_LOG", "recompiles")
    x = np.ones(4, np.float32)
    calls = [
        (lambda: scaled(x), None, None),
        (lambda: scaled(x, k=4), ("k", "value", "3", "4"), "annotate k: mt.int32"),
        (lambda: scaled(x[:2]), ("a", "size of axis 0", "4", "2"), 'annotate a: mt.Tensor[[mt.dyn["n"]], mt.float32]'),
        (lambda: scaled(x.astype("f8")), ("a", "dtype", "float32", "float64"), "one dtype"),
        (lambda: scaled(torch.ones(4)), ("semantics", "option", "numpy", "torch"), "jit(semantics=…)"),
    ]
    for call, change, advice in calls:
        call()
        text = capfd.readouterr().err
        last = scaled.explain()[-1]
        assert str(last) in text
        assert str(last) in str(scaled.explain())
        call()
        assert capfd.readouterr().err == ""
        if change is not None:
            [found] = last.changes
            assert (found.parameter, found.what, found.old, found.new) == change
            assert advice in found.advice
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    assert np.array_equal(scaled(x), (x + 1) * 5 + 3)
    [change] = scaled.explain()[-1].changes
    assert (change.parameter, change.what, change.old, change.new) == ("SCALE", "captured value", "2.0", "5.0")
    assert "as an argument" in change.advice
    assert "'SCALE' changed from 2.0 to 5.0" in scaled.compile(x).explain()
    scaled(x, 3, lambda y: y - 1)
    assert {change.parameter for change in scaled.explain()[-1].changes} >= {"apply"}
    assert scaled.compiles == len(scaled.explain()) == 7


def test_what_follows_from_another_rank_or_class_is_not_said():
    @mt.jit
    def added(a, b):
        return a + b

    x = np.ones(4, np.float32)
    added(x, x), added(np.ones((2, 4), np.float32), x), added(x, 2.0)
    texts = [str(explanation).splitlines()[1:] for explanation in added.explain()[1:]]
    assert texts == [
        ["  the rank of 'a' changed from 1 to 2"], ["  the class of 'b' changed from a tensor to a number"]
    ]  # fmt: skip


def test_one_annotation_is_advised_for_all_sizes_and_keeps_names():
    n = mt.dyn["n"]

    @mt.jit(semantics="numpy")
    def summed(
        a: mt.StridedTensor[[int, n * 2], [mt.dyn, int], mt.float32],
        b: mt.Tensor[[mt.dyn["n", 4], int, int], None],
        c: mt.Tensor[[n + 1, mt.dyn], None],
    ):
        return a.sum() + b.sum() + c.sum()

    for size, k in ((3, 2), (4, 5)):
        summed(np.ones((size, 8), np.float32), np.ones((4, k, k)), np.ones((5, 1)))
    assert [change.advice for change in summed.explain()[-1].changes] == [
        'annotate a: mt.StridedTensor[[mt.dyn["m"], mt.dyn["n", 4] * 2], [mt.dyn, int], mt.float32]',
        "",
        'annotate b: mt.Tensor[[mt.dyn["n", 4], mt.dyn["k"], mt.dyn["p"]], mt.float64]',
    ]


def test_an_annotation_that_was_advised_avoids_the_compile():
    @mt.jit
    def scaled(a: mt.Tensor[[mt.dyn["n"]], mt.float32], k: mt.int32):
        return a * k

    for n in (2, 3, 5, 4):
        x = np.arange(n, dtype=np.float32)
        assert np.array_equal(scaled(x, n), x * np.float32(n))
        assert np.array_equal(scaled(x, k=n + 1), x * np.float32(n + 1))
    assert scaled.compiles == len(scaled.explain()) == 1


def test_numbers_of_numpy_and_zeros_of_either_sign_are_different_constants():
    @mt.jit
    def shifted(a, n: int, s: float):
        return a * n + 1 / (a * s)

    x = np.ones(2)
    with np.errstate(divide="ignore"):
        for _ in range(2):
            for n, s in [(np.int64(3), 1.0), (np.int64(4), 1.0), (4, np.float32(-0.0)), (4, 0.0), (True, -0.0)]:
                if n is True:
                    continue
                assert np.array_equal(shifted(x, n, s), x * n + 1 / (x * float(s)))


def test_the_least_recently_used_kernels_go_with_one_warning(monkeypatch):
    @mt.jit
    def added(a, n):
        return a + n

    monkeypatch.setenv("MLIRTRI_MAX_KERNELS", "3")
    x = np.ones(2)
    for n in range(3):
        added(x, n)
    added(x, 0)
    with pytest.warns(
        SpecializationWarning, match=r"more than 3 kernels.*value of .n. had 4 values.*mt.int32"
    ) as caught:
        assert np.array_equal(added(x, 3), x + 3)
    assert caught[0].filename == __file__
    assert added.compiles == 4
    added(x, 0), added(x, 2), added(x, 3)
    assert added.compiles == 4
    assert np.array_equal(added(x, 1), x + 1)
    assert added.compiles == 5


def test_threads_find_their_kernels_while_others_are_dropped(monkeypatch):
    @mt.jit
    def added(a, n):
        return a + n

    monkeypatch.setenv("MLIRTRI_MAX_KERNELS", "2")
    wrong = []

    def work(seed):
        for turn in range(40):
            n = (seed + turn // 10) % 4
            x = np.full(2, float(seed))
            if not np.array_equal(added(x, n=n), x + n) or not np.array_equal(added(x, n), x + n):
                wrong.append((seed, n))

    run_in_threads(work, range(4))
    assert wrong == []


def test_a_kernel_that_nobody_keeps_is_freed():
    kernel = mt.jit(lambda a: a + 3).compile(np.ones(3, np.float32), pipeline="mlir")
    kernel(np.ones(3, np.float32))
    known = weakref.ref(kernel)
    del kernel
    gc.collect()
    assert known() is None
