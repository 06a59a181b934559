"""The lock of compilations: reentrant, and full garbage collections wait until it is free."""

from __future__ import annotations

import gc
import threading

import pytest

from mlirtri.compiler.compile_lock import CompileLock


@pytest.fixture
def thresholds():
    before = gc.get_threshold()
    gc.set_threshold(500, 7, 9)
    yield (500, 7, 9)
    gc.set_threshold(*before)


def test_full_collections_wait_until_the_outermost_statement_ends(thresholds):
    lock = CompileLock()
    full = gc.get_stats()[2]["collections"]
    with lock:
        with lock:
            assert gc.get_threshold()[:2] == thresholds[:2]
        garbage = [[number] for number in range(200_000)]
        assert gc.get_stats()[2]["collections"] == full
        del garbage
    assert gc.get_threshold() == thresholds


def test_thresholds_that_a_program_sets_meanwhile_stay(thresholds):
    with CompileLock():
        gc.set_threshold(900, 8, 8)
    assert gc.get_threshold() == (900, 8, 8)


def test_another_thread_waits(thresholds):
    lock, taken = CompileLock(), []

    def take() -> None:
        taken.append(lock.acquire(timeout=0.05))

    with lock:
        thread = threading.Thread(target=take)
        thread.start()
        thread.join()
    assert taken == [False]
    assert lock.acquire(blocking=False)
    lock.release()
