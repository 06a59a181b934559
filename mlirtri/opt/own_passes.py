"""The passes and conversions of mlirtri's own, by the names that `kernel.passes` shows, for `mlirtri-opt`.

Rewrites and conversions take a module and change it. Translations end a pipeline: their result is no MLIR. All run on
the whole module.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any

from mlirtri.errors import did_you_mean
from mlirtri.lowering.pipelines import BUFFERIZED, FUSED, IMPORT_STAGES, LINALG, LLVM_DIALECT, POLY, LazyLowering
from mlirtri.opt.options import UsageError


@dataclass(frozen=True)
class OwnPass:
    """A pass of ours."""

    module: str
    function: str
    """Of `module`; takes a module, and what `options` says."""
    what: str
    options: Mapping[str, Callable[[str], Any]] = field(default_factory=dict)
    """Its options with what parses their values."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    takes_context: bool = False
    """Whether it takes a `CompileContext`, whose target is the option ``target``."""

    def load(self) -> Callable[..., Any]:
        """Import its module and return its function."""
        return getattr(import_module(self.module), self.function)


def _switch(text: str) -> bool:
    values = {"1": True, "true": True, "0": False, "false": False}
    if text not in values:
        raise ValueError(text)
    return values[text]


_FUSED = "mlirtri.lowering.fusion.linalg_to_fused"
_BUFFERIZE = "mlirtri.lowering.mlir_backend.bufferize"
_MEMORY_SPACES = "mlirtri.lowering.mlir_common.memory_spaces"
_NARROW_FLOATS = "mlirtri.lowering.mlir_common.narrow_floats"
_LLVM = "mlirtri.lowering.mlir_backend.llvm"
_LOOPS = "mlirtri.lowering.mlir_backend.loops"
_THREADS: dict[str, Any] = {"options": {"threads": int}, "defaults": {"threads": 1}}
REWRITES = {
    "decompose": OwnPass("mlirtri.lowering.linalg.rewrites", "decompose_all", "composite operations become others"),
    "masks-to-where": OwnPass("mlirtri.lowering.linalg.rewrites", "select_by_masks", "masks are computed densely"),
    "start-transposed-from-zero": OwnPass(_FUSED, "start_from_zero", "as start-products-from-zero"),
    "split-transposed-convolutions": OwnPass(
        "mlirtri.lowering.fusion.transposed_convolutions", "rewrite", "convolutions of dilated images become dense ones"
    ),
    "slice-unit-windows": OwnPass(_FUSED, "slice_unit_windows", "elements that a window never reads are sliced off"),
    "start-products-from-zero": OwnPass(_FUSED, "start_from_zero", "a bias becomes an addition, which fuses"),
    "convolutions-to-channels-last": OwnPass(
        "mlirtri.lowering.fusion.channels_last", "rewrite", "convolutions whose channels are innermost"
    ),
    "guard-producers": OwnPass(
        "mlirtri.lowering.fusion.cost_guard", "guard", "producers that must not fuse get a second use"
    ),
    "release-producers": OwnPass("mlirtri.lowering.fusion.cost_guard", "release", "those second uses go"),
    "copy-cheap-producers": OwnPass(
        "mlirtri.lowering.fusion.cheap_producers", "rewrite", "cheap operations of open sizes are copied to readers"
    ),
    "split-before-slicing": OwnPass(
        "mlirtri.lowering.fusion.slices_of_heads", "rewrite", "columns are split into heads before they are sliced"
    ),
    "external-bodies": OwnPass(
        "mlirtri.lowering.bridge.fused_to_relax", "define_external", "operators of Relax that loops call get bodies",
        {"target": str}, {"target": "cpu"}, takes_context=True,
    ),
    "flatten-batches": OwnPass(
        "mlirtri.lowering.fusion.flatten_batches", "rewrite", "products of a batch with one matrix become one product"
    ),
    "widen-in-products": OwnPass(
        "mlirtri.lowering.fusion.widened_products", "rewrite", "products read 16-bit floats, not widened copies"
    ),
    "merge-products": OwnPass(
        "mlirtri.lowering.fusion.merge_products", "rewrite", "products of one matrix with several weights become one"
    ),
    "hoist-invariants": OwnPass(
        "mlirtri.lowering.fusion.hoist_invariants", "rewrite", "what no iteration of a loop changes is before it"
    ),
    "cancel-reshapes": OwnPass(
        "mlirtri.lowering.fusion.cancel_reshapes", "rewrite", "reshapes of run-time sizes that undo each other go"
    ),
    "spread-reshapes": OwnPass(
        "mlirtri.lowering.fusion.spread_reshapes", "rewrite", "reshapes that are undone after several readers move"
    ),
    "hide-memory-spaces": OwnPass(
        _MEMORY_SPACES, "hide", "attributes of tiles go, which their locations keep"
    ),
    "memory-spaces": OwnPass(_MEMORY_SPACES, "note", "tiles have them again"),
    "drop-unread-results": OwnPass("mlirtri.lowering.bridge.unread_results", "rewrite", "unread results go"),
    "insert-into-latest": OwnPass(f"{_BUFFERIZE}.destinations", "insert_into_latest", "slices go into the latest"),
    "splats-to-fills": OwnPass(f"{_BUFFERIZE}.reuse", "splats_to_fills", "constants of one value become fills"),
    "constant-bodies-to-fills": OwnPass(
        f"{_BUFFERIZE}.reuse", "constant_bodies_to_fills", "bodies that yield a constant become fills"
    ),
    "fill-at-use": OwnPass(f"{_BUFFERIZE}.destinations", "fill_at_use", "fills stand where they are used"),
    "one-empty-per-loop": OwnPass(f"{_BUFFERIZE}.reuse", "one_empty_per_loop", "loops share no empty tensor"),
    "one-fill-per-use": OwnPass(f"{_BUFFERIZE}.reuse", "one_fill_per_use", "each use has a fill of its own"),
    "concat-to-slices": OwnPass(f"{_BUFFERIZE}.reuse", "concat_to_slices", "concatenations become insertions"),
    "elementwise-in-place": OwnPass(
        f"{_BUFFERIZE}.reuse", "elementwise_in_place", "elementwise operations write into a dead operand"
    ),
    "separate-shared-memory": OwnPass(
        f"{_BUFFERIZE}.destinations", "separate_shared", "values that would share memory are copied"
    ),
    "results-to-arguments": OwnPass(
        f"{_BUFFERIZE}.fused_to_bufferized", "results_to_arguments", "results become memrefs after the arguments"
    ),
    "tiles-apart": OwnPass(f"{_BUFFERIZE}.fused_to_bufferized", "tiles_apart", "tiles are allocations of their own"),
    "while-carries-everything": OwnPass(
        f"{_BUFFERIZE}.carried_buffers", "carry_every_value", "scf.while carries every tensor that it reads"
    ),
    "compute-in-destinations": OwnPass(f"{_BUFFERIZE}.destinations", "rewrite", "slices are computed where they go"),
    "one-buffer-per-carried-value": OwnPass(
        f"{_BUFFERIZE}.carried_buffers", "rewrite", "a loop-carried tensor has one buffer"
    ),
    "updates-in-another-shape": OwnPass(
        f"{_BUFFERIZE}.reshaped_updates", "rewrite", "updates of an array in another shape stay in its memory"
    ),
    "strided-copies-to-linalg": OwnPass(
        f"{_BUFFERIZE}.fused_to_bufferized", "strided_copies_to_linalg", "copies of strided views become linalg.copy"
    ),
    "selects-to-branches": OwnPass(f"{_LOOPS}.selected_buffers", "rewrite", "selects of buffers branch"),
    "copies-to-linalg": OwnPass(f"{_LOOPS}.bufferized_to_loops", "copies_to_linalg", "memref.copy becomes linalg.copy"),
    "argmax-in-two-passes": OwnPass(
        f"{_LOOPS}.argmax", "rewrite", "the extremum first, then its position",
        {"only_dynamic": _switch}, {"only_dynamic": False},
    ),
    "order-loops": OwnPass(f"{_LOOPS}.order", "rewrite", "loops are ordered by their strides"),
    "join-reductions": OwnPass(f"{_LOOPS}.joined_reductions", "rewrite", "sums over several open axes have one loop"),
    "structured-to-loops": OwnPass(f"{_LOOPS}.structured", "rewrite", "structured operations become scf loops"),
    "forward-copies": OwnPass(f"{_LOOPS}.copies", "rewrite", "loads from a copy read what was copied"),
    "private-arrays": OwnPass(f"{_LOOPS}.private_arrays", "rewrite", "arrays of one iteration become its own"),
    "open-copies-to-linalg": OwnPass(
        f"{_LLVM}.bufferized_to_llvmdialect_upstream", "open_copies_to_linalg", "copies of open layouts: linalg.copy"
    ),
    "loops-in-chunks": OwnPass(f"{_LOOPS}.reduction_chunks", "rewrite", "loops in chunks for threads", **_THREADS),
    "one-buffer-per-value": OwnPass(
        f"{_LLVM}.single_assignment", "one_buffer_per_value", "buffers that are written anew become several"
    ),
    "prepare-functions": OwnPass(
        f"{_LLVM}.bufferized_to_llvmdialect", "prepare_functions", "kernels get their symbols, arguments noalias"
    ),
    "accumulate-products": OwnPass(
        f"{_LLVM}.accumulated_products", "rewrite", "products that are added to a buffer sum into it"
    ),
    "mark-contractions": OwnPass(f"{_LLVM}.loop_contractions", "mark", "sums of products are marked before loops"),
    "loops-to-contractions": OwnPass(
        f"{_LLVM}.loop_contractions", "raise_marked", "marked loops become contractions of views"
    ),
    "hoist-buffers": OwnPass(f"{_LLVM}.allocations", "hoist", "allocations move out of loops"),
    "products-in-pairs": OwnPass(f"{_LLVM}.pairs", "rewrite", "products of bf16 and int8 in pairs", **_THREADS),
    "tile-contractions": OwnPass(
        f"{_LLVM}.contraction_tiling", "rewrite", "contractions in tiles of registers", **_THREADS
    ),
    "chunks-for-threads": OwnPass(f"{_LLVM}.thread_chunks", "rewrite", "outer loops in chunks for threads", **_THREADS),
    "inline-scopes": OwnPass(f"{_LLVM}.thread_chunks", "inline_scopes", "alloca scopes of parallel regions go"),
    "keep-outer-loops": OwnPass(f"{_LLVM}.kept_loops", "rewrite", "LLVM writes no loop out that contains long ones"),
    "transpose-in-registers": OwnPass(f"{_LLVM}.vector_transposes", "rewrite", "squares are transposed in registers"),
    "sizes-to-arguments": OwnPass(
        f"{_LLVM}.bufferized_to_llvmdialect", "sizes_to_arguments", "sizes known at run time become arguments"
    ),
    "functions-to-arithmetic": OwnPass(f"{_LLVM}.elementary", "rewrite", "exp, log… become vector arithmetic"),
    "narrow-floats": OwnPass(_NARROW_FLOATS, "rewrite", "fp16 and bf16 compute in fp32"),
    "locations-of-calls": OwnPass(f"{_LLVM}.bufferized_to_llvmdialect", "locate_calls", "calls get locations"),
    "narrow-memory": OwnPass(_NARROW_FLOATS, "rewrite_memory", "bf16 in memory is i16"),
    "rounding-to-halves": OwnPass(_NARROW_FLOATS, "define_rounding", "defines fp32 to fp16"),
    "failed-allocations": OwnPass(f"{_LLVM}.allocations", "check", "functions return whether allocations succeeded"),
}  # fmt: skip
"""Changes of one stage, in the order in which the stages have them."""


