"""`mt.from_onnx`: an ONNX model as a program, through torch-mlir's importer and lowering."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np

from mlirtri.errors import ArgumentMismatchError, KernelError, KernelTypeError, ParseError, Span, did_you_mean
from mlirtri.kernels.kernel import Kernel
from mlirtri.lowering.core.tracebacks import hide_frames
from mlirtri.programs.program import Program

try:
    import onnx
except ImportError:
    onnx = None  # type: ignore[assignment]


def from_onnx(model: object, *, values: Mapping[str, object] | None = None) -> Program:
    """Return the program of an `onnx.ModelProto`, its bytes, or a file with its external data beside it.

    Its function is called like the model's graph; its weights (initializers) are `program.params`, by name. Inputs come
    in the order of the graph, several outputs are a tuple. `values` makes constants of inputs, by name: axes, sizes and
    counts that decide shapes have to be known when a function is compiled. A call of the program takes them from its
    arguments, and compiles once for each value. Raises `ParseError` for what ONNX's checker refuses.
    """
    try:
        program = _program(model, values or {})
        # With constants for inputs it is another model.
        program.original = None if values else ("onnx", model)
        return program
    except KernelError as error:
        hide_frames(error)
        raise


def _program(model: Any, values: Mapping[str, Any]) -> Program:
    if onnx is None:
        raise KernelTypeError("from_onnx needs the onnx package", help="pip install 'mlirtri[onnx]'")
    # Needs onnx, which is optional.
    from mlirtri.lowering.importers.from_onnx.graph import symbol_of
    from mlirtri.lowering.importers.from_onnx.known_inputs import structural_inputs, with_values

    loaded, file = _loaded(model)
    _check_names(loaded, file)
    _check(loaded, file)
    _check_dtypes(loaded, file)
    _check_counts(loaded.graph, file)
    inputs = {value.name: value.type.tensor_type for value in loaded.graph.input}
    for name in values:
        if name not in inputs:
            hint = f"{did_you_mean(name, inputs)}its inputs are {', '.join(inputs)}"
            raise KernelTypeError(f"the model has no input {name!r}", help=hint)
    if values:
        dtypes = {name: onnx.helper.tensor_dtype_to_np_dtype(inputs[name].elem_type) for name in values}
        arrays = {name: _elements(name, array, dtypes[name]) for name, array in values.items()}
        loaded = with_values(loaded, arrays)
    unknown = structural_inputs(loaded)
    if unknown:
        return UnknownShapes(loaded, symbol_of(loaded), file, unknown)
    return _compilable(loaded, file)


def _compilable(model: Any, file: str) -> Program:
    from mlirtri.lowering.importers.from_onnx.graph import split_model, symbol_of

    name = symbol_of(model)
    graph, tensors = split_model(model, name, f"<nodes of {file.strip('<>')}>")
    return OnnxProgram("onnx", lambda: graph, (name,), file, tensors, graph=graph)


class OnnxProgram(Program):
    """An ONNX model as a program."""

    def __init__(self, *parts: Any, graph: Any):
        super().__init__(*parts)
        self._graph = graph

    def _kernel(self, *parts: Any) -> Kernel:
        kernel = OnnxKernel(*parts)
        kernel.stored_outputs = self._graph.stored_outputs
        return kernel


class UnknownShapes(Program):
    """An ONNX model with inputs whose elements decide shapes: a program for each of their values."""

    def __init__(self, model: Any, name: str, file: str, unknown: tuple[str, ...]):
        super().__init__("onnx", self._refused, (name,), file)
        self.model = model
        self.unknown = unknown
        """The inputs that decide shapes."""
        self._programs: dict[Any, Program] = {}

    def _refused(self) -> Any:
        names = ", ".join(map(repr, self.unknown))
        raise KernelTypeError(
            f"the elements of input {names} of this model decide shapes, and are not known when it is compiled",
            help="call the program itself, or say them: mt.from_onnx(model, values={name: array})",
        )

    def __call__(self, /, *arguments: Any, **keywords: Any) -> Any:
        """Run on tensors, compiled once for all values of the inputs that decide shapes."""
        names = [value.name for value in self.model.graph.input]
        if len(arguments) > len(names):
            raise ArgumentMismatchError(f"{self.functions[0]}() takes {len(names)} arguments, got {len(arguments)}")
        # ONNX calls its inputs what Python cannot call parameters, so they come by position.
        given = dict(zip(names, arguments, strict=False)) | keywords
        try:
            program = self._specialized(given)
        except KernelError as error:
            hide_frames(error)
            raise
        rest = [argument for name, argument in zip(names, arguments, strict=False) if name not in self.unknown]
        return program(*rest, **{name: value for name, value in keywords.items() if name not in self.unknown})

    def _specialized(self, arguments: Mapping[str, Any]) -> Program:
        from mlirtri.lowering.importers.from_onnx.known_inputs import with_values

        types = {value.name: value.type.tensor_type for value in self.model.graph.input}
        missing = [name for name in self.unknown if name not in arguments]
        if missing:
            raise ArgumentMismatchError(f"{self.functions[0]}() misses the argument {missing[0]!r}")
        arrays = {
            name: _elements(name, arguments[name], onnx.helper.tensor_dtype_to_np_dtype(types[name].elem_type))
            for name in self.unknown
        }
        key = tuple((array.shape, array.tobytes()) for array in arrays.values())
        if key not in self._programs:
            self._programs[key] = _compilable(with_values(self.model, arrays), self.file)
        return self._programs[key]


def _elements(name: str, value: Any, dtype: Any) -> np.ndarray:
    array = np.asarray(value)
    if array.dtype != dtype:
        raise ArgumentMismatchError(f"{name!r} was compiled for {dtype}, got {array.dtype}")
    return array


def _loaded(model: Any) -> tuple[Any, str]:
    if isinstance(model, onnx.ModelProto):
        return model, "<onnx>"
    if not isinstance(model, str | bytes | os.PathLike):
        help = "mt.from_torch takes modules of torch" if hasattr(model, "state_dict") else None
        raise KernelTypeError(
            f"from_onnx takes an onnx.ModelProto, its bytes or a path, not {type(model).__name__}", help=help
        )
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


_MOST = {"axis": 64, "axes": 64, "num_outputs": 1 << 16}
"""The largest magnitude of attributes that torch-mlir counts up to, one by one: past all ranks, and all outputs."""


def _check_counts(graph: Any, file: str) -> None:
    """Refuse axes past all ranks, which ONNX's checker accepts, in this graph and those inside it."""
    for node in graph.node:
        for attribute in node.attribute:
            most = _MOST.get(attribute.name)
            values = [attribute.i, *attribute.ints]
            if most is not None and any(not -most <= value <= most for value in values):
                message = f"{node.op_type} has the {attribute.name} {next(v for v in values if not -most <= v <= most)}"
                raise ParseError(message, Span(file, 1, 1), help=f"it is at most {most}")
            for inner in (attribute.g, *attribute.graphs):
                _check_counts(inner, file)


