"""A process beside this one, for what can end a process: the parsers and passes of others, on what others wrote.

Takes a function of a module and its arguments. Gives what the function gives there; a `KernelError` that it raises is
raised here. Raises `ProcessDied` where the process ends, takes too long or wants too much memory.

The first use starts the process, which is kept for the next. It imports MLIR alone: a fraction of a second.
"""

from __future__ import annotations

import atexit
import math
import os
import pickle
import resource
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

from mlirtri.errors import CompilerBugError, KernelError
from mlirtri.lowering.core.forks import renewed

_HEADER = struct.Struct("<Q")


class ProcessDied(Exception):
    """Why there is no answer, as the end of a sentence that starts with "it"."""


@dataclass(frozen=True)
class Limits:
    """What a question may cost."""

    seconds: float
    """Of processor time."""
    bytes: int | None = None
    """Of address space, or as much as there is."""

    @property
    def wait(self) -> float:
        """Seconds by the clock, for a process that gets little of a busy processor, or waits for ever."""
        return 60 + 2 * self.seconds


class OtherProcess:
    """The other process, as this one sees it. Thread-safe; a fork starts one of its own."""

    def __init__(self) -> None:
        self.lock = renewed(threading.Lock())
        self.process: subprocess.Popen[bytes] | None = None
        self.owner = 0

    def ask(self, limits: Limits, function: Callable[..., Any], *arguments: Any) -> Any:
        """What `function`, one of a module, gives for `arguments` there; raises its `KernelError`, or `ProcessDied`."""
        with self.lock:
            if self.process is None or self.owner != os.getpid() or self.process.poll() is not None:
                self._start()
            try:
                is_error, answer = self._answer(self.process, limits, (limits, function, arguments))
            except BaseException:
                # Also when this thread is interrupted: the next question must not get this one's answer.
                self._stop()
                raise
        if is_error:
            raise answer
        return answer

    def _answer(self, process: subprocess.Popen[bytes], limits: Limits, question: Any) -> tuple[bool, Any]:
        try:
            _write(process.stdin, question)
            if not select.select([process.stdout], [], [], limits.wait)[0]:
                raise ProcessDied(f"ran for more than {limits.wait:.0f} seconds")
            return _read(process.stdout)
        except (EOFError, BrokenPipeError):
            raise ProcessDied(_why(*_end_of(process), limits)) from None

    def _start(self) -> None:
        command = f"from {__name__} import serve; serve()"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        self.owner = os.getpid()

    def close(self) -> None:
        """End the process, if it is ours."""
        if self.process is not None and self.owner == os.getpid():
            self._stop()

    def _stop(self) -> None:
        self.process.kill()
        self.process.communicate()
        self.process = None


OTHER = OtherProcess()
"""The one that all share: two would need twice the memory, and compiling takes turns anyway."""
atexit.register(OTHER.close)


def _end_of(process: subprocess.Popen[bytes]) -> tuple[int, int]:
    """How it ended, and the bytes that it had at most."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _why(status: int, had: int, limits: Limits) -> str:
    if status == -signal.SIGXCPU:
        return f"ran for more than {limits.seconds:.0f} seconds"
    reason = f"ended its process with {signal.Signals(-status).name if status < 0 else f'status {status}'}"
    if limits.bytes is None or had < limits.bytes / 4:
        return reason
    # What grows does so by doubling: the last request may be as large as all before.
    return f"{reason} when it had {had >> 20} MiB of memory and may have {limits.bytes >> 20}"


def serve() -> None:
    """What the other process does: answer until its input ends."""
    output = os.fdopen(os.dup(1), "wb")
    # What a library prints is no answer, and what it says before it dies is said by the error.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(1, 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while True:
        try:
            limits, function, arguments = _read(sys.stdin.buffer)
        except EOFError:
            return
        _limit(resource.RLIMIT_CPU, math.ceil(time.process_time() + limits.seconds))
        _limit(resource.RLIMIT_AS, limits.bytes)
        reply = _reply(function, arguments)
        _limit(resource.RLIMIT_AS, None)
        _write(output, reply)


def _limit(kind: int, wanted: int | None) -> None:
    """Lower the soft limit, which can be raised again."""
    most = resource.getrlimit(kind)[1]
    unlimited = resource.RLIM_INFINITY
    soft = most if wanted is None else wanted if most == unlimited else min(wanted, most)
    resource.setrlimit(kind, (soft, most))


def _reply(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[bool, Any]:
    """Whether it is an error, and the answer."""
    try:
        return False, function(*arguments)
    except KernelError as error:
        return True, error
    except MemoryError:
        os._exit(1)
    except Exception as error:
        return True, CompilerBugError(error, function.__name__)


def _write(stream: BinaryIO, message: Any) -> None:
    data = pickle.dumps(message)
    stream.write(_HEADER.pack(len(data)))
    stream.write(data)
    stream.flush()


def _read(stream: BinaryIO) -> Any:
    """The next message; raises `EOFError` at the end."""
    header = stream.read(_HEADER.size)
    if len(header) < _HEADER.size:
        raise EOFError
    (size,) = _HEADER.unpack(header)
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return pickle.loads(data)