def _conversion(lowering: Any, what: str) -> OwnPass:
    assert isinstance(lowering, LazyLowering)
    return OwnPass(lowering.module, "lower", what, {"target": str}, {"target": "cpu"}, takes_context=True)


CONVERSIONS = {
    "tri-to-linalg": _conversion(LINALG.run, "tri becomes linalg on tensors: stage linalg"),
    "linalg-to-fused": _conversion(FUSED.run, "fewer, larger operations: stage fused"),
    "fused-to-bufferized": _conversion(BUFFERIZED.run, "tensors become memrefs: stage bufferized"),
    "bufferized-to-loops": OwnPass(
        f"{_LOOPS}.bufferized_to_loops", "lower_to_loops", "structured operations of imperative functions become loops",
        {"target": str, "threads": int}, {"target": "cpu", "threads": 1}, takes_context=True,
    ),
    "bufferized-to-poly": _conversion(POLY.run, "affine nests, fused and tiled: stage poly"),
    "bufferized-to-llvmdialect": _conversion(LLVM_DIALECT.run, "MLIR's LLVM dialect: stage llvmdialect"),
    "import-mlir": _conversion(IMPORT_STAGES["mlir"][0].run, "any linalg becomes the normal form of ours"),
    "chlo-to-stablehlo": _conversion(IMPORT_STAGES["stablehlo"][0].run, "CHLO becomes StableHLO"),
    "import-stablehlo": _conversion(IMPORT_STAGES["stablehlo"][1].run, "StableHLO becomes linalg in normal form"),
    "import-torch": _conversion(IMPORT_STAGES["torch"][1].run, "the torch dialect becomes linalg in normal form"),
    "import-tosa": _conversion(IMPORT_STAGES["tosa"][0].run, "TOSA becomes linalg in normal form"),
}  # fmt: skip
"""Whole stages."""
TRANSLATIONS = {
    "tri-to-relax": ("tri", "relax", "a Relax module, of tri operations as Relax operators"),
    "linalg-to-relax": ("fused", "linalg", "a Relax module, of linalg on tensors as TIR functions"),
}
"""Name to the stage that it starts from, the pipeline, and what it gives: TVMScript."""
OWN = {**REWRITES, **CONVERSIONS}