def _check(model: Any, file: str) -> None:
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError as error:
        raise ParseError(f"ONNX refuses this model: {str(error).strip().splitlines()[0]}", Span(file, 1, 1)) from None


class OnnxKernel(Kernel):
    """A kernel whose function holds `ml_dtypes`' narrow integers as 8-bit ones, and narrow floats as their codes."""

    stored_outputs: Mapping[int, str] = MappingProxyType({})
    """The dtypes of such results, by position."""

    def saved(self, folder: Path) -> dict[str, Any]:
        return {"stored_outputs": [list(pair) for pair in self.stored_outputs.items()]}

    def restore(self, facts: dict[str, Any], folder: Path) -> None:
        self.stored_outputs = {position: name for position, name in facts["stored_outputs"]}

    def _short_call(self) -> Callable[..., Any]:
        call = super()._short_call()
        return lambda *arguments, **keywords: self._narrowed(call(*map(_widened, arguments), **keywords))

    def _general_call(self, /, *arguments: Any, out: Any = None, **keywords: Any) -> Any:
        wide = {name: _widened(value) for name, value in keywords.items()}
        return self._narrowed(super()._general_call(*map(_widened, arguments), out=out, **wide))

    def _narrowed(self, results: Any) -> Any:
        if not self.stored_outputs:
            return results
        if not isinstance(results, tuple):
            return _narrow(results, self.stored_outputs[0])
        dtypes = self.stored_outputs
        return tuple(_narrow(result, dtypes.get(position)) for position, result in enumerate(results))


def _widened(value: Any) -> Any:
    name = getattr(getattr(value, "dtype", None), "name", "")
    if name in ("int4", "uint4", "int2", "uint2"):
        return value.astype(f"{name[:-1]}8")
    return value.view(np.uint8) if name in ("float4_e2m1fn", "float8_e8m0fnu") else value


def _narrow(result: Any, name: str | None) -> Any:
    """Return a result with the dtype that ONNX says, which torch has not."""
    if name is None or not isinstance(result, np.ndarray):
        return result
    dtype = np.dtype(getattr(ml_dtypes, name))
    return result.view(dtype) if name.startswith("float") else result.astype(dtype)
