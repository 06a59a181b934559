"""The operation reference, `docs/operations.md`, made from the op table and the registry of spellings.

    python -m mlirtri.pages.operations_page           # print the page
    python -m mlirtri.pages.operations_page --write   # write it into the checkout

Dtypes are those that a row's type rule accepts, Relax operators those that its Relax rule calls on a recorder.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import click

from mlirtri.dialect.base.dtypes import DTYPES, DType
from mlirtri.dialect.base.tensor_type import TensorType
from mlirtri.dialect.ops.op import Op
from mlirtri.dialect.ops.table import TABLE
from mlirtri.dialect.spellings.base.spelling import Spelling, Unsupported
from mlirtri.dialect.spellings.registry import SPELLINGS
from mlirtri.errors import KernelError, SourceNotAvailableError
from mlirtri.lowering.frontend.library_functions import inlined
from mlirtri.lowering.frontend.operators import BINARY, COMPARE, UNARY

PAGE = Path(__file__).parent.parent.parent / "docs" / "operations.md"
SHORT = {"numpy.": "np.", "torch.nn.functional.": "F.", "mlirtri.": "mt."}
"""Prefixes of spellings as the page abbreviates them."""
GROUPS = (
    "elementwise", "reduction", "shape", "contraction", "normalization", "creation", "indexing", "sequence", "window",
)  # fmt: skip
LIBRARIES = {
    "Operators": "Python's",
    "mlirtri": "mlirtri.",
    "numpy": "numpy.",
    "torch": "torch.",
    "math": "math.",
    "cmath": "cmath.",
    "Methods of NumPy arrays": "ndarray.",
    "Methods of torch tensors": "Tensor.",
}
KINDS = {
    "integers": "iu",
    "signed integers": "i",
    "unsigned integers": "u",
    "floats": "fv",
    "complex": "c",
    "bool": "b",
}

_HEAD = """\
<!-- Generated from the op table by `python -m mlirtri.pages.operations_page --write`; a test keeps the two equal. -->

# Operations

What a kernel may call, made from the tables that the compiler itself reads.

- **dtypes** are those that the operation computes in. A call takes more: operands are first cast as NumPy or torch
  would (`np.exp` of an int16 array computes in float32, of int32 in float64), or the call is refused as they refuse
  it. *integers* are int8 to int64 and uint8 to uint64, *floats* are float16, bfloat16, float32 and float64, *complex*
  is complex64 and complex128. fp16 and bf16 are computed in fp32 and rounded after each operation; their sums and
  products are carried in fp32.
- **linalg, mlir**: what the operation is in stage `linalg`. *body*: one `linalg.generic` whose body is the row's
  scalar rule. *structured*: a rule of its own. *of others*: composed of other operations first. All of them become
  PrimFuncs at the bridge (pipeline `linalg`) or loops (pipeline `mlir`).
- **relax**: the operator that the `relax` pipeline uses, with the dtypes for which it computes exactly this. With any
  other dtype the operation goes down to linalg by itself and enters Relax as a PrimFunc.
