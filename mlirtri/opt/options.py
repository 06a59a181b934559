"""The command line of `mlirtri-opt`: mlir-opt's options, where every unknown option is the name of a pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


class UsageError(Exception):
    """A command line that makes no sense."""


FLAGS = {
    "help": "print this text",
    "list-passes": "print the names of all passes and pipelines (takes some seconds)",
    "version": "print the versions of mlirtri and of MLIR",
    "allow-unregistered-dialect": "accept operations of dialects that nobody defined",
    "split-input-file": "process the pieces between lines that say // -----, or =TEXT, one by one",
    "verify-diagnostics": "compare diagnostics with // expected-error@+1 {{…}}, or =only-expected",
    "show-dialects": "print the names of all dialects",
    "dump-pass-pipeline": "print the passes, as --pass-pipeline takes them, to stderr",
    "emit-bytecode": "write MLIR's binary form",
    "run-reproducer": "run the passes that a reproducer names",
    "mlir-pass-pipeline-local-reproducer": "reproducers hold the IR before the pass that failed, and that pass",
    "verify-each": "verify the IR after each pass (on unless =0)",
    "verify-roundtrip": "print the IR, parse it again, and check that it is the same",
    "mlir-print-ir-before-all": "print the IR before each pass",
    "mlir-print-ir-after-all": "print the IR after each pass",
    "mlir-print-ir-after-change": "print the IR after each pass that changed it",
    "mlir-print-ir-after-failure": "print the IR after a pass that failed",
    "mlir-print-ir-module-scope": "print the whole module and not only what the pass ran on",
    "mlir-print-debuginfo": "print locations",
    "mlir-pretty-debuginfo": "print locations shortly, with mlir-print-debuginfo",
    "mlir-print-op-generic": "print every operation in the generic form",
    "mlir-print-local-scope": "print without aliases for attributes and locations",
    "mlir-use-nameloc-as-prefix": "name values after their name locations",
    "mlir-print-skip-regions": "print operations without their regions",
    "mlir-print-assume-verified": "print without verifying first",
    "mlir-print-op-on-diagnostic": "notes of diagnostics show the operation (on unless =0)",
    "mlir-disable-diagnostic-notes": "print diagnostics without notes",
    "mlir-timing": "print the time each pass took",
    "mlir-disable-threading": "accepted for compatibility: one thread is all this tool uses",
}

VALUES = {
    "o": "FILE: write the result there (- is stdout)",
    "pass-pipeline": "TEXT: the passes, as in builtin.module(cse,func.func(sroa))",
    "irdl-file": "FILE: define the dialects of this file",
    "output-split-marker": "TEXT: stands between the results of --split-input-file",
    "mlir-print-ir-before": "PASSES: print the IR before these passes",
    "mlir-print-ir-after": "PASSES: print the IR after these passes",
    "mlir-print-ir-tree-dir": "DIR: print the IR into files of this folder, not to stderr",
    "mlir-pass-pipeline-crash-reproducer": "FILE: where a pass fails or crashes, write the IR and the passes there",
    "mlir-elide-elementsattrs-if-larger": "N: shorten constants of more than N elements",
    "mlir-elide-resource-strings-if-larger": "N: shorten resources of more than N characters",
    "emit-bytecode-version": "N: write this version of MLIR's binary form, with --emit-bytecode",
}
NUMBERS = (
    "mlir-elide-elementsattrs-if-larger", "mlir-elide-resource-strings-if-larger", "emit-bytecode-version",
)  # fmt: skip
"""Options whose value is a number."""

CHOICES = {"verify-diagnostics": ("all", "only-expected")}
"""Flags that take one of some values, too."""
_ON = ("verify-each", "mlir-print-op-on-diagnostic")
"""Flags that are on unless they are put off."""
TEXTS = ("split-input-file",)
"""Flags that take a text, too."""
_NO_SWITCH = "MLIR's Python bindings have no switch for it"
_NO_COUNTERS = "MLIR's wheel is built without counters and debug output"
_BY_CHANGE = "--mlir-print-ir-after-change shows what each pass changed, --mlir-timing the time it took"
_ONE_MODULE = "passes run on one module, which stands around what the file has: leave it out"
REFUSED = {
    "mlir-pass-statistics": f"{_NO_COUNTERS}, so there is nothing to print: {_BY_CHANGE}",
    "mlir-pass-statistics-display": f"{_NO_COUNTERS}, so there is nothing to print: {_BY_CHANGE}",
    "mlir-debug-counter": f"{_NO_COUNTERS}: `mlirtri reduce` finds the part of a file that matters",
    "debug-only": f"{_NO_COUNTERS}: {_BY_CHANGE}",
    "mlir-timing-display": f"{_NO_SWITCH}: --mlir-timing prints a tree",
    "mlir-print-value-users": f"{_NO_SWITCH}: --mlir-print-op-generic names every operand",
    "mlir-print-unique-ssa-ids": f"{_NO_SWITCH}: names are unique in each function",
    "mlir-print-elementsattrs-with-hex-if-larger": f"{_NO_SWITCH}: --mlir-elide-elementsattrs-if-larger shortens them",
    "no-implicit-module": _ONE_MODULE,
    "load-dialect-plugin": "dialects come by --irdl-file, since plugins need the C++ library that MLIR's wheel hides",
    "load-pass-plugin": "plugins need the C++ library that MLIR's wheel hides: write the pass in Python, as "
    "docs/extend/stage.md shows",
}
"""Options of mlir-opt that cannot be had, with the reason."""
SPLIT_MARKER = "// -----"


@dataclass
class Options:
    """What the command line asked for."""

    input: str = "-"
    flags: dict[str, bool] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    passes: list[str] = field(default_factory=list)
    """Passes given by themselves, as pipeline text: ``linalg-morph-ops{named-to-category}``."""

    def on(self, flag: str) -> bool:
        return self.flags.get(flag, flag in _ON)

    def number(self, name: str) -> int | None:
        """Return the value of one of `NUMBERS`; None where it is not given."""
        return int(self.values[name]) if name in self.values else None


def parse_arguments(arguments: Sequence[str]) -> Options:
    """Return the options of a command line without the program's name; raises `UsageError`."""
    options, inputs = Options(), []
    remaining = list(arguments)
    while remaining:
        argument = remaining.pop(0)
        if argument == "-" or not argument.startswith("-"):
            inputs.append(argument)
            continue
        name, equals, value = argument.lstrip("-").partition("=")
        if name in REFUSED:
            raise UsageError(f"--{name}: {REFUSED[name]}")
        if name in FLAGS:
            options.flags[name] = _flag(options, name, value) if equals else True
        elif name in VALUES:
            options.values[name] = value if equals else _next(name, remaining)
        else:
            options.passes.append(f"{name}{{{value}}}" if equals else name)
    _check(options, inputs)
    return options


