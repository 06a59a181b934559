"""The commands for lit tests: `mlirtri init-lit`, `test`, `update-checks` and `reduce`."""

from __future__ import annotations

import difflib
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlirtri.cli.options import with_folder
from mlirtri.errors import KernelError, SourceNotAvailableError, UnknownOptionError

if TYPE_CHECKING:
    from mlirtri.testing.update_checks import Update


@click.command("init-lit")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
def init_lit(folder: Path) -> None:
    """Write a suite of lit tests into DIR: lit.cfg.py, one example per stage, and a workflow for GitHub's CI.

    The workflow is written at the root of the repository that DIR is in.
    """
    from mlirtri.testing.new_suite import repository_of, write_suite

    for file in write_suite(folder):
        print(file)
    if repository_of(folder) is None:
        where = f"{folder / '.github'} to its root, and write the path from there after `lit -v`"
        print(f"{folder} is in no repository: for one around it, move {where}", file=sys.stderr)


_FILES = click.argument("paths", metavar="FILE…", nargs=-1, required=True, type=click.Path(path_type=Path))
_JOBS = click.option(
    "-j",
    "jobs",
    type=click.IntRange(1),
    default=os.cpu_count() or 1,
    help="Tests at the same time.",
    show_default="CPUs",
)


@click.command()
@_FILES
@_JOBS
@click.option("-v", "--verbose", is_flag=True, help="Also why tests were not run.")
def test(paths: tuple[Path, ...], jobs: int, verbose: bool) -> int:
    """Run the RUN lines of test files, or of all in a folder, without lit; what fails shows its command and output.

    A suite's lit.cfg.py is not read: tests have what mlirtri.lit gives them. Exit status 1 where one fails.
    """
    from mlirtri.testing.environment import Machine
    from mlirtri.testing.run_lines import FAILURES, lit_files

    machine = Machine.here()
    files = [file for path in paths for file in lit_files(path)]
    counts: dict[str, int] = {}
    with ThreadPoolExecutor(jobs) as pool:
        for file, outcome in zip(files, pool.map(machine.run_file, files), strict=True):
            counts[outcome.status] = counts.get(outcome.status, 0) + 1
            print(f"{outcome.status}: {file}")
            if outcome.status in FAILURES or (verbose and outcome.output):
                print(outcome.output)
    print(", ".join(f"{count} {status}" for status, count in counts.items()) or "no test was found")
    return int(not files or any(status in counts for status in FAILURES))


@click.command("update-checks")
@_FILES
@_JOBS
@click.option("--check", is_flag=True, help="Write nothing; show what would change, with exit status 1.")
@click.option(
    "--filter", "keep", metavar="REGEX", help="Keep only lines that this finds; it is remembered in the file."
)
def update_checks(paths: tuple[Path, ...], jobs: int, check: bool, keep: str | None) -> int:
    """Write FileCheck's directives from what RUN lines print, or refresh those written before, between markers.

    Functions become labels, SSA names and aliases are captured, paths and line numbers are left open. Directives that
    were written by hand are never changed: a prefix that has some, and no markers, is left alone. What a command that
    fails would write stays as it is; the other commands' directives are written, with exit status 1.
    """
    from mlirtri.testing.environment import Machine
    from mlirtri.testing.run_lines import lit_files

    try:
        re.compile(keep or "")
    except re.error as error:
        raise click.BadParameter(f"{keep!r} is not a regular expression: {error}", param_hint="--filter") from None
    machine = Machine.here()
    files = [file for path in paths for file in lit_files(path)]

    def update(file: Path) -> Update | KernelError:
        try:
            return machine.update(file, keep)
        except KernelError as error:
            return error

    with ThreadPoolExecutor(jobs) as pool:
        results = list(pool.map(update, files))
    errors = [result for result in results if isinstance(result, KernelError)]
    for error in errors:
        print(error, file=sys.stderr)
    updates = [result for result in results if not isinstance(result, KernelError)]
    changed = [_report(item, check) for item in updates]
    failed = bool(errors) or any(item.failures for item in updates)
    return int(failed or (check and any(changed)))


def _report(update: Update, check: bool) -> bool:
    for prefix in update.left_alone:
        print(f"{update.file}: {prefix} is written by hand and left alone", file=sys.stderr)
    for report in update.failures:
        print(report, file=sys.stderr)
    if update.before == update.after:
        return False
    if check:
        before, after = update.before.splitlines(True), update.after.splitlines(True)
        sys.stdout.writelines(difflib.unified_diff(before, after, str(update.file), f"{update.file} (updated)"))
    else:
        update.file.write_text(update.after)
        print(f"{update.file}: updated")
    return True


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--test", "test_command", required=True, metavar="COMMAND", help="Ends with status 0 while %s fails.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="By default FILE with .reduced in its name.")
@click.option("--seconds", type=click.FloatRange(0), default=600.0, show_default=True, help="The time for all tests.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Commands that run at a time.")
def reduce(file: Path, test_command: str, output: Path | None, seconds: float, jobs: int) -> None:
    """Make a failing program smaller: MLIR by its operations, Python and TVMScript by their statements.

    The test is a command of the shell, such as 'mlirtri run %s 2>&1 | grep "Segmentation"'. What is found so far is
    always in the output. Commands of mlirtri are run by `mlirtri serve`, unless MLIRTRI_SERVE is set.
    """
    from mlirtri.reduce.files import reduce_file
    from mlirtri.testing.environment import start_server

    name, _, kernel = str(file).partition("::")
    if kernel:
        raise UnknownOptionError("reduce takes a whole file", help=f"{name}, and --test 'mlirtri run %s::{kernel} …'")
    if not file.is_file():
        raise SourceNotAvailableError(f"there is no file {file}")
    target = with_folder(output or file.with_name(f"{file.stem}.reduced{file.suffix}"))
    environment = {"MLIRTRI_SERVE": "1", **os.environ}
    if "mlirtri" in test_command and environment["MLIRTRI_SERVE"] == "1":
        start_server(environment)
    reduce_file(file, test_command, target, seconds, lambda line: print(line, file=sys.stderr), jobs, environment)
    print(target)


LIT_COMMANDS = (init_lit, test, update_checks, reduce)
