"""Load an archive of `torch.export.save` (``.pt2``) that holds data alone.

`torch.export.load` unpickles members of an archive, evaluates the sizes in it as Python (through SymPy), writes Python
with its names, calls the functions that it names, and loads shared libraries out of it. So all that is checked before
torch reads it: each member, name, function and size has to be of the form that `torch.export.save` gives it. Operators
are torch's own, and kernels that this process has registered by `mt.torch_op`.
"""

from __future__ import annotations

import ast
import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import torch
from torch.export.pt2_archive._package import load_pt2

from mlirtri.errors import ParseError, Span
from mlirtri.programs.torch_programs.custom_op import OPERATORS

_MEMBER = re.compile(
    r"archive_format|archive_version|byteorder|\.data/[\w./]+|\.format_version|\.storage_alignment|extra/.*"
    r"|models/model\.json|data/weights/(model_weights_config\.json|weight_\d+)|data/sample_inputs/model\.pt"
    r"|data/constants/(model_constants_config\.json|tensor_\d+)"
)
_MODEL, _SAMPLES = "models/model.json", "data/sample_inputs/model.pt"
_CONFIGS = ("data/weights/model_weights_config.json", "data/constants/model_constants_config.json")
_QUALIFIED = re.compile(r"[\w.\-]*")
"""The name of a module or of a weight in it: part of generated Python."""
_SYMBOL = re.compile(r"[a-z]{1,4}\d{1,5}")
_OPERATOR = re.compile(r"torch\.ops\.(aten|prims|higher_order)\.([a-z_][a-zA-Z0-9_]*?)(?:\.(\w+))?")
_KERNEL = re.compile(r"torch\.ops\.([a-zA-Z_]\w*)\.([a-zA-Z_]\w*)\.default")
_SCALARS = re.compile(
    r"_operator\.(eq|ne|le|ge|lt|gt|neg|pos|mul|add|sub|floordiv|mod|pow|truediv|and_|or_|lshift|rshift|getitem)"
    r"|math\.(trunc|floor|ceil)|torch\.(sym_(not|int|float|ite|max|min|sqrt|sum)|_sym_sqrt)"
)
_HIGHER_ORDER = ("cond", "while_loop", "map_impl", "scan", "associative_scan", "wrap_with_set_grad_enabled",
                 "wrap_with_autocast")  # fmt: skip
_WITH_FILES = ("from_file", "set_data", "_print")
"""Operators that reach outside of their tensors."""
_FUNCTIONS = frozenset((
    "FloorDiv", "ModularIndexing", "Where", "PythonMod", "Mod", "CleanDiv", "CeilToInt", "FloorToInt", "CeilDiv",
    "LShift", "RShift", "PowByNatural", "FloatPow", "FloatTrueDiv", "IntTrueDiv", "TruncToFloat", "TruncToInt",
    "IsNonOverlappingAndDenseIndicator", "RoundToInt", "RoundDecimal", "ToFloat", "Identity", "Max", "Min", "Abs",
    "Pow", "Eq", "Ne", "Lt", "Le", "Gt", "Ge", "And", "Or", "Not", "Piecewise", "floor", "ceiling", "Integer", "Float",
))  # fmt: skip
"""What SymPy may call in a size: torch's own functions of sizes, and SymPy's arithmetic."""
_CONSTANTS = frozenset(("oo", "int_oo", "True", "False", "true", "false"))
_POWERS = ("PowByNatural", "FloatPow", "Pow", "LShift")
_LARGEST_EXPONENT = 64
_LONGEST = 100_000
"""Characters of a size's expression."""
_TREE_TYPES = (None, "builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict",
               "collections.namedtuple", "collections.deque")  # fmt: skip


class _Code(Exception):
    """Why an archive is refused, as the end of a sentence that starts with "this archive"."""


