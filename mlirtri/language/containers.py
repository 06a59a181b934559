"""Arguments that are containers of tensors: tuples, lists, dicts and named tuples of them, nested, and ``*rest``.

Each element is a parameter of its own, named after where it stands: ``p["w"]`` is ``p_w``. The structure, the keys and
the elements that are no tensors and no floats are decided at compile time.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mlirtri.errors import KernelTypeError
from mlirtri.language.arguments import RUN_TIME, constant_of, is_array, is_torch, parameter_of
from mlirtri.language.names import Tensor
from mlirtri.lowering.core.interface import (
    ConstantParameter,
    ContainerParameter,
    Parameter,
    identifier_of,
    parts_of,
    unique_name,
)

VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
"""Kinds of parameters that take the rest of a call's arguments: a tuple, or a dict."""


def is_tensor(value: object) -> bool:
    """Return whether an element is a tensor or an array, real or abstract, or a value of a graph."""
    return is_array(value) or is_torch(value) or isinstance(value, Tensor) or hasattr(type(value), "__mlirtri_value__")


def is_container(value: object) -> bool:
    """Return whether an argument's elements are parameters of their own: a dict, or a tuple or list with tensors."""
    if isinstance(value, dict):
        return True
    return isinstance(value, (tuple, list)) and any(is_tensor(part) or is_container(part) for part in value)


def leaves(values: Sequence[object]) -> Iterator[Any]:
    """Yield the arguments, and in place of containers their elements, in order."""
    for value in values:
        if is_container(value):
            yield from leaves(tuple(parts_of(value)))
        else:
            yield value


def mapped(value: object, change: Callable[[Any], Any]) -> Any:
    """Return an argument with `change` of it, or of each element of a container."""
    if not is_container(value):
        return change(value)
    parts = [mapped(part, change) for part in parts_of(value)]
    if isinstance(value, dict):
        return dict(zip(value, parts, strict=True))
    return type(value)(*parts) if hasattr(value, "_fields") else _class_of(value)(parts)


def run_time_leaves(values: Sequence[object]) -> tuple[Any, ...]:
    """Return what of these arguments exists at run time where no annotation says otherwise: tensors and floats."""
    return tuple(leaf for leaf in leaves(values) if is_tensor(leaf) or type(leaf) in RUN_TIME)


def parameter_tree(name: str, value: Any, annotation: Any, taken: set[str], variadic: bool = False) -> Parameter:
    """Return the parameter for an argument, which may be a container; adds the names of its elements to `taken`.

    The annotation of a `variadic` parameter is that of each element. Raises `KernelTypeError`, which says where.
    """
    if not variadic and not is_container(value):
        return parameter_of(name, value, annotation)
    is_dict = isinstance(value, dict)
    keys = tuple(value) if is_dict else getattr(value, "_fields", range(len(value)))
    parts = []
    for key, part in zip(keys, parts_of(value), strict=True):
        part_name = unique_name(f"{name}_{identifier_of(str(key)).lstrip('_')}", taken)
        taken.add(part_name)
        try:
            parts.append(parameter_tree(part_name, part, annotation if variadic else None, taken))
        except KernelTypeError as error:
            where = f"**{name}" if variadic and is_dict else f"[{key!r}]"
            raise KernelTypeError(f"{where}: {error.message}", help=error.help) from None
    return ContainerParameter(name, _class_of(value), tuple(map(_key, keys)) if is_dict else (), tuple(parts))


def _key(key: Any) -> Any:
    constant = constant_of(key)
    if not isinstance(key, (str, int, float, tuple, type(None))):
        raise KernelTypeError(f"a dict's keys are strings or numbers, not {key!r}")
    return constant


def _class_of(value: Any) -> type:
    return type(value) if hasattr(value, "_fields") else next(k for k in (dict, list, tuple) if isinstance(value, k))


def container_key(value: object, key_of: Callable[[Any], Any]) -> Any:
    """Return the part of a container that a compilation depends on, by the key of each element."""
    keys = tuple([(type(key), key) for key in value]) if isinstance(value, dict) else ()
    return _class_of(value), keys, tuple([key_of(part) for part in parts_of(value)])


def run_time_paths(parameters: Sequence[Parameter]) -> tuple[Any, ...]:
    """Return where in the arguments each run-time parameter is: a position, or a tuple that keys follow."""
    paths: list[Any] = []
    for position, parameter in enumerate(parameters):
        if isinstance(parameter, ContainerParameter):
            paths += [(position, *path) for path in _paths(parameter)]
        elif not isinstance(parameter, ConstantParameter):
            paths.append(position)
    return tuple(paths)


def _paths(parameter: ContainerParameter) -> Iterator[tuple[Any, ...]]:
    keys = parameter.keys if parameter.kind is dict else range(len(parameter.parts))
    for key, part in zip(keys, parameter.parts, strict=True):
        if isinstance(part, ContainerParameter):
            yield from ((key, *path) for path in _paths(part))
        elif not isinstance(part, ConstantParameter):
            yield (key,)


def at(arguments: Sequence[Any], path: Any) -> Any:
    """Return what a path of `run_time_paths` leads to."""
    if isinstance(path, int):
        return arguments[path]
    value: Any = arguments
    for key in path:
        value = value[key]
    return value
