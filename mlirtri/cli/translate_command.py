"""The command `mlirtri translate`: programs from one IR into another."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from mlirtri.cli.options import pipeline_option, target_option, with_folder

LANGUAGES = ("ONNX", "StableHLO", "TOSA", "torch", "Relax")
"""What `translate` takes to MLIR."""


def _directions(command: Any) -> Any:
    for language in reversed(LANGUAGES):
        text = f"{language} to linalg on tensors."
        name = f"{language.lower()}-to-mlir"
        command = _direction(f"--{name}", language.lower(), text)(command)
    return _direction("--mlir-to-relax", "to-relax", "MLIR to a Relax module.")(command)


def _direction(option: str, value: str, text: str) -> Any:
    """Return the decorator that adds an option to those that say the direction; two of them are an error."""

    def add(context: click.Context, parameter: click.Parameter, is_given: bool) -> None:
        if is_given and (other := context.params.get("direction")) is not None:
            first = "--mlir-to-relax" if other == "to-relax" else f"--{other}-to-mlir"
            raise click.UsageError(f"{first} and {option}: one direction at a time")
        context.params["direction"] = value if is_given else context.params.get("direction")

    return click.option(option, is_flag=True, expose_value=False, is_eager=True, callback=add, help=text)


@click.command()
@_directions
@click.option("--complete", is_flag=True, help="With locations and what mlirtri reads back; else bare MLIR.")
@click.option("--inline", is_flag=True, help="Weights as constants, not as arguments.")
@click.option("--bytecode", is_flag=True, help="MLIR's binary form.")
@click.option("--report", is_flag=True, help="Instead, what of it each pipeline translates; status 1 if not all.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write it there, if all goes well.")
@click.option("--json", "as_json", is_flag=True, help="The report, machine-readable.")
@pipeline_option
@target_option
@click.argument("file", metavar="FILE[::FUNCTION]")
def translate(
    direction: str | None, complete: bool, inline: bool, bytecode: bool, report: bool, as_json: bool,
    output: Path | None, pipeline: str | None, target: str | None, file: str,
) -> int:  # fmt: skip
    """Print one IR's program in another IR; the file - is stdin. TVMScript is trusted like a Python program.

    Without a direction, files of ONNX, StableHLO, TOSA, torch.export and TVMScript become MLIR, MLIR becomes Relax.
    With -o FILE.py all become Relax.
    """
    from mlirtri.cli.program_files import report_on_file, to_mlir, to_relax

    if report:
        findings = report_on_file(file, None if direction == "to-relax" else direction, pipeline, target)
        print(findings.to_json() if as_json else findings)
        return int(not findings.is_total)
    _refuse("--report", json=as_json, pipeline=pipeline, target=target)
    direction = direction or _direction_of(file, output)
    if direction == "to-relax":
        _refuse(
            "translations to MLIR: Relax is written as TVMScript", bytecode=bytecode, inline=inline, complete=complete
        )
        translated = to_relax(file)
    else:
        translated = to_mlir(file, direction, not complete, "bytecode" if bytecode else "text", inline)
    data = translated if isinstance(translated, bytes) else f"{translated.rstrip()}\n".encode()
    if output is not None:
        with_folder(output).write_bytes(data)
    else:
        sys.stdout.buffer.write(data)
    return 0


def _refuse(what_for: str, **options: Any) -> None:
    """Raise `UsageError` for an option that is given and would do nothing."""
    for name, value in options.items():
        if value:
            raise click.UsageError(f"--{name} is for {what_for}")


def _direction_of(spec: str, output: Path | None) -> str:
    """Return the direction that the files' suffixes, or the operations in the file, say; raises `UsageError`."""
    from mlirtri.sources.program_files import STDIN, SUFFIXES, language_of

    file = Path(spec.partition("::")[0])
    if file.suffix == ".py":
        return "relax"
    if spec == STDIN or file.suffix not in SUFFIXES:
        directions = ", ".join(f"--{language.lower()}-to-mlir" for language in LANGUAGES)
        raise click.UsageError(f"say from what to what: --mlir-to-relax, {directions}")
    language = SUFFIXES[file.suffix] or language_of(file)
    if language == "mlir" and output is not None and output.suffix in (".mlir", ".mlirbc"):
        raise click.UsageError(f"{spec} is MLIR already: Relax is written as TVMScript, -o {output.with_suffix('.py')}")
    is_python = output is not None and output.suffix == ".py"
    return "to-relax" if language == "mlir" or is_python else language
