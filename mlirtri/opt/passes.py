"""The part of `mlirtri-opt` that speaks MLIR: pipelines, one transformation, the list of passes."""

from __future__ import annotations

import mmap
import re
from pathlib import Path

from mlirtri.dialect import definition
from mlirtri.dialect.bindings.mlir import ir, load_irdl, passmanager
from mlirtri.errors import UnknownOptionError
from mlirtri.lowering.toolchain.mlir_passes import in_module, parse_pipeline
from mlirtri.opt.diagnostics import Report, report_of
from mlirtri.opt.options import Options, UsageError


def pipeline_of(options: Options) -> str | None:
    """Return the pipeline that the command line names, or None."""
    pipeline = options.values.get("pass-pipeline")
    if pipeline is None and not options.passes:
        return None
    context = ir.Context()
    try:
        text = (
            pipeline
            if pipeline is not None
            else in_module(",".join(_anchored(pass_, context) for pass_ in options.passes))
        )
        parse_pipeline(text, context)
    except UnknownOptionError as error:
        raise UsageError(str(error)) from None
    return text


def _anchored(pass_: str, context: ir.Context) -> str:
    """Nest a single pass in the operation that it runs on, as mlir-opt does."""
    try:
        parse_pipeline(in_module(pass_), context)
    except UnknownOptionError as error:
        if match := re.search(r"restricted to '([\w.]+)'", str(error)):
            return f"{match[1]}({pass_})"
        if "does not refer to a registered pass" in str(error):
            name = pass_.partition("{")[0]
            raise UsageError(f"--{name} is neither an option nor a pass; see --help and --list-passes") from None
        raise
    return pass_


def transform(path: str, pipeline: str | None, options: Options) -> tuple[str | None, list[Report]]:
    """Parse the file, run the pipeline and print; the text is None when a step failed, and the reports say why."""
    context = ir.Context()
    # One thread: passes run Python when they verify operations of tri, and dumps must not mix.
    context.enable_multithreading(False)
    context.allow_unregistered_dialects = options.on("allow-unregistered-dialect")
    context.emit_error_diagnostics = True
    reports: list[Report] = []

    def collect(diagnostic: ir.Diagnostic) -> bool:
        reports.append(report_of(diagnostic))
        return True

    handler = context.attach_diagnostic_handler(collect)
    try:
        return _steps(path, pipeline, options, context), reports
    except OSError:
        raise
    except Exception as error:  # MLIR's, and whatever a verifier written in Python stumbles over
        if not reports or not isinstance(error, ir.MLIRError):
            reports.append(Report("error", f"{type(error).__name__}: {error}", None))
        return None, reports
    finally:
        handler.detach()


def _steps(path: str, pipeline: str | None, options: Options, context: ir.Context) -> str:
    _load_dialects(options.values.get("irdl-file"), context)
    module = ir.Module.parseFile(path, context)
    if options.on("verify-roundtrip"):
        _check_roundtrip(module)
    if pipeline is not None:
        _manager(pipeline, options, context).run(module.operation)
    limit = options.values.get("mlir-elide-elementsattrs-if-larger")
    return module.operation.get_asm(
        enable_debug_info=options.on("mlir-print-debuginfo"),
        pretty_debug_info=options.on("mlir-pretty-debuginfo"),
        print_generic_op_form=options.on("mlir-print-op-generic"),
        use_local_scope=options.on("mlir-print-local-scope"),
        use_name_loc_as_prefix=options.on("mlir-use-nameloc-as-prefix"),
        large_elements_limit=None if limit is None else int(limit),
    )


def _load_dialects(irdl_file: str | None, context: ir.Context) -> None:
    """Load the dialects of the IRDL file, and `tri` unless that file defines it: MLIR loads a dialect only once."""
    text = ""
    if irdl_file is not None:
        text = Path(irdl_file).read_text(encoding="utf-8", errors="replace")
        load_irdl(irdl_file, context)
    if not re.search(r"irdl\.dialect @tri\b", text):
        definition.load(context)


def _manager(pipeline: str, options: Options, context: ir.Context) -> passmanager.PassManager:
    manager = parse_pipeline(pipeline, context)
    manager.enable_verifier(options.on("verify-each"))
    before, after = options.on("mlir-print-ir-before-all"), options.on("mlir-print-ir-after-all")
    change, failure = options.on("mlir-print-ir-after-change"), options.on("mlir-print-ir-after-failure")
    if before or after or change or failure:
        manager.enable_ir_printing(
            print_before_all=before,
            print_after_all=after or change,
            print_after_change=change,
            print_after_failure=failure,
            print_module_scope=options.on("mlir-print-ir-module-scope"),
            enable_debug_info=options.on("mlir-print-debuginfo"),
            print_generic_op_form=options.on("mlir-print-op-generic"),
        )
    if options.on("mlir-timing"):
        manager.enable_timing()
    if options.on("mlir-pass-statistics"):
        manager.enable_statistics()
    return manager


def _check_roundtrip(module: ir.Module) -> None:
    for generic in (False, True):
        text = module.operation.get_asm(enable_debug_info=True, print_generic_op_form=generic)
        reparsed = ir.Module.parse(text, module.context)
        if reparsed.operation.get_asm(enable_debug_info=True, print_generic_op_form=generic) != text:
            module.operation.location.emit_error("the printed IR does not parse to the same IR again")


def registered_passes() -> list[str]:
    """Return the sorted names of all passes and pipelines in the installed MLIR.

    MLIR has no function that lists them, but every name is a string in its library: each string that could be one is
    tried on the pipeline parser. Linkers store "cse" inside of "…-cse", so every tail of a string counts.
    """
    (library,) = (Path(str(ir.__file__)).parent / "_mlir_libs").glob("*Aggregate*")
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        strings = {match.decode() for match in re.findall(rb"[a-z][a-z0-9_\-]{2,70}(?=\x00)", data)}
    candidates = {text[start:] for text in strings for start in range(len(text) - 2) if text[start].isalpha()}
    context = ir.Context()
    return sorted(name for name in candidates if _is_registered(name, context))


def _is_registered(name: str, context: ir.Context) -> bool:
    try:
        passmanager.PassManager.parse(f"any({name})", context)
    except ValueError as error:
        return "does not refer to a registered pass" not in str(error)
    return True
