"""Write and refresh the directives of FileCheck in a test file, between markers that this module writes.

    // >>> mlirtri update-checks CHECK
    // CHECK-LABEL: func.func @f(
    …
    // <<< mlirtri update-checks CHECK

The RUN lines are run with a FileCheck that records what it is given. Lines outside of markers are never changed.
"""

from __future__ import annotations

import re
import shlex
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from mlirtri.errors import KernelError, KernelValueError, SourceNotAvailableError
from mlirtri.testing.check_lines import check_lines
from mlirtri.testing.run_lines import LitTest, failed_command, read_test
from mlirtri.testing.tools import failure

_BEGIN = ">>> mlirtri update-checks"
_END = "<<< mlirtri update-checks"
_DIRECTIVE = r"(?<![\w-]){}(?:-(?:NEXT|SAME|NOT|DAG|LABEL|EMPTY|COUNT-\d+))?(?:\{{\w+\}})?:"
_RECORDER = """FileCheck() {
  local argument previous= input=- base={folder}/$(printf %06d $(ls {folder} | wc -l))
  for argument in "$@"; do
    case "$argument" in --input-file=*|-input-file=*) input=${argument#*=};; esac
    case "$previous" in --input-file|-input-file) input=$argument;; esac
    previous=$argument
  done
  mkdir "$base"
  printf '%s\\n' "$@" > "$base/arguments"
  cat "$input" > "$base/text"
}
"""


@dataclass(frozen=True)
class Update:
    """A test file as it is, and as it should be."""

    file: Path
    before: str
    after: str
    left_alone: tuple[str, ...] = ()
    """The prefixes whose directives are written by hand."""
    failures: tuple[str, ...] = ()
    """Reports on commands that fail or do not agree, whose blocks stay as they are."""


@dataclass(frozen=True)
class _Block:
    prefix: str
    lines: tuple[str, ...]
    keep: str | None
    """The regular expression of lines that are kept."""

    def text(self, comment: str) -> str:
        options = f" --filter={shlex.quote(self.keep)}" if self.keep is not None else ""
        lines = [f"{_BEGIN} {self.prefix}{options}", *self.lines, f"{_END} {self.prefix}"]
        return "".join(f"{comment} {line}\n" for line in lines)


def updated(
    file: Path,
    tools: Mapping[str, str],
    environment: Mapping[str, str],
    features: Collection[str],
    keep: str | None = None,
) -> Update:
    """Return what a test file becomes when its generated directives are written anew.

    `keep` is the filter of all blocks; without it each keeps its own. The block of a command that fails, or of commands
    with one prefix that print different texts, stays as it is. Raises `KernelError` where no block can be written, and
    where the result would not pass.
    """
    test = read_test(file)
    if missing := test.missing(features):
        raise KernelValueError(f"{file} does not run here: {', '.join(missing)}", help="update it where it runs")
    before = file.read_text()
    texts, failures = _texts(test.on(features), tools, environment)
    comment = "#" if file.suffix == ".py" else "//"
    blocks, bare = _blocks(before, file), _without_blocks(before)
    by_hand = [prefix for prefix in texts if prefix not in blocks and _has_directives(bare, prefix)]
    after, written = before, []
    for prefix in (prefix for prefix in texts if prefix not in by_hand):
        try:
            kept = keep if keep is not None else blocks.get(prefix)
            block = _Block(prefix, _lines(file, prefix, texts[prefix], kept, (*texts, *blocks)), kept)
        except KernelValueError as error:
            failures.append(str(error))
            continue
        after = _with_block(after, block, comment, prefix in blocks)
        written.append(prefix)
    if failures and not written and not by_hand:
        raise KernelValueError("\n".join(failures))
    # Without a text a block is of no use, unless its command has failed.
    for prefix in [] if failures else blocks.keys() - texts.keys():
        after = _pattern_of(prefix).sub("", after)
    for prefix in written:
        if report := failure(texts[prefix][0], after, prefix, ("--enable-var-scope",)):
            raise KernelValueError(f"{file}: lines with prefix {prefix} outside of the markers do not pass\n{report}")
    return Update(file, before, after, tuple(by_hand), tuple(failures))


def _has_directives(text: str, prefix: str) -> bool:
    return re.search(_DIRECTIVE.format(re.escape(prefix)), text) is not None