def load_archive(source: bytes | Path) -> torch.export.ExportedProgram:
    """Return the program of an archive without running anything of it; raises `ParseError`."""
    where = Span("<stdin>" if isinstance(source, bytes) else str(source), 1, 1)
    try:
        with io.BytesIO(source) if isinstance(source, bytes) else source.open("rb") as file:
            _check(file)
            file.seek(0)
            return load_pt2(file).exported_programs["model"]
    except _Code as reason:
        raise ParseError(
            f"this archive {reason}: torch would run code of it", where,
            help="import the file that registers its kernels; or load it with torch.export.load if you trust it as you "
            "would a program, and give that to from_torch",
        ) from None  # fmt: skip
    except OSError as problem:
        raise ParseError(f"{source} cannot be read: {problem.strerror or problem}", where) from None
    except (Exception, RecursionError) as error:  # whatever torch stumbles over
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ParseError(f"this is not an archive of torch.export.save: {reason[:200]}", where, help=_WRITE) from None


_WRITE = 'write one: torch.export.save(torch.export.export(module, args), "net.pt2")'


def _check(file: IO[bytes]) -> None:
    # The parser that torch itself uses: another one might see other members.
    reader = torch._C.PyTorchFileReader(file)  # type: ignore[arg-type]
    names = reader.get_all_records()
    for name in names:
        if not _MEMBER.fullmatch(name):
            raise _Code(f"has a member {name!r}, which is none of weights, constants and a graph")
    _check_pickle(reader.get_record(_SAMPLES))
    _check_values(json.loads(reader.get_record(_MODEL).decode()))
    for config in _CONFIGS:
        content = json.loads(reader.get_record(config).decode())
        _check_values(content)
        _check_memory(content["config"], config.rpartition("/")[0], reader)


def _check_pickle(data: bytes) -> None:
    try:
        if data:
            torch.load(io.BytesIO(data), weights_only=True)
    except Exception:
        raise _Code("has sample inputs that are more than tensors") from None


def _check_memory(tensors: dict[str, Any], folder: str, reader: Any) -> None:
    """Check that a tensor without a byte in the archive has no elements: torch would allocate them."""
    for name, tensor in tensors.items():
        _check_qualified(name)
        sizes = [size.get("as_int") for size in tensor["tensor_meta"]["sizes"]]
        has_elements = all(isinstance(size, int) and size > 0 for size in sizes)
        if has_elements and not reader.get_record_size(f"{folder}/{tensor['path_name']}"):
            raise ValueError(f"{name!r} has sizes {sizes} and no data")


def _check_values(value: Any) -> None:
    """Check all values of JSON by the key that each is the value of."""
    pending = [("", value)]
    while pending:
        key, value = pending.pop()
        if key in _CHECKS:
            _CHECKS[key](value)
        if isinstance(value, dict):
            pending += [("" if key in _MAPS else inner, element) for inner, element in value.items()]
        elif isinstance(value, list):
            pending += [(key, element) if isinstance(element, str) else ("", element) for element in value]


def _check_name(name: Any) -> None:
    for value in name if isinstance(name, list) else [name]:
        if value not in (None, "") and not (isinstance(value, str) and value.isidentifier()):
            raise _Code(f"calls a value {value!r}, which is not an identifier")


def _check_names(values: Any) -> None:
    for name in values if isinstance(values, dict) else [values]:
        _check_name(name)


def _check_symbols(ranges: Any) -> None:
    for name in ranges:
        if not _SYMBOL.fullmatch(name):
            raise _Code(f"calls a size {name!r}")


def _check_qualified(name: Any) -> None:
    if name is not None and not (isinstance(name, str) and _QUALIFIED.fullmatch(name)):
        raise _Code(f"has a tensor {name!r}")


def _check_path(name: Any) -> None:
    if not (isinstance(name, str) and re.fullmatch(r"(weight|tensor)_\d+", name)):
        raise _Code(f"has an object {name!r} that is not a tensor")


def _check_target(target: Any) -> None:
    if isinstance(target, str) and _SCALARS.fullmatch(target):
        return
    match = _OPERATOR.fullmatch(target) if isinstance(target, str) else None
    if (match is None or not _is_operator(*match.groups())) and not _is_kernel(target):
        raise _Code(f"calls {target!r}, which is not an operator of torch on tensors, nor a kernel of mt.torch_op")


def _is_kernel(target: Any) -> bool:
    """Return whether this names a kernel that `mt.torch_op` has registered in this process."""
    match = _KERNEL.fullmatch(target) if isinstance(target, str) else None
    return match is not None and any(operator.name == "::".join(match.groups()) for operator in OPERATORS.values())


