"""The command `mlirtri emit`: the text of stages and passes."""

from __future__ import annotations

import linecache
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from mlirtri.cli.difference_commands import (
    asks_for_differences,
    difference_options,
    pass_differences,
    pipeline_difference,
    print_difference,
    stages_with_passes,
)
from mlirtri.cli.options import (
    Arguments,
    arguments_option,
    by_name,
    file_argument,
    options_of,
    pipeline_option,
    schedule_option,
    start_option,
    target_option,
)
from mlirtri.cli.terminal import show
from mlirtri.errors import UnknownOptionError, did_you_mean

if TYPE_CHECKING:
    from mlirtri.compiler.records import StageRecord
    from mlirtri.kernels.kernel import Kernel
    from mlirtri.kernels.options import Options

COMMENTS = {"python": "#", "tvmscript": "#", "asm": "#", "llvm": ";"}
"""Kind of IR to what starts a comment in it; the others have ``//``."""


@click.command()
@file_argument("FILE[::KERNEL,…]")
@click.option("--stage", "stages", multiple=True, help="A stage to print, or all (the default). Again for more.")
@click.option("--pass", "pass_name", help="The IR after this pass; all for each that changed something.")
@click.option("--kernel", "function", metavar="NAME", help="With --stage=asm: one kernel, with lines of the source.")
@click.option("--complete", is_flag=True, help="The text that loses nothing: with locations and constants.")
@click.option("--explain-fusion", is_flag=True, help="Instead, which operations became one kernel, and why not others.")
@click.option(
    "--tasks", is_flag=True, help="Instead, the parallel loops of a kernel and the serial parts between them."
)
@difference_options
@click.option("--json", "as_json", is_flag=True, help="The explanation, machine-readable.")
@click.option("--timing", is_flag=True, help="Also, on stderr, the stages and passes by the time that they took.")
@start_option
@arguments_option
@pipeline_option
@target_option
@schedule_option
def emit(
    file: str, stages: tuple[str, ...], pass_name: str | None, function: str | None, complete: bool,
    explain_fusion: bool, tasks: bool, as_json: bool, timing: bool, start: str | None, arguments: Arguments,
    pipeline: str | None, target: str | None, schedule: str | None, **difference: object,
) -> None:  # fmt: skip
    """Print the IR of a kernel, stage by stage; of several, as FILE::a,b or FILE::*, one after the other.

    FILE.py is imported; the kernel's name may be left out when it has only one. Parameters annotated with a whole
    Tensor need no --arg. FILE may be a program of MLIR, StableHLO or TOSA (.mlir, .mlirbc, .stablehlo, .tosa, or - for
    stdin), ONNX (.onnx) or torch.export (.pt2); --arg then says sizes that its types leave open.
    """
    if asks_for_differences(difference):
        _print_differences(file, stages, start, by_name(arguments), options_of(pipeline, target, schedule), difference)
        return
    from mlirtri.cli.kernel_files import compile_program
    from mlirtri.cli.reports import timing_table
    from mlirtri.sources.python_files import each_kernel

    named = [name for text in stages for name in text.split(",") if name and name != "all"]
    _check_combination(named, stages, pass_name, function, complete, explain_fusion, tasks, as_json)
    everything = not named or any("all" in text.split(",") for text in stages)
    options, texts = options_of(pipeline, target, schedule), []
    specs = [file] if start else each_kernel(file)
    for spec, own in zip(specs, _arguments_of_each(specs, by_name(arguments)), strict=True):
        if explain_fusion:
            _explain(compile_program(spec, start, own, options), as_json)
            continue
        if tasks:
            print(compile_program(spec, start, own, options).tasks)
            continue
        kernel = compile_program(spec, start, own, options, None if everything else named)
        if function:
            print(_listing(kernel, function))
            continue
        if timing:
            show(timing_table(kernel.observed), stderr=True)
        names = list(kernel.ir) if everything else [kernel.pipeline.find(name).name for name in named]
        texts += _pass_texts(kernel, names, pass_name) if pass_name else _stage_texts(kernel, names, complete)
    _print_texts(texts)