def own_names() -> list[str]:
    """Return the names of all passes, conversions and translations of ours."""
    return [*OWN, *TRANSLATIONS]


def descriptions() -> dict[str, str]:
    """Return what each pass, conversion and translation of ours does, in a phrase."""
    return {name: own.what for name, own in OWN.items()} | {name: row[2] for name, row in TRANSLATIONS.items()}


def name_of(element: str) -> str:
    """Return the name of a pass without its options."""
    return element.partition("{")[0].strip()


def checked(element: str) -> None:
    """Raise `UsageError` for options that the pass of ours does not have."""
    name = name_of(element)
    options = _options_of(element)
    known = OWN[name].options if name in OWN else {}
    for option, value in options.items():
        if option not in known:
            listed = f"its options are {', '.join(known)}" if known else "it has none"
            raise UsageError(f"--{name} has no option {option!r}: {did_you_mean(option, known)}{listed}")
        try:
            known[option](value)
        except ValueError:
            raise UsageError(f"--{name}={option}={value}: the value does not parse") from None


def _options_of(element: str) -> dict[str, str]:
    match = re.fullmatch(r"[^{]*\{(.*)\}\s*", element, re.DOTALL)
    words = match[1].split() if match else []
    return {word.partition("=")[0]: word.partition("=")[2] for word in words}


def function_of(element: str, context_of: Callable[[str], Any]) -> Callable[[Any], Any]:
    """Return a pass of ours as a function of a module alone; `context_of` makes the context for a target."""
    own = OWN[name_of(element)]
    parsed = {name: own.options[name](value) for name, value in _options_of(element).items()}
    values = {**own.defaults, **parsed}
    if own.takes_context:
        context = context_of(values.pop("target"))
        return lambda module: own.load()(module, context, **values)
    return partial(own.load(), **values)
