"""`mlirtri diff` and `mlirtri emit --diff`: what differs between two texts, where renamed values are no difference."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlirtri.cli.options import OneOf
from mlirtri.errors import SourceNotAvailableError, UnknownOptionError, did_you_mean

if TYPE_CHECKING:
    from mlirtri.kernels.kernel import Kernel

_KINDS = {".mlir": "mlir", ".ll": "llvm", ".s": "asm", ".ptx": "ptx", ".py": "tvmscript"}
"""Suffix of a file to the kind of its text; others are compared as they are."""
STDIN = "-"


@click.command()
@click.argument("before", metavar="BEFORE")
@click.argument("after", metavar="AFTER")
@click.option("--kind", type=OneOf(sorted({*_KINDS.values()})), help="By default by the suffix: .mlir, .ll, …")
@click.option("-U", "context", type=click.IntRange(0), default=3, show_default=True, help="Equal lines around.")
def diff(before: str, after: str, kind: str | None, context: int) -> int:
    """Print what differs between two files of IR, as a unified diff; status 1 if anything does. One may be - for stdin.

    Values, labels and aliases that only have other names are no difference: %3 may be %7 as long as it always is.
    """
    from mlirtri.trace.unified import unified_diff

    if before == after == STDIN:
        raise click.UsageError("stdin is one text: name a file, too")
    kind = kind or next(filter(None, (_KINDS.get(Path(name).suffix) for name in (before, after))), "")
    difference = unified_diff(kind, _read(before), _read(after), (before, after), context)
    if difference:
        print_difference(difference)
    return int(bool(difference))


def _read(name: str) -> str:
    if name == STDIN:
        return sys.stdin.read()
    try:
        return Path(name).read_text(encoding="utf-8")
    except FileNotFoundError:
        is_kernel = Path(name.partition("::")[0]).is_file()
        help = "diff takes files of IR; `mlirtri emit --diff` compares passes and pipelines of a kernel"
        raise SourceNotAvailableError(f"there is no file {name}", help=help if is_kernel else None) from None
    except (OSError, UnicodeDecodeError) as problem:
        raise SourceNotAvailableError(f"{name} cannot be read as text: {problem}") from None


def print_difference(text: str) -> None:
    """Print a unified diff, with colours on a terminal unless ``NO_COLOR`` is set."""
    is_plain = bool(os.environ.get("NO_COLOR"))
    for line in text.split("\n"):
        is_name = line.startswith(("--- ", "+++ "))
        colour = None if is_plain or is_name else _COLOURS.get(line[:1])
        click.secho(line, fg=colour, bold=True if is_name and not is_plain else None)


_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def difference_options(command: Any) -> Any:
    """Add the options of `emit` that ask for differences in place of texts."""
    options = (
        click.option("--diff", "is_diff", is_flag=True, help="Instead, what each pass of the stages changed."),
        click.option("--from-pass", metavar="PASS", help="With --diff: the text after this pass, against --to-pass."),
        click.option("--to-pass", metavar="PASS", help="With --diff: the other pass; by default the end of the stage."),
        click.option("--pipelines", metavar="A,B", help="With --diff: a stage of two pipelines instead."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def asks_for_differences(options: dict[str, Any]) -> bool:
    """Return whether `emit` is to print differences; raises `UsageError` for options that are for those only."""
    if not options["is_diff"] and any(value for name, value in options.items() if name != "is_diff"):
        raise click.UsageError("--from-pass, --to-pass and --pipelines are for --diff")
    return options["is_diff"]


def stages_with_passes(kernel: Kernel, *passes: str | None) -> list[str]:
    """Return the stages that have all of these passes; raises `UnknownOptionError` if none has."""
    wanted = {name for name in passes if name is not None}
    found = [stage for stage in kernel.ir if wanted <= {*kernel.passes.get(stage, {})}]
    if not found:
        every = list(dict.fromkeys(name for stage in kernel.ir for name in kernel.passes.get(stage, {})))
        hints = "".join(did_you_mean(name, every) for name in sorted(wanted - {*every}))
        raise UnknownOptionError(
            f"no stage has {' and '.join(sorted(wanted))}", help=f"{hints}its passes are {', '.join(every)}"
        )
    return found


def pass_differences(kernel: Kernel, stages: Sequence[str], from_pass: str | None, to_pass: str | None) -> str:
    """Return what the passes of these stages changed, one after the other, or what lies between two of one stage."""
    if from_pass or to_pass:
        return "\n".join(filter(None, (_between(kernel, stage, from_pass, to_pass) for stage in stages)))
    return "\n".join(text for stage in stages for text in _by_pass(kernel, stage))


def _by_pass(kernel: Kernel, stage: str) -> list[str]:
    from mlirtri.trace.unified import unified_diff

    kind, differences = kernel.compilation.records[stage].stage.kind, []
    passes = kernel.passes[stage]
    previous, name = _start(kernel, stage), f"{stage}: before"
    for step, text in passes.items():
        if previous is not None and (changed := unified_diff(kind, previous, text, (name, f"{stage}: {step}"))):
            differences.append(changed)
        previous, name = text, f"{stage}: {step}"
    return differences


def _between(kernel: Kernel, stage: str, from_pass: str | None, to_pass: str | None) -> str:
    from mlirtri.trace.unified import unified_diff

    passes = kernel.passes[stage]
    for name in (from_pass, to_pass):
        if name is not None and name not in passes:
            help = f"{did_you_mean(name, passes)}its passes are {', '.join(passes) or 'none'}"
            raise UnknownOptionError(f"stage {stage!r} has no pass {name!r}", help=help)
    before = _start(kernel, stage) if from_pass is None else passes[from_pass]
    if before is None:
        raise UnknownOptionError(f"the text before stage {stage!r} is of another kind", help="say --from-pass")
    after = kernel.ir[stage] if to_pass is None else passes[to_pass]
    names = f"{stage}: {from_pass or 'before'}", f"{stage}: {to_pass or 'end'}"
    return unified_diff(kernel.compilation.records[stage].stage.kind, before, after, names)


def _start(kernel: Kernel, stage: str) -> str | None:
    """Return the text before a stage; None if it is another kind of IR."""
    names = list(kernel.ir)
    number = names.index(stage)
    records = kernel.compilation.records
    if number == 0 or records[names[number - 1]].stage.kind != records[stage].stage.kind:
        return None
    return kernel.ir[names[number - 1]]


def pipeline_difference(kernels: Sequence[Kernel], stage: str) -> str:
    """Return what differs between a stage of two kernels."""
    from mlirtri.trace.unified import unified_diff

    before, after = kernels
    kind = before.compilation.records[before.pipeline.find(stage).name].stage.kind
    names = f"{before.pipeline.name}: {stage}", f"{after.pipeline.name}: {stage}"
    return unified_diff(kind, before.ir[stage], after.ir[stage], names)
