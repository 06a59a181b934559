"""Run a function in several threads at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any


def run_in_threads(work: Callable[[Any], None], arguments: Iterable[Any]) -> None:
    """Call `work` with each argument in a thread of its own, and wait for all of them."""
    threads = [threading.Thread(target=work, args=(argument,)) for argument in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