def _is_operator(namespace: str, name: str, overload: str | None) -> bool:
    if namespace == "higher_order":
        return overload is None and name in _HIGHER_ORDER
    if name.startswith("__") or name in _WITH_FILES or overload is None or overload.startswith("__"):
        return False
    operator = getattr(getattr(getattr(torch.ops, namespace), name, None), overload, None)
    return isinstance(operator, torch._ops.OpOverload)


def _refuse(values: Any) -> None:
    if values:
        raise _Code("has objects that are not tensors")


def _check_tree(text: Any) -> None:
    """Check how arguments nest: torch imports the modules that enumerations and defaults are from."""
    if not isinstance(text, str):
        raise _Code(f"nests its arguments by {text!r}")
    for name in _types_of(json.loads(text)):
        if name not in _TREE_TYPES:
            raise _Code(f"has arguments in a {name!r}, which has code of its own")
    if "__enum__" in text:
        raise _Code("has arguments in an enumeration, whose module it names")


def _types_of(value: Any) -> Iterator[Any]:
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            yield value.get("type")
            pending += value.values()
        elif isinstance(value, list):
            pending += value


def _check_expression(text: Any) -> None:
    """Check that SymPy, which evaluates a size as Python, finds arithmetic on symbols."""
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise _Code(f"has the size {str(text)[:40]!r}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise _Code(f"has the size {text[:40]!r}") from None
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if not _is_arithmetic(node):
            raise _Code(f"has the size {text[:40]!r}, which is not arithmetic")
        if not _is_symbol(node):
            pending += _operands(node)


def _is_arithmetic(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, float, bool)
    if isinstance(node, ast.Name):
        return node.id in _CONSTANTS or _SYMBOL.fullmatch(node.id) is not None
    if isinstance(node, ast.Call):
        return _is_symbol(node) or (
            isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS and not node.keywords
            and (node.func.id not in _POWERS or _is_small(node.args[-1:]))
        )  # fmt: skip
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Pow, ast.LShift)):
        return _is_small([node.right])
    return isinstance(node, (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Tuple))


def _is_small(exponents: list[ast.expr]) -> bool:
    """Return whether an exponent is a small number or a symbol: towers of powers take all memory."""
    nodes = [exponent.operand if isinstance(exponent, ast.UnaryOp) else exponent for exponent in exponents]
    return all(
        isinstance(node, ast.Name) or _is_symbol(node)
        or (isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and node.value <= _LARGEST_EXPONENT)
        for node in nodes
    )  # fmt: skip


def _is_symbol(node: ast.AST) -> bool:
    """Return whether this is ``Symbol('s0', integer=True)``, as torch writes a size."""
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Symbol"
        and len(node.args) == 1 and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str)
        and _SYMBOL.fullmatch(node.args[0].value) is not None
        and all(isinstance(keyword.value, ast.Constant) and keyword.arg for keyword in node.keywords)
    )  # fmt: skip


def _operands(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Call):
        yield from node.args
        return
    yield from (child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))


_MAPS = frozenset((
    "tensor_values", "sym_int_values", "sym_bool_values", "sym_float_values", "custom_obj_values", "range_constraints",
    "config", "metadata", "treespec_namedtuple_fields", "opset_version", "as_string_to_argument",
))  # fmt: skip
"""Dictionaries whose keys are names of the program's."""
_CHECKS: dict[str, Callable[[Any], None]] = {
    "name": _check_name, "as_name": _check_name, "forward_arg_names": _check_name, "field_names": _check_name,
    "tensor_values": _check_names, "sym_int_values": _check_names, "sym_bool_values": _check_names,
    "sym_float_values": _check_names, "range_constraints": _check_symbols, "fqn": _check_qualified,
    "parameter_name": _check_qualified, "buffer_name": _check_qualified, "tensor_constant_name": _check_qualified,
    "user_input_name": _check_qualified, "target": _check_target, "as_operator": _check_target,
    "expr_str": _check_expression, "in_spec": _check_tree, "out_spec": _check_tree, "use_pickle": _refuse,
    "path_name": _check_path, "custom_obj_values": _refuse, "as_custom_obj": _refuse, "custom_obj": _refuse,
}  # fmt: skip
"""The check of the values of a key, wherever it stands."""
