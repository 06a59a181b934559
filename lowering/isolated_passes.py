"""Runs passes that can end the process in a process of their own: torch-mlir's, on programs that others wrote.

Takes a module, passes and the compile context. Gives a new module, read from the text that the other process printed.
A pass that fails is the same `PassFailedError` as of `run_passes`; a process that dies, or takes too long, is one too.

The first use starts the process, which is kept for the next. It imports MLIR alone: a fraction of a second.
"""

from __future__ import annotations

import os
import pickle
import select
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any, BinaryIO

from mlirtri.dialect.definition import new_context
from mlirtri.dialect.mlir import ir, load_stablehlo, load_torch, print_module
from mlirtri.errors import KernelError, Note, PassFailedError, Span
from mlirtri.lowering.mlir_passes import Pass, explain, in_module, parse_pipeline, save_reproducer
from mlirtri.lowering.stage import CompileContext

SECONDS = 600.0
"""After which a process counts as hanging."""
_HEADER = struct.Struct("<Q")


def run_isolated(module: ir.Module, passes: Sequence[Pass], context: CompileContext) -> ir.Module:
    """`module` after `passes`, in a context of its own; raises `PassFailedError`."""
    text = module.operation.get_asm(enable_debug_info=True)
    groups = [(one.name, in_module(one.pipeline)) for one in passes]
    if not context.keep_passes:
        groups = [(" ".join(name for name, _ in groups), in_module(",".join(one.pipeline for one in passes)))]
    for name, pipeline in groups:
        before, text = text, _WORKER.ask((pipeline, text))
        if isinstance(text, _Failure):
            raise _pass_failed(text, name, pipeline, before, context)
        module = _parsed(text)
        if context.keep_passes:
            context.record(name, print_module(module), before)
    return module


def _parsed(text: str) -> ir.Module:
    module_context = new_context()
    load_torch(module_context)
    load_stablehlo(module_context)
    return ir.Module.parse(text, module_context)


def _pass_failed(failure: _Failure, name: str, pipeline: str, before: str, context: CompileContext) -> PassFailedError:
    try:
        where = save_reproducer(before, f"{context.kernel}-{context.stage}")
        way_out = f"the module and {pipeline!r} repeat it: {where}"
    except OSError as problem:
        way_out = f"the input IR could not be saved ({problem}); set MLIRTRI_REPRODUCER_DIR to a writable folder"
    return PassFailedError(f"pass {name} failed: {failure.message}", failure.span, help=way_out, notes=failure.notes)


class _Failure:
    """Why there is no module, in a form that goes from one process to the other."""

    def __init__(self, message: str, span: Span | None = None, notes: Sequence[Note] = ()):
        self.message = message
        self.span = span
        self.notes = tuple(notes)


class _Worker:
    """The other process, as this one sees it. Thread-safe; a fork starts one of its own."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.process: subprocess.Popen[bytes] | None = None
        self.owner = 0

    def ask(self, question: Any) -> Any:
        """The answer to one question, or the `_Failure` that the process died of."""
        with self.lock:
            if self.process is None or self.owner != os.getpid() or self.process.poll() is not None:
                self._start()
            process = self.process
            try:
                _write(process.stdin, question)
                if not select.select([process.stdout], [], [], SECONDS)[0]:
                    self._stop()
                    return _Failure(f"it ran for more than {SECONDS:.0f} seconds")
                return _read(process.stdout)
            except (EOFError, BrokenPipeError):
                status = process.wait()
                self.process = None
                return _Failure(f"it ended its process with status {status}")

    def _start(self) -> None:
        command = f"from {__name__} import serve; serve()"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        self.owner = os.getpid()

    def _stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process = None


_WORKER = _Worker()


def serve() -> None:
    """What the other process does: answer until its input ends."""
    output = os.fdopen(os.dup(1), "wb")
    # What a library prints is no answer, and what it says before it dies is said by the error.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(1, 2)
    while True:
        try:
            question = _read(sys.stdin.buffer)
        except EOFError:
            return
        _write(output, _answer(*question))


def _answer(pipeline: str, text: str) -> str | _Failure:
    try:
        module = _parsed(text)
        parse_pipeline(pipeline, module.context).run(module.operation)
        return module.operation.get_asm(enable_debug_info=True)
    except ir.MLIRError as error:
        return _Failure(*explain(error))
    except KernelError as error:
        return _Failure(error.message, error.span, error.notes)


def _write(stream: BinaryIO, message: Any) -> None:
    data = pickle.dumps(message)
    stream.write(_HEADER.pack(len(data)) + data)
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
