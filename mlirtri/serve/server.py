"""A process that has loaded MLIR, TVM's compiler and the lowerings, and forks for each command that it is asked to run.

It runs nothing itself, so that it has no threads and no state: a fork is a process that has just imported all this.
A process between the two, the keeper, waits for the one that runs, tells the client, and ends it when the client goes.
"""

from __future__ import annotations

import gc
import importlib
import io
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from mlirtri.compiler.versions import sources_digest
from mlirtri.errors import KernelError
from mlirtri.lowering.pipelines import PIPELINE_STAGES
from mlirtri.serve.client import ANSWER_SECONDS, LENGTH, READY, address, connect, received, user_of

Commands = Mapping[str, Callable[[list[str]], int]]
"""By program, the function that runs a command line and returns its exit status."""
_PATH_BYTES = 107
"""The longest name that a Unix socket can have."""


class ServeError(KernelError):
    """There can be no server."""


def serve(commands: Commands, preload: list[str], idle_seconds: float, detach: bool) -> None:
    """Serve until no request has come for `idle_seconds`; detached, return when there is a server.

    In the process of a command, raises `SystemExit` with its status, as the command line does.
    """
    path = address()
    if len(os.fsencode(path)) > _PATH_BYTES:
        raise ServeError(f"the socket {path} has too long a name", help="XDG_CACHE_HOME names another folder")
    if is_running(path):
        print(f"a server runs at {path}")
        return
    _writable(path)  # before a second of imports
    ready = _detached() if detach else None
    if ready == 0:
        return
    _load(preload)
    listening = _bound(path)
    request = _next_request(listening, path, idle_seconds, lambda: _report(path, ready))
    if request is not None:
        raise SystemExit(_run(commands, *request))


def _report(path: Path, ready: int | None) -> None:
    """Say that there is a server: to the process that started a detached one, else on stdout."""
    if ready is None:
        print(f"serving at {path}; set MLIRTRI_SERVE=1 where commands are to use it", flush=True)
        return
    os.write(ready, b"1")
    os.close(ready)


def is_running(path: Path) -> bool:
    """Return whether a server of this user answers at the path; one whose sources have changed ends instead."""
    try:
        with connect(path) as connection:
            connection.settimeout(ANSWER_SECONDS)
            return connection.recv(len(READY)) == READY
    except OSError:
        return False


def _detached() -> int:
    """Return a file to write to when all is ready, in a process of its own; 0 in this one, when that has happened."""
    reading, writing = os.pipe()
    if os.fork():
        os.close(writing)
        if not os.read(reading, 1):
            raise ServeError("the server did not start", help="mlirtri serve, without --detach, says why")
        return 0
    os.close(reading)
    os.setsid()
    os.chdir("/")
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    return writing


def _load(preload: list[str]) -> None:
    """Import the modules of every stage of the pipelines on CPUs, and the others."""
    sources_digest()
    stages = [stage.run for stages in PIPELINE_STAGES.values() for stage in stages]
    for module in [*preload, *(run.module for run in stages if hasattr(run, "module"))]:
        importlib.import_module(module)
    # No collection looks at what is loaded now: that of a process that ends would take longer than most commands, and
    # would copy its pages.
    gc.collect()
    gc.freeze()


def _bound(path: Path) -> socket.socket:
    """Return a socket that listens at the path, in place of one that a killed server has left."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        path.unlink(missing_ok=True)
        listening.bind(os.fspath(path))
    except OSError as error:
        raise _no_socket(path, error) from None
    finally:
        os.umask(mask)
    listening.listen(64)
    return listening


def _writable(path: Path) -> None:
    """Create the folder of the socket; raise `ServeError` where nothing can be written there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _no_socket(path, error) from None
    if not os.access(path.parent, os.W_OK):
        raise _no_socket(path, PermissionError(f"{path.parent} is not writable"))


def _no_socket(path: Path, error: OSError) -> ServeError:
    return ServeError(
        f"there can be no socket {path}: {error.strerror or error}", help="XDG_CACHE_HOME names another folder"
    )


def _next_request(
    listening: socket.socket, path: Path, idle_seconds: float, report: Callable[[], None]
) -> tuple[Any, list[int]] | None:
    """Accept until nobody comes; return in the process of a command what it has to do, and None in the server's."""
    own = os.stat(path).st_ino
    digest = sources_digest()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the keepers
    signal.signal(signal.SIGTERM, _end)
    try:
        report()  # whoever reads it may end the server at once
        while select.select([listening], [], [], idle_seconds)[0]:
            connection, _ = listening.accept()
            sources_digest.cache_clear()
            is_stale = sources_digest() != digest
            if user_of(connection) == os.getuid() and not is_stale and os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                listening.close()
                return _kept(connection)
            connection.close()
            if is_stale:
                break
    except _Ended:
        pass
    if path.exists() and os.stat(path).st_ino == own:
        path.unlink()
    return None


class _Ended(Exception):
    """The server was asked to end."""


def _end(number: int, frame: FrameType | None) -> None:
    raise _Ended


def _kept(connection: socket.socket) -> tuple[Any, list[int]]:
    """Read the request and fork; return in the new process, and end this one when that one has ended."""
    try:
        connection.sendall(READY)
        data, files, _, _ = socket.recv_fds(connection, LENGTH.size, 4)
        request = json.loads(received(connection, LENGTH.unpack(data)[0]))
    except (EOFError, OSError, ValueError):
        os._exit(1)
    if len(files) != 4 or _is_gone(connection):
        os._exit(1)
    worker = os.fork()
    if worker == 0:
        connection.close()
        return request, files
    # Control-C may come before the worker has begun: the client knows its number first, and waits for its status.
    for file in files:
        os.close(file)
    try:
        connection.sendall(worker.to_bytes(8, "big"))
        ended = os.pidfd_open(worker)
        readable, _, _ = select.select([ended, connection], [], [])
        if ended not in readable:
            os.kill(worker, signal.SIGTERM)
        _, status = os.waitpid(worker, 0)
        connection.sendall(os.waitstatus_to_exitcode(status).to_bytes(8, "big", signed=True))
    except OSError:
        os.kill(worker, signal.SIGTERM)
    os._exit(0)


def _is_gone(connection: socket.socket) -> bool:
    """Return whether the client has closed the connection: it did not want to wait, and runs its command by itself."""
    return bool(select.select([connection], [], [], 0)[0]) and not connection.recv(1, socket.MSG_PEEK)


def _run(commands: Commands, request: dict[str, Any], files: list[int]) -> int:
    """Become the client: its files, folder, environment and arguments; then run the command."""
    for number, file in enumerate(files[:3]):
        os.dup2(file, number)
    os.fchdir(files[3])
    for file in files:
        os.close(file)
    os.umask(request["umask"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.path[:] = request["path"]
    sys.argv[:] = [request["argv0"], *request["arguments"]]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _reopen_streams()
    return commands[request["program"]](request["arguments"])


def _reopen_streams() -> None:
    """Make Python's standard streams anew, as they are in a process that starts with these files."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        raw = io.FileIO(number, "r" if number == 0 else "w", closefd=False)
        buffer = io.BufferedReader(raw) if number == 0 else io.BufferedWriter(raw)
        stream = io.TextIOWrapper(
            buffer,
            old.encoding,
            old.errors,
            write_through=old.write_through,
            line_buffering=number == 2 or raw.isatty(),
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
