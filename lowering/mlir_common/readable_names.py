"""Names of PrimFuncs that a reader recognises: ``matmul``, ``sum``, ``mul_add``, ``transpose``."""

from __future__ import annotations

from mlirtri.dialect.bindings.mlir import ir, linalg
from mlirtri.lowering.mlir_common.reading import used_dimensions

_REDUCTIONS = {
    "addf": "sum", "addi": "sum", "mulf": "prod", "muli": "prod", "maximumf": "max", "maxsi": "max", "maxui": "max",
    "minimumf": "min", "minsi": "min", "minui": "min", "ori": "any", "andi": "all",
}  # fmt: skip
_SHORT = {
    "addf": "add", "addi": "add", "subf": "sub", "subi": "sub", "mulf": "mul", "muli": "mul", "divf": "div",
    "divsi": "div", "negf": "neg", "maximumf": "max", "minimumf": "min", "cmpf": "compare", "cmpi": "compare",
    "andi": "and", "ori": "or", "xori": "xor", "absf": "abs", "powf": "pow", "extract": "gather",
}  # fmt: skip
_SILENT = frozenset({
    "constant", "yield", "index", "extf", "truncf", "extsi", "extui", "trunci", "sitofp", "uitofp", "fptosi", "fptoui",
    "index_cast", "index_castui", "bitcast",
})  # fmt: skip
_WORDS = 4


def name_of_structured(operation: ir.Operation) -> str:
    """Return the name of a named operation; for a generic, one derived from its body."""
    kind = operation.name.removeprefix("linalg.")
    if kind not in ("generic", "map", "elementwise"):
        return f"reduce_{_body_words(operation)[-1]}" if kind == "reduce" and _body_words(operation) else kind
    words = _body_words(operation)
    if "iterator_types" in operation.attributes and "reduction" in str(operation.attributes["iterator_types"]):
        return _reduction_name(operation, words)
    return "_".join(_shortened(words)) if words else _data_movement_name(operation)


def name_of_scalar(operation: ir.Operation) -> str:
    word = str(operation.name).split(".")[-1]
    return _SHORT.get(word, word)


def _body_words(operation: ir.Operation) -> list[str]:
    block = operation.regions[0].blocks[0]
    words = (view.operation.name.split(".")[-1] for view in block.operations)
    return [word for word in words if word not in _SILENT]


def _reduction_name(operation: ir.Operation, words: list[str]) -> str:
    if len(operation.results) > 1 or not words:
        return "reduce"
    if words == ["mulf", "addf"] or words == ["muli", "addi"]:
        return "contract"
    last = _REDUCTIONS.get(words[-1], words[-1])
    return "_".join([*_shortened(words[:-1]), last])


def _shortened(words: list[str]) -> list[str]:
    short = [_SHORT.get(word, word) for word in words]
    return short if len(short) <= _WORDS else [*short[: _WORDS - 1], f"and_{len(short) - _WORDS + 1}_more"]


def _data_movement_name(operation: ir.Operation) -> str:
    maps = [attribute.value for attribute in linalg.get_indexing_maps(operation)]
    block = operation.regions[0].blocks[0]
    converts = next((view.operation for view in block.operations if view.operation.name != "linalg.yield"), None)
    if converts is not None:
        return "cast" if converts.results and len(list(block.operations)) == 2 else "copy"
    if len(maps) < 2:
        return "fill"
    if len(used_dimensions(maps[0])) < maps[0].n_dims:
        return "broadcast"
    return "copy" if maps[0] == maps[-1] else "transpose"
