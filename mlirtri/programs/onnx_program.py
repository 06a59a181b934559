"""`mt.from_onnx`: an ONNX model as a program, through torch-mlir's importer and lowering."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlirtri.errors import KernelError, KernelTypeError, ParseError, Span
from mlirtri.kernels.kernel import Kernel, hide_frames
from mlirtri.programs.program import Program

try:
    import onnx
except ImportError:
    onnx = None  # type: ignore[assignment]


def from_onnx(model: Any) -> Program:
    """Return the program of an `onnx.ModelProto`, its bytes, or a file with its external data beside it.

    Its function is called like the model's graph; its weights (initializers) are `program.params`, by name. Inputs come
    in the order of the graph, several outputs are a tuple. Raises `ParseError` for what ONNX's checker refuses.
    """
    try:
        return _program(model)
    except KernelError as error:
        hide_frames(error)
        raise


def _program(model: Any) -> Program:
    if onnx is None:
        raise KernelTypeError("from_onnx needs the onnx package", help="pip install 'mlirtri[onnx]'")
    # Needs onnx, which is optional.
    from mlirtri.lowering.importers.from_onnx.graph import split_model, symbol_of

    loaded, file = _loaded(model)
    _check_names(loaded, file)
    _check(loaded, file)
    _check_dtypes(loaded, file)
    name = symbol_of(loaded)
    graph, tensors = split_model(loaded, name, f"<nodes of {file.strip('<>')}>")
    return OnnxProgram("onnx", lambda: graph, (name,), file, tensors)


class OnnxProgram(Program):
    """An ONNX model as a program."""

    def _kernel(self, *parts: Any) -> Kernel:
        return OnnxKernel(*parts)


class OnnxKernel(Kernel):
    """A kernel that widens `ml_dtypes`' 4-bit integers where the function has 8-bit ones."""

    def _short_call(self) -> Callable[..., Any]:
        call = super()._short_call()
        return lambda *arguments, **keywords: call(*map(_widened, arguments), **keywords)

    def _general_call(self, /, *arguments: Any, out: Any = None, **keywords: Any) -> Any:
        wide = {name: _widened(value) for name, value in keywords.items()}
        return super()._general_call(*map(_widened, arguments), out=out, **wide)


def _widened(value: Any) -> Any:
    name = getattr(getattr(value, "dtype", None), "name", "")
    return value.astype(name.replace("4", "8")) if name in ("int4", "uint4") else value


def _loaded(model: Any) -> tuple[Any, str]:
    if isinstance(model, onnx.ModelProto):
        return model, "<onnx>"
    try:
        if isinstance(model, bytes):
            return onnx.load_model_from_string(model), "<onnx>"
        return onnx.load(str(model)), str(model)
    except OSError as problem:
        raise ParseError(f"{model} cannot be read: {problem.strerror or problem}", Span(str(model), 1, 1)) from None
    except Exception as error:  # protobuf's own class of errors is another in each of its implementations
        span = Span("<onnx>" if isinstance(model, bytes) else str(model), 1, 1)
        raise ParseError(f"this is no ONNX model: {error}", span) from None


def _check_names(message: Any, file: str) -> None:
    """Refuse names that are not UTF-8: protobuf returns bytes or raises for them."""
    for field, value in message.ListFields():
        if field.type not in (field.TYPE_STRING, field.TYPE_MESSAGE):
            continue
        for element in [value] if hasattr(value, "ListFields") or isinstance(value, (str, bytes)) else value:
            if isinstance(element, bytes):
                raise ParseError(f"a name in this model is not UTF-8: {element[:40]!r}", Span(file, 1, 1))
            if field.type == field.TYPE_MESSAGE:
                _check_names(element, file)


def _check_dtypes(model: Any, file: str) -> None:
    """Refuse unknown element types, which ONNX's checker accepts."""
    for tensor in model.graph.initializer:
        if tensor.data_type not in onnx.TensorProto.DataType.values():
            message = f"initializer {tensor.name!r} has element type {tensor.data_type}, which ONNX does not have"
            raise ParseError(message, Span(file, 1, 1))


def _check(model: Any, file: str) -> None:
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError as error:
        raise ParseError(f"ONNX refuses this model: {str(error).strip().splitlines()[0]}", Span(file, 1, 1)) from None
