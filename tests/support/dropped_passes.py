"""Which passes do the lit tests miss? Each pass of each lowering is dropped in turn; a test has to fail then.

    PYTHONPATH=tests/support python -m dropped_passes                       # all
    PYTHONPATH=tests/support python -m dropped_passes --tests bufferized llvmdialect -- cse fused_to_bufferized

The functions that run passes are replaced. A first run of the tests notes which passes run in each, and which change
the IR there. Only tests in which a pass changes anything run again without it. Each run is a forked process, which has
everything loaded. Tests with other commands than `mlirtri`, `mlirtri-opt` and FileCheck are left out.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import astuple, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from unnoticed_passes import reason_of

LIT_TESTS = Path(__file__).parents[2] / "lit_tests"
_SECONDS = 300
"""After which a run without a pass counts as failed: it may not end."""


@dataclass(frozen=True, order=True)
class Step:
    """A pass where a lowering runs it. `mlirtri-opt` runs passes by their names: those are no steps."""

    lowering: str
    """The module that runs it."""
    name: str
    why: str = ""
    """What tells passes of one name apart: why a pass of MLIR runs, or what a schedule rule is for."""

    def __str__(self) -> str:
        return f"{self.lowering}:{self.name}" + (f" ({self.why})" if self.why else "")


# --- passes that are noted or dropped -------------------------------------------------------------------------------


@dataclass
class _Watch:
    """What this process does about passes."""

    dropped: Step | None = None
    notes: dict[Step, bool] | None = None
    """Whether a step changed anything."""

    def note(self, step: Step, changed: bool) -> None:
        if self.notes is not None and step.lowering:
            self.notes[step] = self.notes.get(step, False) or changed


_watch = _Watch()


def watch_passes() -> None:
    """Replace the functions that run passes; before any lowering is imported, for those know them by name."""
    from mlirtri.lowering.toolchain import mlir_passes, tvm_passes

    mlir_passes.run_passes = partial(_run_mlir, mlir_passes.run_passes)
    mlir_passes.run_rewrite = partial(_run_rewrite, mlir_passes.run_rewrite)
    tvm_passes.run_passes = partial(_run_tvm, tvm_passes.run_passes)


def _caller() -> str:
    """Return the module that runs passes, without its packages; nothing where it is none of a lowering."""
    name = sys._getframe(2).f_globals["__name__"]
    return name.rpartition(".")[2] if ".lowering." in name else ""


def _run_mlir(original: Callable[..., None], module: Any, passes: Sequence[Any], context: Any) -> None:
    lowering = _caller()
    steps = [(each, Step(lowering, each.name, each.why)) for each in passes]
    kept = [(each, step) for each, step in steps if step != _watch.dropped]
    if _watch.notes is None:
        return original(module, [each for each, _ in kept], context)
    for each, step in kept:
        before = _text(module)
        original(module, [each], context)
        _watch.note(step, _text(module) != before)
    return None


def _run_rewrite(original: Callable[..., None], name: str, rewrite: Any, module: Any, context: Any) -> None:
    step = Step(_caller(), name)
    if step == _watch.dropped:
        return
    before = "" if _watch.notes is None else _text(module)
    try:
        original(name, rewrite, module, context)
    except Exception:  # a check does nothing else
        _watch.note(step, True)
        raise
    if _watch.notes is not None:
        _watch.note(step, _text(module) != before)


def _text(module: Any) -> str:
    return module.operation.get_asm(enable_debug_info=True)


def _run_tvm(original: Callable[..., Any], mod: Any, passes: Sequence[Any], context: Any) -> Any:
    lowering = _caller()
    steps = [(each, Step(lowering, each.name, _device_of_rule(each))) for each in passes]
    kept = [(each, step) for each, step in steps if step != _watch.dropped]
    if _watch.notes is None:
        return original(mod, tuple(each for each, _ in kept), context)
    for each, step in kept:
        before = mod.script()
        mod = original(mod, (each,), context)
        _watch.note(step, mod.script() != before)
    return mod


def _device_of_rule(step: Any) -> str:
    """Return the kind of device that a schedule rule is for; nothing for other passes."""
    targets = [value for value in getattr(step.run, "args", ()) if hasattr(value, "is_cuda")]
    return targets[0].kind if targets else ""


# --- tests in this process ------------------------------------------------------------------------------------------


class _Unsupported(Exception):
    """A RUN line with another command."""


def passes(test: Any) -> bool:
    """Return whether a lit test passes, its commands run in this process; raises `_Unsupported`."""
    from mlirtri.testing.run_lines import expand

    with tempfile.TemporaryDirectory(prefix="dropped-") as folder:
        return all(_holds(expand(command, test.file, Path(folder), {}), Path(folder)) for command in test.commands)


def _holds(line: str, folder: Path) -> bool:
    """Run ``[not] COMMAND [2>&1] [> FILE] [| FileCheck …]``; return whether the status is 0."""
    if not re.search(r"(?<![\w./-])mlirtri(-opt)? ", line):
        return _in_shell(line, folder)
    command, _, check = line.partition(" | ")
    if " | " in check or (check and not check.startswith("FileCheck ")):
        raise _Unsupported(line)
    words = shlex.split(command)
    while words[0] == "env" or "=" in words[0]:
        name, equals, value = words.pop(0).partition("=")
        os.environ.update({name: value} if equals else {})
    is_refused, words = words[0] == "not", words[words[0] == "not" :]
    output = folder / "output"
    if ">" in words:
        position = words.index(">")
        words, output = words[:position], Path(words[position + 1])
    errors = output if "2>&1" in words else folder / "errors"
    status = _call([word for word in words if word != "2>&1"], output, errors)
    if (status != 0) != is_refused:
        return False
    return not check or _in_shell(f"{check} --input-file={shlex.quote(str(output))}", folder)


def _in_shell(line: str, folder: Path) -> bool:
    """Return whether a command without compilers succeeds."""
    from mlirtri.testing.tools import filecheck

    text = re.sub(r"\bFileCheck\b", lambda _: str(filecheck()), line, count=1)
    negation = 'not() { ! "$@"; }'
    return subprocess.run(["bash", "-c", f"{negation}\n{text}"], cwd=folder, capture_output=True).returncode == 0


def _call(words: list[str], output: Path, errors: Path) -> int:
    """Return the status of a command whose streams are files."""
    commands = _commands()
    if words[0] not in commands or "<" in words or "&&" in words or "|" in words:
        raise _Unsupported(shlex.join(words))
    sys.stdout.flush()
    sys.stderr.flush()
    saved = [os.dup(number) for number in (1, 2)]
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    try:
        for number, file in ((1, output), (2, errors)):
            opened = os.open(file, flags | (os.O_APPEND if output == errors else 0))
            os.dup2(opened, number)
            os.close(opened)
        return commands[words[0]](words)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, kept in zip((1, 2), saved, strict=True):
            os.dup2(kept, number)
            os.close(kept)


def _commands() -> dict[str, Callable[[list[str]], int]]:
    from mlirtri.cli.main import run_command
    from mlirtri.opt.main import main as run_opt

    return {
        "mlirtri": lambda words: run_command(words[1:]),
        "mlirtri-opt": lambda words: run_opt(words[1:]),
    }


# --- forked runs ----------------------------------------------------------------------------------------------------


def _forked(run: Callable[[], Any]) -> Any:
    """Return what a function returns in a forked process, through JSON; None where that fails or does not end."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        status = 1
        try:
            signal_alarm(_SECONDS)
            os.write(writing, json.dumps(run()).encode())
            status = 0
        except Exception as error:
            os.write(2, f"{type(error).__name__}: {str(error)[:200]}\n".encode())
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    return json.loads(text) if status == 0 else None


