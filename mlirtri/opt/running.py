"""Run passes of upstream and of ours on a module, with mlir-opt's dumps, timings and reproducers."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from mlirtri.dialect.bindings.mlir import ir, operations_named, passmanager, public_functions
from mlirtri.errors import KernelError
from mlirtri.lowering.core.stage import CompileContext
from mlirtri.lowering.core.target import as_target
from mlirtri.lowering.mlir_common.constants import resource_constant, resource_key
from mlirtri.lowering.toolchain.mlir_passes import in_module, parse_pipeline, without_folders
from mlirtri.opt.diagnostics import Report
from mlirtri.opt.options import Options
from mlirtri.opt.own_passes import OWN, TRANSLATIONS, function_of, name_of
from mlirtri.opt.pipelines import Plan, leaves, pass_name

PIECE = "piece.mlir"
"""What the input is called while it is read."""


def run(module: ir.Module, plan: Plan, options: Options, reports: list[Report]) -> None:
    """Run the passes of a plan in place; raises `MLIRError` where one fails, after its report."""
    reproducer = options.values.get("mlir-pass-pipeline-crash-reproducer")
    is_local = options.on("mlir-pass-pipeline-local-reproducer")
    # Dumps of named passes and local reproducers need a manager per pass; timings want one for all.
    one_by_one = bool(plan.dumped_before or plan.dumped_after) or is_local
    elements = [leaf for element in plan.elements for leaf in leaves(element)] if one_by_one else list(plan.elements)
    groups = [[element] for element in elements] if one_by_one else [elements]
    managers = [_manager(group, module.context, reports) for group in groups]
    if options.on("dump-pass-pipeline"):
        whole = _manager(list(plan.elements), module.context, reports)
        print(f"Pass Manager with {len(plan.elements)} passes:\n{whole}\n", file=sys.stderr)
    if reproducer is not None:
        _write_reproducer(Path(reproducer), module, plan.text, options)
    for group, manager in zip(groups, managers, strict=True):
        names = {pass_name(element) for element in group}
        _configure(manager, options, bool(names & plan.dumped_before), bool(names & plan.dumped_after))
        if reproducer is not None and is_local:
            _write_reproducer(Path(reproducer), module, in_module(",".join(group)), options)
        manager.run(module.operation)
    if reproducer is not None:
        Path(reproducer).unlink()


def _manager(elements: Sequence[str], context: ir.Context, reports: list[Report]) -> passmanager.PassManager:
    if not any(name_of(element) in OWN for element in elements):
        return parse_pipeline(in_module(",".join(elements)), context)
    manager = parse_pipeline("builtin.module()", context)
    for element in elements:
        name = name_of(element)
        if name in OWN:
            manager.add(_as_pass(element, reports), name=_class_name(name), argument=name)
        else:
            manager.add(element)
    return manager


def _class_name(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("-"))


def _as_pass(element: str, reports: list[Report]) -> Callable[[ir.Operation, Any], None]:
    """Return what MLIR calls for a pass of ours; an error of it is a report and a failure of the pass."""

    def run_pass(operation: ir.Operation, external: Any) -> None:
        module = operation.opview
        try:
            with operation.context, ir.Location.unknown():
                result = function_of(element, lambda target: _context_of(module, target))(module)
        except KernelError as error:
            reports.append(_report(error))
            external.signal_pass_failure()
            return
        if result is not None and result.operation != operation:
            _replace(module, result)

    return run_pass


def _context_of(module: Any, target: str) -> CompileContext:
    functions = public_functions(module)
    name = functions[0].name.value if functions else "main"
    return CompileContext(name, as_target(target), keep_passes=False, params=_resources_of(module))


def _resources_of(module: Any) -> dict[str, Any]:
    """Return the data of the module's ``dense_resource`` constants by key, which importers make parameters of."""
    types = {}
    for constant in operations_named(module, "arith.constant"):
        with suppress(TypeError):  # complex elements: the bindings have no class for the attribute
            types[resource_key(constant.attributes["value"])] = constant.results[0].type
    types.pop(None, None)
    if not types:
        return {}
    from mlirtri.programs.mlir_sources import split_resources  # after the passes of modules without data

    _, data = split_resources(module.operation.get_asm().encode())
    return {key: resource_constant(data[key], kind, key) for key, kind in types.items() if key in data}


