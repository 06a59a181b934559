"""Worker processes, for code that can crash or hang: parsers and passes on foreign programs, the MetaSchedule search.

`WorkerProcess` starts a Python program and exchanges pickled messages with it. `WORKER`, a `CallProcess`, runs one
function at a time in a worker that is kept, within limits of time and memory: else it raises `ProcessDied`. Workers
leave Control-C to their parent.
"""

from __future__ import annotations

import atexit
import fcntl
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import IO, Any

from mlirtri.errors import CompilerBugError, KernelError
from mlirtri.lowering.core.forks import renewed

_HEADER = struct.Struct("<Q")
_CHUNK = 1 << 20


class ProcessDied(Exception):
    """Why a worker gave no answer, as the end of a sentence that starts with "it"."""


class ProcessTimedOut(ProcessDied):
    """A worker was stopped because it took too long."""


@dataclass(frozen=True)
class Limits:
    """What a worker may use for one request."""

    seconds: float = math.inf
    """Processor time."""
    bytes: int | None = None
    """Address space; None for no limit."""

    @property
    def wait(self) -> float:
        """Wall-clock seconds, for a worker that gets little of a busy processor, or waits for ever."""
        return 60 + 2 * self.seconds


class WorkerProcess:
    """A Python process that runs `program` and exchanges messages with this one. Not thread-safe."""

    def __init__(self, program: str) -> None:
        self.program = program
        self.process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._lifeline = -1
        """The end of a pipe that is never written: it closes with this process, which ends the worker."""

    @property
    def is_running(self) -> bool:
        """Whether the worker runs and is this process's own: a fork has to start another one."""
        return self.process is not None and self._owner == os.getpid() and self.process.poll() is None

    def start(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        if self._lifeline >= 0:
            # Of a worker that died, or of the process that this one is a fork of.
            os.close(self._lifeline)
        lifeline, self._lifeline = os.pipe()
        # Unbuffered: a message that waits in a buffer of this process would be invisible to `select`.
        self.process = subprocess.Popen(
            [sys.executable, "-c", f"{_END_WITH_PARENT.format(lifeline)}\n{self.program}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            bufsize=0,
            pass_fds=[lifeline],
            # A terminal's Control-C is for the parent, which disposes of its workers.
            start_new_session=True,
        )
        os.close(lifeline)
        self._owner = os.getpid()

    def send(self, message: object) -> None:
        """Send a message; raises `BrokenPipeError` where the worker is dead."""
        _write(self._pipes()[0], message)

    def receive(self, seconds: float) -> Any:
        """Return the next message; raises `TimeoutError` after `seconds`, `EOFError` where the worker is dead."""
        _, output = self._pipes()
        if not select.select([output], [], [], seconds)[0]:
            raise TimeoutError
        return _read(output)

    @property
    def output(self) -> IO[bytes]:
        """Return where the worker's messages come from; raises `BrokenPipeError` where it is dead."""
        return self._pipes()[1]

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        if self.process is None or self.process.stdin is None or self.process.stdout is None:
            raise BrokenPipeError
        return self.process.stdin, self.process.stdout

    def stop(self) -> None:
        """Kill the worker, if it is this process's own."""
        if self.process is not None and self._owner == os.getpid():
            self.process.kill()
            self.process.wait()
            self.process.stdin.close()
            self.process.stdout.close()
            os.close(self._lifeline)
            self._lifeline = -1
        self.process = None


class CallProcess(WorkerProcess):
    """A worker that calls functions. `ask` is thread-safe: one call at a time."""

    def __init__(self) -> None:
        super().__init__(f"from {__name__} import serve; serve()")
        self.lock = renewed(threading.Lock())
        self._limits = Limits()

    def ask(self, limits: Limits, function: Callable[..., object], *arguments: object) -> Any:
        """Return ``function(*arguments)`` of the worker; raises its `KernelError`, or `ProcessDied`.

        The function has to be a module's own, and its arguments and result picklable.
        """
        with self.lock:
            self.begin(limits, function, *arguments)
            return self.finish(limits.wait)

    def begin(self, limits: Limits, function: Callable[..., object], *arguments: object) -> None:
        """Start a call, and the worker where it does not run; raises `ProcessDied`."""
        if not self.is_running:
            self.start()
        self._limits = limits
        with self._exchange(0.0):
            self.send((limits, function, arguments))

    def finish(self, seconds: float) -> Any:
        """Return the result of the call that was begun, within `seconds`; raises its `KernelError`, or `ProcessDied`.

        The worker is stopped if it has not answered by then, or died.
        """
        with self._exchange(seconds):
            is_error, answer = self.receive(seconds)
        if is_error:
            raise answer
        return answer

    @contextmanager
    def _exchange(self, seconds: float) -> Iterator[None]:
        try:
            yield
        except TimeoutError:
            self.stop()
            raise ProcessTimedOut(f"ran for more than {seconds:g} seconds") from None
        except (EOFError, BrokenPipeError):
            reason = _why(*self._end(), self._limits)
            self.stop()
            raise ProcessDied(reason) from None
        except BaseException:
            # Also when this thread is interrupted: the next call must not get this one's answer.
            self.stop()
            raise

    def _end(self) -> tuple[int, int]:
        process = self.process
        if process is None:
            return 0, 0
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        return process.returncode, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


WORKER = CallProcess()
"""The one that all share: two would need twice the memory, and compilations wait for each other anyway."""
atexit.register(WORKER.stop)


def _why(status: int, had: int, limits: Limits) -> str:
    if status == -signal.SIGXCPU:
        return f"ran for more than {limits.seconds:.0f} seconds"
    reason = f"ended its process with {signal.Signals(-status).name if status < 0 else f'status {status}'}"
    if limits.bytes is None or had < limits.bytes / 4:
        return reason
    # What grows does so by doubling: the last request may be as large as all before.
    return f"{reason} when it had {had >> 20} MiB of memory and may have {limits.bytes >> 20}"


_END_WITH_PARENT = f"from {__name__} import end_with_parent; end_with_parent({{}})"


def end_with_parent(lifeline: int) -> None:
    """Let this process end when the other end of the pipe `lifeline` closes, whatever it computes then.

    The kernel sends SIGIO, which ends a process that does not handle it. A thread could not run while a pass does.
    """
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([lifeline], [], [], 0)[0]:
        # It closed before this process asked for signals.
        os._exit(1)


def message_pipes() -> tuple[Iterator[Any], Callable[[Any], None]]:
    """Return, in a worker, the messages that it is sent and the function that sends one back.

    Standard output and error go nowhere from here on: what a library prints is no message.
    """
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(1, 2)
    return _messages(sys.stdin.buffer), partial(_write, output)


def _messages(stream: IO[bytes]) -> Iterator[Any]:
    try:
        while True:
            yield _read(stream)
    except EOFError:
        return


def serve() -> None:
    """The program of a `CallProcess`: answer calls until the input ends."""
    requests, answer = message_pipes()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for limits, function, arguments in requests:
        seconds = time.process_time() + limits.seconds
        _limit(resource.RLIMIT_CPU, None if math.isinf(seconds) else math.ceil(seconds))
        _limit(resource.RLIMIT_AS, limits.bytes)
        reply = _reply(function, arguments)
        _limit(resource.RLIMIT_AS, None)
        answer(reply)


def _limit(kind: int, limit: int | None) -> None:
    most = resource.getrlimit(kind)[1]
    unlimited = resource.RLIM_INFINITY
    soft = most if limit is None else limit if most == unlimited else min(limit, most)
    resource.setrlimit(kind, (soft, most))


def _reply(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[bool, Any]:
    try:
        return False, function(*arguments)
    except KernelError as error:
        return True, error
    except MemoryError:
        os._exit(1)
    except Exception as error:
        return True, CompilerBugError(error, function.__name__)


def _write(stream: IO[bytes], message: Any) -> None:
    data = pickle.dumps(message)
    unsent = memoryview(_HEADER.pack(len(data)) + data)
    while unsent:
        unsent = unsent[stream.write(unsent) :]
    stream.flush()


def _read(stream: IO[bytes]) -> Any:
    (size,) = _HEADER.unpack(_read_bytes(stream, _HEADER.size))
    return pickle.loads(_read_bytes(stream, size))


def _read_bytes(stream: IO[bytes], size: int) -> bytearray:
    data = bytearray()
    while len(data) < size:
        # A pipe gives what it has; a request for all the rest would allocate all of it each time.
        chunk = stream.read(min(size - len(data), _CHUNK))
        if not chunk:
            raise EOFError
        data += chunk
    return data
