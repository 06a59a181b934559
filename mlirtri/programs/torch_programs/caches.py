"""Key-value caches of `transformers` as arguments and results: keys and values are tensors of the program.

torch.export takes objects of classes that are registered as pytree nodes. A cache is a node of layers; a layer is a
node whose leaves are its tensors, also those of dicts by number (states of linear attention and of Mamba), and whose
plain values (numbers, strings) are in its structure. A program is called with the structure it was traced with: a cache
that is filled where it was empty is another one, and is refused.

A kernel returns the new cache. What a model writes into a cache's own tensors (`StaticCache`), a kernel writes there.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.utils import _pytree as pytree

LIBRARY = "transformers.cache_utils"
CACHES = ("DynamicCache", "StaticCache")
PAIR = "EncoderDecoderCache"
"""The cache of an encoder and decoder: one of each kind of attention, and which layers of the second are filled."""
NEW_LAYER = "layer_class_to_replicate"
"""The attribute of a cache that has the class of layers it does not have yet, or None."""

Structure = dict[str, Any]
"""Of a cache or a layer, or of both caches of a pair; of values that JSON has, for saved programs."""


def register_caches() -> None:
    """Register the caches of `transformers` as pytree nodes, if the library is loaded and has not done so."""
    library = sys.modules.get(LIBRARY)
    if library is None:
        return
    for name in CACHES:
        _register(getattr(library, name, None), _of_cache, _cache)
    _register(getattr(library, PAIR, None), _of_pair, _pair)


def _register(kind: Any, flatten: Any, unflatten: Any) -> None:
    if kind is None or kind in pytree.SUPPORTED_NODES:
        return

    def with_keys(value: Any) -> tuple[list[Any], Structure]:
        leaves, structure = flatten(value)
        return [(pytree.SequenceKey(number), leaf) for number, leaf in enumerate(leaves)], structure

    pytree.register_pytree_node(
        kind,
        flatten,
        unflatten,
        serialized_type_name=f"{kind.__module__}.{kind.__qualname__}",
        flatten_with_keys_fn=with_keys,
    )


def _of_cache(cache: Any) -> tuple[list[Any], Structure]:
    """Return the tensors of all layers, and the structure around them."""
    leaves: list[Any] = []
    layers = []
    for layer in cache.layers:
        tensors = {name: value for name, value in sorted(vars(layer).items()) if isinstance(value, torch.Tensor)}
        tables = {name: value for name, value in sorted(vars(layer).items()) if _is_table(value)}
        leaves += [*tensors.values(), *(each for table in tables.values() for each in table.values() if _is_leaf(each))]
        structure = {"class": type(layer).__name__, "tensors": list(tensors), "values": _plain(layer)}
        layers.append({**structure, "tables": {name: _described(table) for name, table in tables.items()}})
    new_layer = getattr(cache, NEW_LAYER, None)
    values = {name: value for name, value in _plain(cache).items() if name != NEW_LAYER}
    structure = {"class": type(cache).__name__, "layers": layers, "values": values}
    return leaves, {**structure, "new layer": new_layer and new_layer.__name__}


def _plain(value: Any) -> Structure:
    return {name: item for name, item in sorted(vars(value).items()) if isinstance(item, _PLAIN)}


_PLAIN = (bool, int, float, str, type(None))


def _is_leaf(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _is_table(value: Any) -> bool:
    """Return whether a value is a dict by numbers, as linear attention and state-space layers have of their states."""
    return isinstance(value, dict) and all(
        isinstance(key, int) and isinstance(item, (torch.Tensor, *_PLAIN)) for key, item in value.items()
    )


def _described(table: dict[int, Any]) -> list[list[Any]]:
    """Return key, whether a tensor is there, and else the value, of each entry."""
    return [[key, _is_leaf(item), None if _is_leaf(item) else item] for key, item in table.items()]


def _cache(leaves: Any, structure: Structure) -> Any:
    remaining = iter(leaves)
    cache = _object(structure)
    cache.layers = [_layer(remaining, layer) for layer in structure["layers"]]
    setattr(cache, NEW_LAYER, structure["new layer"] and _class(structure["new layer"]))
    return cache


def _layer(leaves: Any, structure: Structure) -> Any:
    layer = _object(structure)
    for name in structure["tensors"]:
        setattr(layer, name, next(leaves))
    for name, entries in structure.get("tables", {}).items():
        setattr(layer, name, {key: next(leaves) if is_leaf else value for key, is_leaf, value in entries})
    states = (getattr(layer, name, None) for name in ("keys", "conv_states"))
    for state in (each.get(0) if isinstance(each, dict) else each for each in states):
        if isinstance(state, torch.Tensor):
            layer.device, layer.dtype = state.device, state.dtype
    return layer


def _count(layer: Structure) -> int:
    """Return the number of tensors of a layer."""
    entries = (entry for table in layer.get("tables", {}).values() for entry in table)
    return len(layer["tensors"]) + sum(is_leaf for _, is_leaf, _ in entries)


def _object(structure: Structure) -> Any:
    kind = _class(structure["class"])
    made = kind.__new__(kind)
    vars(made).update(structure["values"])
    return made


def _class(name: str) -> Any:
    return getattr(sys.modules[LIBRARY], name)


def _of_pair(cache: Any) -> tuple[list[Any], Structure]:
    halves = [_of_cache(half) for half in (cache.self_attention_cache, cache.cross_attention_cache)]
    updated = sorted(layer for layer, is_updated in cache.is_updated.items() if is_updated)
    return [*halves[0][0], *halves[1][0]], {"halves": [half[1] for half in halves], "updated": updated}


def _pair(leaves: Any, structure: Structure) -> Any:
    first, second = structure["halves"]
    count = sum(map(_count, first["layers"]))
    leaves = list(leaves)
    kind = _class(PAIR)
    cache = kind.__new__(kind)
    cache.self_attention_cache = _cache(leaves[:count], first)
    cache.cross_attention_cache = _cache(leaves[count:], second)
    cache.is_updated = {number: number in structure["updated"] for number in range(len(second["layers"]))}
    return cache