def _report(error: KernelError) -> Report:
    notes = [Report("note", note.message, note.span) for note in error.notes]
    if error.help:
        notes.append(Report("note", f"help: {error.help}", error.span))
    return Report("error", error.message, error.span, tuple(notes))


def _replace(module: Any, result: Any) -> None:
    """Give the module the operations and attributes of another one, which may be of another context."""
    text = result.operation.get_asm(enable_debug_info=True, print_generic_op_form=True)
    parsed = ir.Module.parse(text, module.context)
    for operation in reversed(list(module.body.operations)):
        operation.operation.erase()
    for operation in list(parsed.body.operations):
        module.body.append(operation)
    for attribute in list(parsed.operation.attributes):
        name = attribute if isinstance(attribute, str) else attribute.name
        module.operation.attributes[name] = parsed.operation.attributes[name]


def _configure(manager: passmanager.PassManager, options: Options, before: bool, after: bool) -> None:
    manager.enable_verifier(options.on("verify-each"))
    before, after = before or options.on("mlir-print-ir-before-all"), after or options.on("mlir-print-ir-after-all")
    change, failure = options.on("mlir-print-ir-after-change"), options.on("mlir-print-ir-after-failure")
    tree = options.values.get("mlir-print-ir-tree-dir")
    if before or after or change or failure:
        manager.enable_ir_printing(
            print_before_all=before,
            print_after_all=after or change,
            print_after_change=change,
            print_after_failure=failure,
            print_module_scope=options.on("mlir-print-ir-module-scope"),
            enable_debug_info=options.on("mlir-print-debuginfo"),
            print_generic_op_form=options.on("mlir-print-op-generic"),
            large_elements_limit=options.number("mlir-elide-elementsattrs-if-larger"),
            large_resource_limit=options.number("mlir-elide-resource-strings-if-larger"),
            **({"tree_printing_dir_path": tree} if tree else {}),
        )
    if options.on("mlir-timing"):
        manager.enable_timing()


def translated(module: ir.Module, name: str) -> str:
    """Return the TVMScript of a module that holds the IR of a stage."""
    from mlirtri.kernels.options import Options as KernelOptions  # loads TVM with what follows
    from mlirtri.kernels.session import resume
    from mlirtri.lowering.pipelines import Pipeline

    stage, pipeline, _ = TRANSLATIONS[name]
    text = module.operation.get_asm(enable_debug_info=True)
    kernel = resume("<mlirtri-opt>", stage, KernelOptions(pipeline=Pipeline.named(pipeline).until("relax")), text)
    return f"{kernel.ir['relax'].rstrip()}\n"


def _write_reproducer(file: Path, module: ir.Module, pipeline: str, options: Options) -> None:
    """Write IR and passes as ``--run-reproducer`` takes them; before they run, since one may end the process."""
    name = "<stdin>" if options.input == "-" else Path(options.input).name
    text = without_folders(module.operation.get_asm(enable_debug_info=True)).replace(
        f'"{PIECE}":', f"{json.dumps(name)}:"
    )
    text = f"// mlirtri-opt --run-reproducer {shlex.quote(file.name)}\n{text.rstrip()}"
    verify = "true" if options.on("verify-each") else "false"
    resource = (
        f"  external_resources: {{\n    mlir_reproducer: {{\n      pipeline: {json.dumps(pipeline)},\n"
        f"      disable_threading: true,\n      verify_each: {verify}\n    }}\n  }}\n"
    )
    if text.endswith("#-}"):
        text = f"{text.removesuffix('#-}').rstrip()},\n{resource}#-}}\n"
    else:
        text = f"{text}\n\n{{-#\n{resource}#-}}\n"
    file.write_text(text)


def reproducer_pipeline(text: str) -> str | None:
    """Return the passes of a reproducer's text, or None for a text that is none."""
    match = re.search(r'mlir_reproducer: \{\s*pipeline: ("(?:[^"\\]|\\.)*")', text)
    return json.loads(match[1]) if match else None