- **called as**: the library functions that are this operation. `np` is `numpy`, `F` is `torch.nn.functional`, `mt` is
  `mlirtri`; `Tensor` and `ndarray` are methods. Functions made of several operations stand under
  [Library functions](#library-functions) only.
- A *language* operation is none of the `tri` dialect: the frontend writes it with others.
"""

_SPELLINGS_HEAD = """\
## Library functions

Every operator, function and method that a kernel may use, with the operations it is made of. A dash: none, since it
moves or computes nothing at run time. A parameter that is not shown takes the library's default only. Every other
function of Python's `math` folds on numbers that are known at compile time.
"""

_INLINED_HEAD = """\
## Functions written in the kernel language

These are inlined where they are called. They are loops and operations of the tables above.
"""


def page() -> str:
    sections = [_HEAD, *(_group(group) for group in GROUPS), _spellings_section(), _inlined_section()]
    return "\n".join(sections)


def _inlined_section() -> str:
    """Return the names of the inlined functions, those of one module or class or ufunc in a row."""
    owners: dict[str, list[str]] = {}
    for name in sorted(inlined.FUNCTIONS):
        owner, _, function = name.rpartition(".")
        owners.setdefault(owner, []).append(function)
    rows = [
        (f"`{_short(owner + '.').rstrip('.')}`", " ".join(f"`{name}`" for name in names))
        for owner, names in owners.items()
    ]
    return _INLINED_HEAD + "\n" + _table(("of", "functions"), rows).rstrip() + "\n"


def _group(group: str) -> str:
    rows = [_operation(op) for op in TABLE.values() if op.group == group]
    title = f"## {group.capitalize()}"
    return "\n".join([title, "", _table(("operation", "dtypes", "linalg, mlir", "relax", "called as"), rows)])


def _operation(op: Op) -> tuple[str, ...]:
    names = [_short(spelling.name) for spelling in SPELLINGS.values() if spelling.ops[:1] == (op.name,)]
    spelled = ", ".join(f"`{sign}`" for sign in _signs(op.name)) + ", " * bool(_signs(op.name) and names)
    spelled += " ".join(f"`{name}`" for name in names if _is_plain(op, name))
    if op.derived:
        return f"`{op.name}`", "", f"language: {op.summary}", "", spelled
    signature = ", ".join([*(spelling.replace("*", "…") for spelling in op.operands), *op.attributes])
    lowering = "body" if op.scalar else "of others" if op.decompose else "structured"
    accepted = accepted_dtypes(op)
    return f"`{op.name}({signature})`", _dtype_words(accepted), lowering, _relax(op, accepted), spelled


def _is_plain(op: Op, short_name: str) -> bool:
    spelling = next(candidate for candidate in SPELLINGS.values() if _short(candidate.name) == short_name)
    return set(spelling.ops) <= {op.name, "cast"} or spelling.name.rpartition(".")[2] == op.name


def accepted_dtypes(op: Op) -> list[DType]:
    """Return the dtypes that the row's type rule accepts; creation rows take them as an attribute."""
    return [dtype for dtype in DTYPES.values() if _result_type(op, dtype) is not None]


def _result_type(op: Op, dtype: DType) -> TensorType | None:
    try:
        return op.infer(_operand_types(op, dtype), _attributes(op, dtype))
    except KernelError:
        return None


def _operand_types(op: Op, dtype: DType) -> list[TensorType]:
    by_name = {
        "condition": TensorType((2, 2), DTYPES["bool"]), "mask": TensorType((2, 2), DTYPES["bool"]),
        "update": TensorType(_UPDATES.get(op.name, (2, 2)), dtype), "value": TensorType((), dtype),
        "positions*": TensorType((2, 2), DTYPES["int64"]),
    }  # fmt: skip
    vectors = _VECTORS.get(op.name, ())
    by_name |= {name: TensorType((2,), by_name.get(name, TensorType((), dtype)).dtype) for name in vectors}
    if op.name == "add_at":
        by_name["positions"] = TensorType((2,), DTYPES["int64"])
    if op.group == "window":
        return [TensorType((2, 2, 2, 2), dtype) for _ in op.operands]
    operands = [name for name in op.operands if name not in ("parameters*", "indices*")]
    return [by_name.get(name, TensorType((2, 2), dtype)) for name in operands]


_VECTORS = {
    "searchsorted": ("x", "values"), "bins": ("x", "edges"), "add_at": ("x", "values"), "correlate": ("x", "y"),
}  # fmt: skip
_UPDATES = {"insert_slice": (1, 1), "scatter": (2, 2, 2), "place": (4,)}


def _attributes(op: Op, dtype: DType) -> dict[str, Any]:
    by_name = {
        "axes": (0,), "axis": 0, "keepdims": False, "shape": (4,) if "reshape" in op.name else (2, 2),
        "permutation": (1, 0), "offsets": (0, 0), "sizes": (1, 1), "strides": (1, 1), "normalized": 1, "eps": 1e-5,
        "correction": 0, "beta": 1.0, "threshold": 20.0, "dtype": dtype.name, "value": 0, "start": 0, "step": 1,
        "size": 2, "rows": 2, "columns": 2, "diagonal": 0, "drop": (), "kind": "sum",
        "window": (1, 1), "dilations": (1, 1), "spread": (1, 1), "groups": 1,
        "right": False, "low": (0, 0), "high": (0, 0), "values": (0, 0, 0, 0),
    }  # fmt: skip
    return {name: by_name[name] for name in op.attributes}


def _dtype_words(dtypes: list[DType]) -> str:
    if len(dtypes) == len(DTYPES):
        return "all"
    words, remaining = [], list(dtypes)
    for word, kinds in KINDS.items():
        of_word = [dtype for dtype in DTYPES.values() if dtype.kind in kinds]
        if set(of_word) <= set(remaining):
            words.append(word)
            remaining = [dtype for dtype in remaining if dtype not in of_word]
    return ", ".join([*words, *(dtype.name for dtype in remaining)])


class _Recorder:
    """Stands in for `relax.op` and remembers which functions a Relax rule calls."""

    def __init__(self, path: str = "", called: list[str] | None = None):
        self.path = path
        self.called = [] if called is None else called

    def __getattr__(self, name: str) -> _Recorder:
        return _Recorder(f"{self.path}.{name}".lstrip("."), self.called)

    def __call__(self, *arguments: Any, **keywords: Any) -> None:
        self.called.append(self.path)


def relax_operator(op: Op) -> str | None:
    """Return the name of the row's operator under `relax.op`."""
    if op.relax is None or isinstance(op.relax, str):
        return op.relax
    recorder, dtype = _Recorder(), accepted_dtypes(op)[0]
    arguments = [None] * (3 if "parameters*" in op.operands else len(op.operands))
    op.relax(recorder, arguments, _attributes(op, dtype), _result_type(op, dtype))
    return recorder.called[0]


def _relax(op: Op, accepted: list[DType]) -> str:
    operator = relax_operator(op)
    # Functions with complex numbers are compiled as imperative ones, in that pipeline too.
    accepted = [dtype for dtype in accepted if not dtype.is_complex]
    exact = [dtype for dtype in accepted if dtype.letter in op.relax_dtypes]
    if operator is None or not exact:
        return "PrimFunc"
    return f"`{operator}`" if exact == accepted else f"`{operator}`: {_dtype_words(exact)}"


def _spellings_section() -> str:
    parts = [_SPELLINGS_HEAD]
    for title, prefix in LIBRARIES.items():
        rows = _sign_rows() if title == "Operators" else [_spelling(spelling) for spelling in _of_library(prefix)]
        parts += [f"### {title}", "", _table(("written", "operations"), rows)]
    return "\n".join(parts).rstrip() + "\n"


def _of_library(prefix: str) -> list[Spelling]:
    spellings = [
        spelling for spelling in SPELLINGS.values() if spelling.name.startswith(prefix) and not is_folded(spelling)
    ]
    return sorted(spellings, key=lambda spelling: spelling.name)


def is_folded(spelling: Spelling) -> bool:
    return spelling.name.startswith("math.") and not spelling.ops


def _spelling(spelling: Spelling) -> tuple[str, ...]:
    text = spelling.name if spelling.is_attribute else f"{spelling.name}{_shown_signature(spelling)}"
    return f"`{_short(text)}`", ", ".join(spelling.ops) or "–"


def _shown_signature(spelling: Spelling) -> str:
    signature = spelling.signature
    supported = [
        parameter for parameter in signature.parameters.values() if not isinstance(parameter.default, Unsupported)
    ]
    return str(signature.replace(parameters=supported)).replace("|", "\\|")


def _short(name: str) -> str:
    for long, short in SHORT.items():
        if name.startswith(long):
            return short + name.removeprefix(long)
    return name


def _signs(op: str) -> list[str]:
    return [sign for sign, name in _all_signs() if name == op]


def _sign_rows() -> list[tuple[str, ...]]:
    return [(f"`{sign}`", name) for sign, name in _all_signs()]


def _all_signs() -> list[tuple[str, str]]:
    x, y = ast.Name("x"), ast.Name("y")
    binary = [(ast.BinOp(x, sign(), y), name) for sign, (name, _) in BINARY.items()]
    compared = [(ast.Compare(x, [sign()], [y]), name) for sign, (name, _) in COMPARE.items()]
    unary = [(ast.UnaryOp(sign(), x), name) for sign, (name, _) in UNARY.items() if name]
    return [(ast.unparse(node).replace("|", "\\|"), name) for node, name in [*binary, *compared, *unary]]


def _table(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [headings, ("---",) * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


@click.command(help="Print the operation reference as Markdown.")
@click.option("--write", is_flag=True, help="Write it to docs/operations.md of this checkout instead.")
def main(write: bool) -> None:
    publish(page(), PAGE, write)


def publish(text: str, file: Path, write: bool) -> None:
    """Print a generated page, or write it into the checkout; raises `SourceNotAvailableError` where there is none."""
    if not write:
        click.echo(text, nl=False)
        return
    if not file.parent.is_dir():
        raise SourceNotAvailableError("mlirtri is not installed from a checkout", help="use `pip install --editable .`")
    file.write_text(text)


if __name__ == "__main__":
    main()
