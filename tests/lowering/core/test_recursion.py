"""The recursion limit while several threads compile at a time."""

from __future__ import annotations

import sys
import threading

from mlirtri.lowering.core.recursion import more_frames


def test_limit_is_restored_after_the_last_thread_and_never_below_what_one_needs():
    original = sys.getrecursionlimit()
    both_inside, first_left = threading.Barrier(2), threading.Event()
    limits: list[int] = []

    def leaves_first():
        with more_frames(700):
            both_inside.wait(10)
        first_left.set()

    def stays():
        with more_frames(900):
            both_inside.wait(10)
            first_left.wait(10)
            limits.append(sys.getrecursionlimit())

    threads = [threading.Thread(target=leaves_first), threading.Thread(target=stays)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert limits == [original + 900]
    assert sys.getrecursionlimit() == original


def test_nested_statements_add_up():
    original = sys.getrecursionlimit()
    with more_frames(100), more_frames(100):
        assert sys.getrecursionlimit() == original + 200
    assert sys.getrecursionlimit() == original