def _flag(options: Options, name: str, value: str) -> bool:
    """Return whether a flag with a value is on, and keep a value that is no switch."""
    if value in CHOICES.get(name, ()) or (name in TEXTS and value.lower() not in ("0", "1", "true", "false")):
        options.values[name] = value
        return True
    return _switch(name, value)


def _switch(name: str, text: str) -> bool:
    if text.lower() in ("1", "true"):
        return True
    if text.lower() in ("0", "false"):
        return False
    choices = ", ".join((*CHOICES.get(name, ()), "0", "1", "true"))
    raise UsageError(f"--{name}={text}: the value is {choices} or false")


def _next(name: str, remaining: list[str]) -> str:
    if not remaining:
        raise UsageError(f"{_dashes(name)}{name} needs a value: {VALUES[name]}")
    return remaining.pop(0)


def _check(options: Options, inputs: list[str]) -> None:
    if len(inputs) > 1:
        raise UsageError(f"one input at a time: {' and '.join(inputs)} were given")
    if inputs:
        options.input = inputs[0]
    if options.on("emit-bytecode") and options.on("split-input-file"):
        raise UsageError("--emit-bytecode writes one module: leave out --split-input-file")
    if options.on("run-reproducer") and (options.passes or "pass-pipeline" in options.values):
        raise UsageError("--run-reproducer has its passes in the file: leave out others")
    if options.passes and "pass-pipeline" in options.values:
        raise UsageError(f"--{options.passes[0]} cannot stand beside --pass-pipeline: put it into the pipeline")
    for name in NUMBERS:
        if not options.values.get(name, "0").isdigit():
            raise UsageError(f"--{name}={options.values[name]}: the value is a number")


def _dashes(name: str) -> str:
    return "-" if len(name) == 1 else "--"


def usage(own_passes: Mapping[str, str]) -> str:
    """Return the text of ``--help``, with our own passes and what they do."""
    rows = {f"{_dashes(name)}{name} {text.partition(':')[0]}": text.partition(": ")[2] for name, text in VALUES.items()}
    rows |= {f"{_dashes(name)}{name}": text for name, text in FLAGS.items()}
    lines = [f"  {option:<42} {text}" for option, text in rows.items()]
    return "\n".join(
        [
            "usage: mlirtri-opt [options] [passes] [FILE]",
            "",
            "Runs passes of MLIR and of mlirtri on FILE (- or nothing: stdin) and prints the result. It knows tri.",
            "A pass is an option: mlirtri-opt --canonicalize --linalg-morph-ops=named-to-category FILE",
            "Exit status: 0 fine, 1 the input or a pass failed, 2 the command line makes no sense.",
            "",
            "options:",
            *lines,
            "",
            "passes of mlirtri (--list-passes names MLIR's too):",
            *(f"  --{name:<40} {what}" for name, what in own_passes.items()),
        ]
    )
