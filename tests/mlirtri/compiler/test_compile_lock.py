"""The lock of compilations: reentrant, and full garbage collections wait until it is free."""

from __future__ import annotations

import gc
import os
import threading

import pytest

from mlirtri.compiler.compile_lock import COLLECTIONS, CompileLock


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
            young, middle, _ = gc.get_threshold()
            assert young > thresholds[0]
            assert middle == thresholds[1]
        garbage = [[number] for number in range(200_000)]
        assert gc.get_stats()[2]["collections"] == full
        del garbage
    assert gc.get_threshold() == thresholds


def test_full_collections_wait_for_all_who_hold_them_back(thresholds):
    """Held back by an export, then by a compilation of another thread, which ends first."""
    with COLLECTIONS:
        raised = gc.get_threshold()
        with CompileLock():
            pass
        assert gc.get_threshold() == raised != thresholds
    assert gc.get_threshold() == thresholds


def test_collections_that_are_off_stay_off(thresholds):
    gc.set_threshold(0, 7, 9)
    with COLLECTIONS:
        assert gc.get_threshold()[0] == 0
    assert gc.get_threshold() == (0, 7, 9)


def test_a_forked_process_collects(thresholds):
    with COLLECTIONS:
        child = os.fork()
        if not child:
            os._exit(0 if gc.get_threshold() == thresholds else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


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