def signal_alarm(seconds: int) -> None:
    """End this process after that many seconds."""
    import signal

    signal.alarm(seconds)


def _noted(test: Any) -> list[tuple[str, str, str, bool]] | None:
    """Return the steps that run in a test, and whether they change anything; None if it fails."""
    _watch.notes = {}
    if not passes(test):
        return None
    return [(*astuple(step), changed) for step, changed in _watch.notes.items()]


def _misses(dropped: Step, test: Any) -> bool:
    """Return whether a test passes without a pass."""
    _watch.dropped = dropped
    try:
        return passes(test)
    except Exception:  # a lowering that relies on it
        return False


@dataclass
class Suite:
    """Tests, and which of them each step changes."""

    changed_by: dict[Step, list[Any]] = field(default_factory=lambda: defaultdict(list))
    seconds: dict[Path, float] = field(default_factory=dict)

    def run(self, tests: Sequence[Any]) -> None:
        """Note the steps of tests; those that fail, or have other commands, are left out and said."""
        for test in tests:
            start = time.monotonic()
            notes = _forked(lambda test=test: _noted(test))
            self.seconds[test.file] = time.monotonic() - start
            if notes is None:
                print(f"left out: {test.file.relative_to(LIT_TESTS)}", file=sys.stderr)
            for *parts, changed in notes or ():
                self.changed_by[Step(*parts)] += [test] if changed else []

    def noticing(self, dropped: Step) -> Any | None:
        """Return a test that fails without a step; short ones are tried first."""
        ordered = sorted(self.changed_by[dropped], key=lambda test: self.seconds[test.file])
        return next((test for test in ordered if not _forked(lambda test=test: _misses(dropped, test))), None)


