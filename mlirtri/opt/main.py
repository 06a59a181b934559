"""`mlirtri-opt`: upstream's mlir-opt over the bindings, with every upstream pass and with the `tri` dialect.

Exit status: 0 fine, 1 the input or a pass failed, 2 the command line makes no sense.
"""

from __future__ import annotations

import atexit
import errno
import gc
import os
import sys
import tempfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from mlirtri.opt.options import SPLIT_MARKER, Options, UsageError, parse_arguments, usage
from mlirtri.opt.own_passes import descriptions
from mlirtri.serve.client import ask

if TYPE_CHECKING:
    from mlirtri.opt.pipelines import Plan

BYTECODE = b"ML\xefR"
"""What MLIR's binary form begins with."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    if arguments is None:
        arguments = sys.argv[1:]
        if os.environ.get("MLIRTRI_SERVE") and (status := ask("mlirtri-opt", arguments)) is not None:
            return status
        atexit.register(gc.freeze)  # a collection at exit would look at all objects of the compilers
    try:
        return _run(parse_arguments(arguments))
    except UsageError as error:
        return _complain(str(error), 2)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            # Whoever read our output has seen enough; Python must not complain when it flushes at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        return _complain(f"{error.filename or 'output'}: {error.strerror}", 1)


def _complain(message: str, status: int) -> int:
    print(f"mlirtri-opt: error: {message}", file=sys.stderr)
    return status


def _run(options: Options) -> int:
    if options.on("help"):
        print(usage(descriptions()))
        return 0
    if options.on("version"):
        print(f"mlirtri {metadata.version('mlirtri')}, MLIR of torch-mlir {metadata.version('torch-mlir')}")
        return 0
    if options.on("list-passes") or options.on("show-dialects"):
        from mlirtri.opt import registry  # loads MLIR, which --help and --version do without

        names = registry.registered_passes() if options.on("list-passes") else registry.available_dialects()
        print("\n".join(names) if options.on("list-passes") else f"Available Dialects: {','.join(names)}")
        return 0
    from mlirtri.opt.pipelines import plan_of  # loads MLIR

    if options.on("run-reproducer"):
        data = _input(options)
        options.values["pass-pipeline"] = _reproduced(data)
        return _process_all(data, plan_of(options), options)
    plan = plan_of(options)
    return _process_all(_input(options), plan, options)


def _input(options: Options) -> bytes:
    return sys.stdin.buffer.read() if options.input == "-" else Path(options.input).read_bytes()


def _reproduced(data: bytes) -> str:
    from mlirtri.opt.running import reproducer_pipeline

    pipeline = reproducer_pipeline(data.decode(errors="replace"))
    if pipeline is None:
        raise UsageError("--run-reproducer: the file names no passes; --mlir-pass-pipeline-crash-reproducer writes one")
    return pipeline


def _process_all(data: bytes, plan: Plan, options: Options) -> int:
    name = "<stdin>" if options.input == "-" else options.input
    sections: list[str | bytes] = [data]
    if not data.startswith(BYTECODE):
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            line = data[: error.start].count(b"\n") + 1
            print(f"{name}:{line}:1: error: the file is not UTF-8 text: {error.reason}", file=sys.stderr)
            return 1
        marker = options.values.get("split-input-file", SPLIT_MARKER)
        sections = [*split(text, marker)] if options.on("split-input-file") else [text]
    results = [_process(section, name, plan, options) for section in sections]
    fine = all(succeeded for _, succeeded in results)
    between = f"{options.values.get('output-split-marker', SPLIT_MARKER)}\n".encode()
    printed = between.join(output for output, _ in results if output is not None)
    _write(printed, options.values.get("o", "-"), fine)
    return 0 if fine else 1


def split(text: str, marker: str = SPLIT_MARKER) -> list[str]:
    """Split at the markers; each section starts with empty lines, so that its line numbers are the file's."""
    sections, start = [], 0
    lines = text.split("\n")
    marks = [number for number, line in enumerate(lines) if line.startswith(marker)]
    for end in [*marks, len(lines)]:
        sections.append("\n" * start + "\n".join(lines[start:end]))
        start = end + 1
    return sections


def _process(source: str | bytes, name: str, plan: Plan, options: Options) -> tuple[bytes | None, bool]:
    from mlirtri.opt import diagnostics as opt_diagnostics  # loads MLIR
    from mlirtri.opt import passes as opt_passes
    from mlirtri.opt.running import PIECE

    # MLIR reads files: their names are in locations, so a piece goes by a name that can be put right afterwards.
    with tempfile.TemporaryDirectory(prefix="mlirtri-opt-") as folder:
        path = os.path.join(folder, PIECE)
        Path(path).write_bytes(source if isinstance(source, bytes) else source.encode())
        output, reports = opt_passes.transform(path, plan, options)
        if options.on("verify-diagnostics"):
            text = "" if isinstance(source, bytes) else source
            only_expected = options.values.get("verify-diagnostics") == "only-expected"
            reports = opt_diagnostics.differences(text, path, reports, only_expected)
        for report in reports:
            print(str(report).replace(path, name), file=sys.stderr)
        failed = any(report.severity == "error" for report in reports)
        fine = not failed and (output is not None or options.on("verify-diagnostics"))
        printed = output.replace(path, name).encode() if isinstance(output, str) else output
        return printed, fine


def _write(data: bytes, target: str, fine: bool) -> None:
    """Write to stdout always, elsewhere only on success, to a file atomically."""
    if target == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    elif fine and Path(target).exists() and not Path(target).is_file():
        # A device or a pipe is written to, never replaced.
        Path(target).write_bytes(data)
    elif fine:
        folder = Path(target).resolve().parent
        if not folder.is_dir():
            raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(folder))
        # A folder of its own is private; the file in it has the mode that the umask gives.
        with tempfile.TemporaryDirectory(prefix=".mlirtri-opt-", dir=folder) as private:
            partial = Path(private) / "output"
            partial.write_bytes(data)
            os.replace(partial, target)


if __name__ == "__main__":
    sys.exit(main())