def _print_texts(texts: list[tuple[str, str]]) -> None:
    """Print texts, each below its banner if there are several."""
    for banner, text in texts:
        if len(texts) > 1:
            print(banner)
        print(text.rstrip("\n"))


def _arguments_of_each(specs: list[str], arguments: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the arguments of each kernel; of one kernel or program all, which its compilation checks."""
    if len(specs) == 1:
        return [arguments]
    from mlirtri.sources.python_files import arguments_of_each, load_graph, load_kernel

    return arguments_of_each([load_graph(spec) or load_kernel(spec) for spec in specs], arguments)


def _check_combination(
    named: list[str], stages: tuple[str, ...], pass_name: str | None, function: str | None, complete: bool,
    explain_fusion: bool, tasks: bool, as_json: bool,
) -> None:  # fmt: skip
    """Raise `UsageError` for options that do not go together."""
    if as_json and not explain_fusion:
        raise click.UsageError("--json is for --explain-fusion; IR is text")
    if (explain_fusion or tasks) and (stages or pass_name or complete):
        report = "--explain-fusion" if explain_fusion else "--tasks"
        raise click.UsageError(f"{report} prints no stage: leave out --stage, --pass and --complete")
    if function and named != ["asm"]:
        raise click.UsageError("--kernel is for --stage=asm")


def _print_differences(
    file: str, stages: tuple[str, ...], start: str | None, arguments: dict[str, Any], options: Options,
    asked: dict[str, Any],
) -> None:  # fmt: skip
    from mlirtri.cli.kernel_files import compile_program

    named = [name for text in stages for name in text.split(",") if name and name != "all"]
    if asked["pipelines"] is None:
        kernel = compile_program(file, start, arguments, options, named or None)
        chosen = [kernel.pipeline.find(name).name for name in named]
        chosen = chosen or stages_with_passes(kernel, asked["from_pass"], asked["to_pass"])
        text = pass_differences(kernel, chosen, asked["from_pass"], asked["to_pass"])
    else:
        names = asked["pipelines"].split(",")
        if len(names) != 2 or len(named) != 1:
            raise click.UsageError("--pipelines takes two with a comma between them, and one --stage of both")
        kernels = [compile_program(file, start, arguments, replace(options, pipeline=name), named) for name in names]
        text = pipeline_difference(kernels, named[0])
    print_difference(text or "nothing differs but names")


def _listing(kernel: Kernel, name: str) -> str:
    from mlirtri.trace.listing import listing

    records = kernel.compilation.records
    scheduled = records["scheduled"].complete() if "scheduled" in records else ""
    return listing(records["asm"].complete(), name, linecache.getline, scheduled)


def _explain(kernel: Kernel, as_json: bool) -> None:
    if as_json:
        print(kernel.fusion.to_json())
    else:
        show(kernel.fusion)


def _stage_texts(kernel: Kernel, names: list[str], complete: bool) -> list[tuple[str, str]]:
    records = [kernel.compilation.records[name] for name in names]
    return [(_banner(kernel, record), record.complete() if complete else record.readable()) for record in records]


def _pass_texts(kernel: Kernel, names: list[str], pass_name: str) -> list[tuple[str, str]]:
    texts = [
        (_banner(kernel, kernel.compilation.records[stage], f": {name}"), text)
        for stage in names
        for name, text in kernel.passes[stage].items()
        if name == pass_name or (pass_name == "all" and name in kernel.passes[stage].changed)
    ]
    if not texts and pass_name != "all":
        ran = [name for stage in names for name in kernel.passes[stage]]
        help = f"{did_you_mean(pass_name, ran)}the passes were {', '.join(ran) or 'none'}"
        raise UnknownOptionError(f"no pass {pass_name!r} ran", help=help)
    return texts


def _banner(kernel: Kernel, record: StageRecord, suffix: str = "") -> str:
    return f"{COMMENTS.get(record.stage.kind, '//')} ===== {kernel.name}: {record.stage.name}{suffix} ====="