def unnoticed(folders: Collection[str] = (), wanted: Collection[str] = ()) -> Iterator[tuple[Step, str]]:
    """Yield each step with the test that notices when it is dropped, as a path; or why there is none, in brackets.

    `folders` are those of the lit tests, by default all; `wanted` are names of passes or lowerings, by default all.
    """
    from mlirtri.testing.run_lines import lit_files, read_test

    files = [file for folder in folders or [""] for file in lit_files(LIT_TESTS / folder)]
    suite = Suite()
    suite.run([read_test(file) for file in files])
    for each in sorted(suite.changed_by):
        if wanted and not {each.name, each.lowering} & {*wanted}:
            continue
        if not suite.changed_by[each]:
            yield each, "(changes no test)"
            continue
        test = suite.noticing(each)
        yield each, "(a test passes without)" if test is None else str(test.file.relative_to(LIT_TESTS))


def main() -> int:
    """Print each pass with the test that notices when it is dropped; status 1 where one has no reason either."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("wanted", nargs="*", metavar="NAME", help="a pass or a lowering; by default all")
    parser.add_argument("--tests", nargs="+", default=[], metavar="FOLDER", help="folders of lit_tests; by default all")
    options = parser.parse_args()
    from mlirtri.testing.environment import variables

    os.environ.update({**variables(), "MLIRTRI_SERVE": "0"})
    watch_passes()
    _load()
    start, found = time.monotonic(), []
    for each, test in unnoticed(options.tests, options.wanted):
        reason = reason_of(*astuple(each)) if test.startswith("(") else None
        print(f"{each}\t{test}" + (f": {reason}" if reason else ""), flush=True)
        found.append("known" if reason else "missed" if test.startswith("(") else "noticed")
    counts = ", ".join(f"{found.count(kind)} {kind}" for kind in ("noticed", "known", "missed"))
    print(
        f"{len(found)} passes: {counts} ({time.monotonic() - start:.0f} s); the known ones are in unnoticed_passes.py"
    )
    return int("missed" in found)


def _load() -> None:
    """Import what commands import, so that the forked processes need not."""
    import importlib

    from mlirtri.lowering.pipelines import PIPELINE_STAGES

    stages = [stage.run for stages in PIPELINE_STAGES.values() for stage in stages]
    names = ["mlirtri.kernels.session", "mlirtri.cli.kernel_files", "mlirtri.cli.program_files", "mlirtri.opt.passes"]
    for module in [*names, *(run.module for run in stages if hasattr(run, "module"))]:
        importlib.import_module(module)


if __name__ == "__main__":
    sys.exit(main())
