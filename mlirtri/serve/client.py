"""Ask a server to do what a command line says: the same output, exit status and signals, without the imports."""

from __future__ import annotations

import array
import json
import os
import signal
import socket
import stat
import struct
import sys
from hashlib import blake2b
from pathlib import Path
from types import FrameType

from mlirtri import settings
from mlirtri.errors import KernelError

SERVED = {"mlirtri": ("emit", "run", "build", "translate"), "mlirtri-opt": None}
"""By program, the commands that a server does; None for all. Measurements run by themselves."""
_WHEN_LOADED = (
    "PYTHON",
    "LD_",
    "LC_",
    "LANG",
    "OMP_",
    "KMP_",
    "GOMP_",
    "MKL_",
    "OPENBLAS_",
    "TVM_",
    "MALLOC_",
    "GLIBC_",
)
"""Prefixes of variables that Python and libraries read once, when they are loaded."""
LENGTH = struct.Struct("!Q")
READY = b"R"
"""What a process of the server sends first, which is going to read the request."""
ANSWER_SECONDS = 5
"""How long a server may take to fork. One that is stopped, as by Control-Z, answers never."""


def address() -> Path:
    """Return the socket of the server for processes like this one: of this interpreter and its environment."""
    read = sorted(item for item in os.environ.items() if item[0].startswith(_WHEN_LOADED))
    facts = json.dumps([sys.executable, sys.version, str(Path(__file__).resolve()), read])
    return settings.cache_folder() / f"serve-{blake2b(facts.encode(), digest_size=8).hexdigest()}.sock"


def ask(program: str, arguments: list[str]) -> int | None:
    """Return the exit status of a command that a server has run, or None where this process has to run it."""
    if not os.environ.get("MLIRTRI_SERVE"):
        return None
    try:
        if not settings.get("MLIRTRI_SERVE") or not _is_served(program, arguments):
            return None
        connection = connect(address())
    except (KernelError, OSError):
        return None
    with connection:
        return _asked(connection, program, arguments)


def connect(path: Path) -> socket.socket:
    """Return a connection to the server of this user at a path; raises `OSError` where there is none."""
    if os.lstat(path).st_uid != os.getuid() or not stat.S_ISSOCK(os.lstat(path).st_mode):
        raise ConnectionRefusedError
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(os.fspath(path))
        if user_of(connection) != os.getuid():
            raise ConnectionRefusedError
    except BaseException:
        connection.close()
        raise
    return connection


def user_of(connection: socket.socket) -> int:
    """Return the user id of the process at the other end."""
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return user


def _is_served(program: str, arguments: list[str]) -> bool:
    commands = SERVED[program]
    if commands is not None and (not arguments or arguments[0] not in commands):
        return False
    # A terminal can be read by the processes of its own session only.
    return not (os.isatty(0) and "-" in arguments)


def _asked(connection: socket.socket, program: str, arguments: list[str]) -> int | None:
    request = {
        "program": program, "arguments": arguments, "argv0": sys.argv[0], "path": sys.path, "umask": _umask(),
        "environment": dict(os.environ),
    }  # fmt: skip
    try:
        connection.settimeout(ANSWER_SECONDS)
        # Files that are sent to a server which is stopped stay open there: whoever reads our output would wait.
        received(connection, len(READY))
        text = json.dumps(request).encode()
        folder = os.open(".", os.O_RDONLY)
        try:
            send_with_files(connection, LENGTH.pack(len(text)), [0, 1, 2, folder])
        finally:
            os.close(folder)
        connection.sendall(text)
        worker = int.from_bytes(received(connection, 8), "big")
        connection.settimeout(None)
    except (OSError, EOFError):
        return None  # stopped, killed, or its sources are of another version by now
    return _finished(connection, worker)


def _finished(connection: socket.socket, worker: int) -> int:
    """Pass signals on to the worker and return its exit status, or end by the signal that ended it."""

    def pass_on(number: int, frame: FrameType | None) -> None:
        os.kill(worker, number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, pass_on)
    try:
        status = int.from_bytes(received(connection, 8), "big", signed=True)
    except (OSError, EOFError):
        print("mlirtri: the server ended before the command did", file=sys.stderr)
        return 1
    if status < 0:
        signal.signal(-status, signal.SIG_DFL) if -status != signal.SIGKILL else None
        os.kill(os.getpid(), -status)
    return status


def _umask() -> int:
    mask = os.umask(0o77)
    os.umask(mask)
    return mask


def send_with_files(connection: socket.socket, data: bytes, files: list[int]) -> None:
    """Send data with file descriptors beside it."""
    connection.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))])


def received(connection: socket.socket, size: int) -> bytes:
    """Return that many bytes; raises `EOFError` where the other end closes before."""
    data = b""
    while len(data) < size:
        if not (part := connection.recv(size - len(data))):
            raise EOFError
        data += part
    return data
