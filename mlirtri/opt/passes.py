"""Parse a file, run passes on it and print it, with the diagnostics of MLIR: one run of `mlirtri-opt`."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

from mlirtri.dialect import definition
from mlirtri.dialect.bindings.mlir import ir, load_irdl
from mlirtri.opt.diagnostics import Report, repeats_the_operation, report_of
from mlirtri.opt.options import Options
from mlirtri.opt.pipelines import Plan
from mlirtri.opt.registry import load_all
from mlirtri.opt.running import run, translated

_OF_A_REPRODUCER = "ignoring unknown external resources for 'mlir_reproducer'"
"""What MLIR's parser says of the passes that stand in a reproducer; ``--run-reproducer`` reads them."""


def transform(path: str, plan: Plan, options: Options) -> tuple[str | bytes | None, list[Report]]:
    """Parse the file, run the passes and print; the text is None when a step failed, and the reports say why."""
    context = ir.Context()
    # One thread: passes run Python when they verify operations of tri, and dumps must not mix.
    context.enable_multithreading(False)
    context.allow_unregistered_dialects = options.on("allow-unregistered-dialect")
    context.emit_error_diagnostics = True
    reports: list[Report] = []

    def collect(diagnostic: ir.Diagnostic) -> bool:
        if not diagnostic.message.endswith(_OF_A_REPRODUCER):
            reports.append(_with_notes_of(options, report_of(diagnostic)))
        return True

    handler = context.attach_diagnostic_handler(collect)
    try:
        return _steps(path, plan, options, context, reports), reports
    except OSError:
        raise
    except Exception as error:  # MLIR's, and whatever a verifier written in Python stumbles over
        if not reports or not isinstance(error, ir.MLIRError):
            reports.append(Report("error", f"{type(error).__name__}: {error}", None))
        return None, reports
    finally:
        handler.detach()


def _with_notes_of(options: Options, report: Report) -> Report:
    """Return a report without the notes that the options put off."""
    if options.on("mlir-disable-diagnostic-notes"):
        return replace(report, notes=())
    if options.on("mlir-print-op-on-diagnostic"):
        return report
    return replace(report, notes=tuple(note for note in report.notes if not repeats_the_operation(note)))


def _steps(path: str, plan: Plan, options: Options, context: ir.Context, reports: list[Report]) -> str | bytes:
    _load_dialects(options.values.get("irdl-file"), context)
    module = ir.Module.parseFile(path, context)
    if options.on("verify-roundtrip"):
        _check_roundtrip(module)
    if plan.elements:
        run(module, plan, options, reports)
    if plan.translation is not None:
        return translated(module, plan.translation)
    if options.on("emit-bytecode"):
        return _bytecode(module, path, options.number("emit-bytecode-version"))
    text = module.operation.get_asm(
        enable_debug_info=options.on("mlir-print-debuginfo"),
        pretty_debug_info=options.on("mlir-pretty-debuginfo"),
        print_generic_op_form=options.on("mlir-print-op-generic"),
        use_local_scope=options.on("mlir-print-local-scope"),
        use_name_loc_as_prefix=options.on("mlir-use-nameloc-as-prefix"),
        large_elements_limit=options.number("mlir-elide-elementsattrs-if-larger"),
        large_resource_limit=options.number("mlir-elide-resource-strings-if-larger"),
        assume_verified=options.on("mlir-print-assume-verified"),
        skip_regions=options.on("mlir-print-skip-regions"),
    )
    return text if text.endswith("\n") else f"{text}\n"  # with locations in place MLIR ends with none


def _bytecode(module: ir.Module, path: str, version: int | None) -> bytes:
    """Return the module's bytecode, in which the input goes by ``-``: its locations name a file of ours."""
    text = module.operation.get_asm(enable_debug_info=True, print_generic_op_form=True)
    buffer = io.BytesIO()
    ir.Module.parse(text.replace(path, "-"), module.context).operation.write_bytecode(buffer, version)
    return buffer.getvalue()


def _load_dialects(irdl_file: str | None, context: ir.Context) -> None:
    """Load all dialects, and those of the IRDL file, which may define `tri`: MLIR loads a dialect only once."""
    text = ""
    if irdl_file is not None:
        text = Path(irdl_file).read_text(encoding="utf-8", errors="replace")
        load_irdl(irdl_file, context)
    if not re.search(r"irdl\.dialect @tri\b", text):
        definition.load(context)
    load_all(context)


def _check_roundtrip(module: ir.Module) -> None:
    for generic in (False, True):
        text = module.operation.get_asm(enable_debug_info=True, print_generic_op_form=generic)
        reparsed = ir.Module.parse(text, module.context)
        if reparsed.operation.get_asm(enable_debug_info=True, print_generic_op_form=generic) != text:
            module.operation.location.emit_error("the printed IR does not parse to the same IR again")
