"""Run upstream MLIR passes on a module, in place, one by one, so that the text after each can be seen.

Operations fetched before the call must not be used after it. A pass that fails becomes a `PassFailedError` on the
user's line, which names the saved input IR and the `mlirtri-opt` command that repeats the failure.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from mlirtri import settings
from mlirtri.dialect.bindings.locations import callers_of, span_of
from mlirtri.dialect.bindings.mlir import ir, passmanager, print_module
from mlirtri.dialect.working_context import leave_context, pass_manager
from mlirtri.errors import Note, PassFailedError, Span, UnknownOptionError
from mlirtri.lowering.core.stage import CompileContext

MODULE_ONLY_PIPELINES = (
    "gpu-lower-to-nvvm-pipeline", "gpu-lower-to-rocdl-pipeline", "gpu-lower-to-xevm-pipeline", "sparsifier",
    "tosa-to-linalg-pipeline",
)  # fmt: skip
"""Pipelines made of module passes: nested under another operation, MLIR ends the process instead of raising."""


@dataclass(frozen=True)
class Pass:
    """One step of a lowering: an upstream pass and the reason it is there."""

    pipeline: str
    """What stands inside ``builtin.module(…)``: ``cse``, ``func.func(convert-linalg-to-loops)``, options in braces."""
    why: str

    @property
    def name(self) -> str:
        """The pass without nesting and options, or the whole text when it is more than one pass."""
        bare = re.sub(r"\{[^{}]*\}", "", self.pipeline)
        return self.pipeline if "," in bare else bare.rstrip(")").rpartition("(")[2]


def run_passes(module: ir.Module, passes: Sequence[Pass], context: CompileContext) -> None:
    """Run `passes` on `module` in order, recording the text after each (not when `keep_passes` is off)."""
    if not context.keep_passes:
        together = in_module(",".join(step.pipeline for step in passes))
        _run(module, _manager_of(together, module), together, context)
        return
    managers = [(step.name, _manager_of(in_module(step.pipeline), module)) for step in passes]
    before = text_for(context, module)
    for step, (name, manager) in zip(passes, managers, strict=True):
        _run(module, manager, in_module(step.pipeline), context)
        text = text_for(context, module, is_verified=True)
        context.record(name, text, before)
        before = text


def text_for(context: CompileContext, module: ir.Module, is_verified: bool = False) -> str:
    """Return `print_module`, which is not called again where nothing has changed since it was called last.

    Writing a module as bytecode takes a fifth of the time of printing it.
    """
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    if (bytecode := buffer.getvalue()) != context.printed[0]:
        context.printed = bytecode, print_module(module, is_verified)
    return context.printed[1]


def _manager_of(pipeline: str, module: ir.Module) -> passmanager.PassManager:
    return pass_manager(pipeline, module.context, parse_pipeline)


def run_rewrite(name: str, rewrite: Callable[[ir.Module], None], module: ir.Module, context: CompileContext) -> None:
    """Run a rewrite of ours, in place, and record it like an upstream pass."""
    if not context.keep_passes:
        rewrite(module)
        return
    before = text_for(context, module)
    rewrite(module)
    context.record(name, text_for(context, module), before, is_ours=True)


def in_module(pipeline: str) -> str:
    """Return `pipeline` anchored on a module, as ``--pass-pipeline=`` wants it."""
    return f"builtin.module({pipeline})"


def parse_pipeline(text: str, context: ir.Context) -> passmanager.PassManager:
    """Return the pass manager for `text`; raises `UnknownOptionError` for an unknown pass or one that would crash."""
    _refuse_nested_module_pipelines(text)
    try:
        return passmanager.PassManager.parse(text, context)
    except ValueError as error:
        reason = re.sub(r"^MLIR Textual PassPipeline Parser:\d+:\d+: error: ", "", str(error)).strip()
        raise UnknownOptionError(
            f"the pass pipeline {text!r} is refused: {reason}",
            help="passes are spelled as in mlir-opt: builtin.module(cse,func.func(convert-linalg-to-loops))",
        ) from None


def _refuse_nested_module_pipelines(text: str) -> None:
    anchors: list[str] = []
    previous = ""
    for token in re.findall(r"\{[^{}]*\}|[\w.\-]+|[()]", text):
        if token == ")" and anchors:
            anchors.pop()
        elif token == "(":
            anchors.append(previous)
        elif token in MODULE_ONLY_PIPELINES and any(anchor not in ("builtin.module", "any") for anchor in anchors):
            raise UnknownOptionError(
                f"the pass pipeline {text!r} is refused: {token!r} runs on modules only",
                help=f"write it directly inside builtin.module(…), not inside {anchors[-1]}(…)",
            )
        previous = token


def _run(module: ir.Module, manager: passmanager.PassManager, pipeline: str, context: CompileContext) -> None:
    # A failing pass leaves the module half rewritten, so its input is copied first; a clone costs microseconds.
    before = module.operation.clone()
    try:
        manager.run(module.operation)
    except ir.MLIRError as error:
        leave_context()
        raise _pass_failed(error, before, pipeline, context) from None


def _pass_failed(error: ir.MLIRError, before: ir.Operation, pipeline: str, context: CompileContext) -> PassFailedError:
    help = saved_reproducer(before.get_asm(enable_debug_info=True), pipeline, context)
    message, span, notes = explain(error)
    name = Pass(pipeline.removeprefix("builtin.module(").removesuffix(")"), "").name
    return PassFailedError(f"pass {name} failed: {message}", span, help=help, notes=notes)


def explain(error: ir.MLIRError) -> tuple[str, Span | None, list[Note]]:
    """Return message and location of the first diagnostic of `error`; its notes and the other diagnostics as notes."""
    if not error.error_diagnostics:
        return "MLIR gave no reason", None, []
    first, *others = error.error_diagnostics
    # "see current operation" repeats the IR that the reproducer holds.
    notes = [
        Note(str(note.message), span_of(note.location))
        for note in first.notes
        if not str(note.message).startswith("see current operation")
    ]
    notes.extend(callers_of(first.location))
    notes.extend(Note(other.message, span_of(other.location)) for other in others)
    return first.message, span_of(first.location), notes


def saved_reproducer(text: str, pipeline: str, context: CompileContext) -> str:
    """Save the input IR of a failed pass; return the command that repeats it, or why it could not be saved."""
    command = f"mlirtri-opt --pass-pipeline={shlex.quote(pipeline)}"
    try:
        where = _save_reproducer(text, command, f"{context.kernel}-{context.stage}")
    except OSError as problem:
        return f"the input IR could not be saved ({problem}); set MLIRTRI_REPRODUCER_DIR to a writable folder"
    return f"reproduce with: {command} {shlex.quote(str(where))}"


def _save_reproducer(text: str, command: str, name: str) -> Path:
    """Write the command and `text` to a file of its own in the reproducer folder, atomically; return its path."""
    default = Path(tempfile.gettempdir()) / f"mlirtri-reproducers-{getattr(os, 'getuid', int)()}"
    folder = settings.get("MLIRTRI_REPRODUCER_DIR") or default
    folder.mkdir(parents=True, exist_ok=True)
    stem, text = re.sub(r"[^\w.-]+", "_", name), without_folders(text)
    target = folder / f"{stem}-{blake2b(f'{command}{text}'.encode(), digest_size=4).hexdigest()}.mlir"
    handle, partial = tempfile.mkstemp(dir=folder, suffix=".partial")
    with os.fdopen(handle, "w") as file:
        # The command first: the file says what it is for when it is sent to somebody else.
        file.write(f"// {command} {target.name}\n{text}")
    os.replace(partial, target)
    return target


def without_folders(text: str) -> str:
    """Return MLIR's text with locations that name source files without their folders, which are this machine's."""
    return re.sub(r'"/[^"\n]*/([^"/\n]+":\d+:\d+)', r'"\1', text)