def _lines(file: Path, prefix: str, texts: list[str], keep: str | None, prefixes: Collection[str]) -> tuple[str, ...]:
    """Return the directives of all texts that one prefix checks; raises `KernelValueError` for none, or several."""
    variants = {tuple(check_lines(text, prefix, keep, prefixes)) for text in texts}
    if len(variants) > 1:
        raise KernelValueError(
            f"{file}: commands with the prefix {prefix} print different texts",
            help=f"give each a prefix of its own: FileCheck %s --check-prefix={prefix}2",
        )
    if variants == {()}:
        raise KernelValueError(f"{file}: there is nothing to check with prefix {prefix}", help="widen --filter")
    return variants.pop()


def _texts(
    test: LitTest, tools: Mapping[str, str], environment: Mapping[str, str]
) -> tuple[dict[str, list[str]], list[str]]:
    """Return, by prefix, the texts that FileCheck was given, and a report on each command that fails."""
    texts: dict[str, list[str]] = {}
    failures: list[str] = []
    with tempfile.TemporaryDirectory(prefix="mlirtri-record-") as folder:
        # All in one shell, as the test runs; one by one only where that fails.
        calls, report = _calls(test, tools, environment, Path(folder))
        for command in test.commands if report else ():
            single, report = _calls(replace(test, commands=(command,)), tools, environment, Path(folder))
            failures += [report] if report else []
            calls += [] if report else single
    for prefix, text in calls:
        texts.setdefault(prefix, []).append(text)
    if not texts and not failures:
        raise SourceNotAvailableError(f"{test.file}: no command shows its text to FileCheck %s")
    return texts, failures


def _calls(
    test: LitTest, tools: Mapping[str, str], environment: Mapping[str, str], folder: Path
) -> tuple[list[tuple[str, str]], str | None]:
    """Return the prefix and the text of each call of FileCheck that reads the test file; none where a command fails."""
    others = {name: path for name, path in tools.items() if name != "FileCheck"}
    with tempfile.TemporaryDirectory(prefix="mlirtri-calls-") as records:
        recorder = _RECORDER.replace("{folder}", shlex.quote(records))
        if report := failed_command(test, others, environment, recorder, folder):
            return [], report
        calls = []
        for call in sorted(Path(records).iterdir()):
            arguments = (call / "arguments").read_text().split("\n")
            if str(test.file.resolve()) in arguments:
                calls.append((_prefix(arguments, test.file), (call / "text").read_text(errors="replace")))
    return calls, None


def _prefix(arguments: list[str], file: Path) -> str:
    for position, argument in enumerate(arguments):
        name, equals, value = argument.lstrip("-").partition("=")
        if argument.startswith("-") and name in ("check-prefix", "check-prefixes"):
            value = value if equals else arguments[position + 1]
            if "," in value:
                raise KernelValueError(f"{file}: --check-prefixes={value}", help="one prefix for each command")
            return value
    return "CHECK"


def _pattern_of(prefix: str) -> re.Pattern[str]:
    name = re.escape(prefix)
    begin, end = rf"^[^\n]*{_BEGIN} {name}(?: --filter=([^\n]*))?\n", rf"^[^\n]*{_END} {name}\n"
    return re.compile(rf"{begin}.*?{end}", re.MULTILINE | re.DOTALL)


def _blocks(text: str, file: Path) -> dict[str, str | None]:
    """Return the prefix of each block with its filter; raises `KernelError` for a marker without the other."""
    begins = re.findall(rf"^[^\n]*{_BEGIN} (\S+)", text, re.MULTILINE)
    ends = re.findall(rf"^[^\n]*{_END} (\S+)", text, re.MULTILINE)
    if begins != ends or len({*begins}) != len(begins):
        raise KernelError(f"{file}: markers do not match: {_BEGIN}: {begins}, {_END}: {ends}")
    blocks = {}
    for prefix in begins:
        match = _pattern_of(prefix).search(text if text.endswith("\n") else f"{text}\n")
        options = match[1] if match else None
        blocks[prefix] = shlex.split(options)[0] if options else None
    return blocks


def _without_blocks(text: str) -> str:
    return re.sub(rf"^[^\n]*{_BEGIN}.*?{_END}[^\n]*$", "", text, flags=re.MULTILINE | re.DOTALL)


def _with_block(text: str, block: _Block, comment: str, is_there: bool) -> str:
    """Return the text with the block in place of the one of its prefix, or at the end, where it moves no line."""
    text = text if text.endswith("\n") else f"{text}\n"
    if is_there:
        return _pattern_of(block.prefix).sub(lambda _: block.text(comment), text, count=1)
    # Two empty lines after a function, as formatters of Python want them.
    gap = "\n\n" if comment == "#" else "\n"
    return f"{text}{gap}{block.text(comment)}"
