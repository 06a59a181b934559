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
from dataclasses import dataclass
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

    `keep` is the filter of all blocks; without it each keeps its own. Raises `KernelError` where a command fails, where
    RUN lines with one prefix print different texts, and where the result would not pass.
    """
    test = read_test(file)
    if missing := test.missing(features):
        raise KernelValueError(f"{file} does not run here: {', '.join(missing)}", help="update it where it runs")
    before = file.read_text()
    texts = _texts(test, tools, environment)
    comment = "#" if file.suffix == ".py" else "//"
    blocks, bare = _blocks(before, file), _without_blocks(before)
    after, left_alone = before, []
    for prefix, printed in texts.items():
        if prefix not in blocks and re.search(_DIRECTIVE.format(re.escape(prefix)), bare):
            left_alone.append(prefix)
            continue
        kept = keep if keep is not None else blocks.get(prefix)
        block = _Block(prefix, _lines(file, prefix, printed, kept), kept)
        if not block.lines:
            raise KernelValueError(f"{file}: there is nothing to check with prefix {prefix}", help="widen --filter")
        after = _with_block(after, block, comment, prefix in blocks)
    for prefix in blocks.keys() - texts.keys():
        after = _pattern_of(prefix).sub("", after)
    for prefix, printed in texts.items():
        if prefix not in left_alone and (report := failure(printed[0], after, prefix, ("--enable-var-scope",))):
            raise KernelValueError(f"{file}: lines with prefix {prefix} outside of the markers do not pass\n{report}")
    return Update(file, before, after, tuple(left_alone))


def _lines(file: Path, prefix: str, texts: list[str], keep: str | None) -> tuple[str, ...]:
    """Return the directives of all texts that one prefix checks; raises `KernelValueError` where they differ."""
    variants = {tuple(check_lines(text, prefix, keep)) for text in texts}
    if len(variants) > 1:
        raise KernelValueError(
            f"{file}: commands with the prefix {prefix} print different texts",
            help=f"give each a prefix of its own: FileCheck %s --check-prefix={prefix}2",
        )
    return variants.pop()


def _texts(test: LitTest, tools: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, list[str]]:
    """Return, by prefix, the texts that FileCheck was given."""
    with tempfile.TemporaryDirectory(prefix="mlirtri-record-") as folder:
        others = {name: path for name, path in tools.items() if name != "FileCheck"}
        recorder = _RECORDER.replace("{folder}", shlex.quote(folder))
        if report := failed_command(test, others, environment, recorder):
            raise KernelValueError(report)
        texts: dict[str, list[str]] = {}
        for call in sorted(Path(folder).iterdir()):
            arguments, text = (call / "arguments").read_text().split("\n"), (call / "text").read_text(errors="replace")
            if str(test.file.resolve()) in arguments:
                texts.setdefault(_prefix(arguments, test.file), []).append(text)
    if not texts:
        raise SourceNotAvailableError(f"{test.file}: no command shows its text to FileCheck %s")
    return texts


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
    # Two empty lines behind a function, as formatters of Python want them.
    gap = "\n\n" if comment == "#" else "\n"
    return f"{text}{gap}{block.text(comment)}"
