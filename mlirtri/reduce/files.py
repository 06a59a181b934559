"""Reduce a file by the command that tests it."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from mlirtri.errors import KernelValueError, UnknownOptionError
from mlirtri.reduce.search import smallest

_SECONDS_OF_A_TEST = 300


def reduce_file(
    file: Path, test: str, output: Path, seconds: float, say: Callable[[str], None], jobs: int = 1,
    environment: Mapping[str, str] | None = None,
) -> str:  # fmt: skip
    """Write the smallest program found to `output`, as soon as it is found, and return its text.

    `say` gets a line for each smaller program, and one where `seconds` are over before all candidates are tried.
    `test` is a command of the shell, in which ``%s`` is the file, or the last word is missing. It ends with status 0
    for a program that fails as the first one does, which it has to. So many `jobs` of it run at a time, each on a file
    of its own, in `environment`, by default this process's. Raises `KernelValueError` where it does not fail at first.
    """
    text = file.read_text()
    candidates = _candidates_of(file, text)
    with tempfile.TemporaryDirectory(prefix="mlirtri-reduce-") as folder:
        tests = partial(_passes, test, environment=os.environ if environment is None else environment)
        tested = _Tested(tests, Path(folder), file.name)

        def write(program: str) -> None:
            output.write_text(program if program.endswith("\n") else f"{program}\n")

        def take(program: str) -> None:
            tested.taken.add(program)
            write(program)
            say(f"{_lines(program)} lines after {tested.count} tests")

        def stop() -> None:
            left = f"{_lines(output.read_text())} of {_lines(text)} lines"
            say(f"the time ran out after {seconds:g} s and {tested.count} tests: {left} are left; --seconds gives more")

        if not tested.fails(text):
            raise KernelValueError(
                f"the test does not hold for {file}: {test}", help="it has to end with status 0 for what is looked for"
            )
        say(f"{_lines(text)} lines")
        write(text)
        return smallest(text, candidates, tested.fails, seconds, take, stop, jobs)


class _Tested:
    """The programs that were tested, each in a folder of its own."""

    def __init__(self, tests: Callable[[Path], bool], folder: Path, name: str):
        self.tests, self.folder, self.name = tests, folder, name
        self.results: dict[str, bool] = {}
        self.taken: set[str] = set()
        """Programs that were the smallest: candidates lead back to them, as an operand for another."""

    @property
    def count(self) -> int:
        return len(self.results)

    def fails(self, program: str) -> bool:
        """Return whether the test holds for a program that was not taken before."""
        if program in self.taken:
            return False
        if program not in self.results:
            with tempfile.TemporaryDirectory(dir=self.folder) as own:
                candidate = Path(own) / self.name
                candidate.write_text(program)
                self.results[program] = self.tests(candidate)
        return self.results[program]


def _lines(text: str) -> int:
    return sum(bool(line.strip()) for line in text.splitlines())


def _candidates_of(file: Path, text: str) -> Callable[[str], Iterator[str]]:
    if file.suffix == ".py":
        from mlirtri.reduce.python_candidates import candidates

        return candidates
    if file.suffix == ".mlir" or "func.func" in text:
        from mlirtri.reduce.mlir_candidates import candidates  # loads MLIR

        return candidates
    raise UnknownOptionError(f"{file} is neither MLIR nor Python", help="reduce takes .mlir, and .py with TVMScript")


def _passes(test: str, file: Path, environment: Mapping[str, str]) -> bool:
    command = test.replace("%s", shlex.quote(str(file))) if "%s" in test else f"{test} {shlex.quote(str(file))}"
    try:
        run = subprocess.run(
            ["bash", "-c", command], env={**environment, "MLIRTRI_CACHE": "0"}, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=_SECONDS_OF_A_TEST, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False
    return run.returncode == 0
