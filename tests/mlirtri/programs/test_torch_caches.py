"""Caches of a decoder as arguments and results of a program: those of `transformers`, and classes shaped like them."""

from __future__ import annotations

import sys
import types

import pytest
import torch
from torch.utils import _pytree as pytree

import mlirtri as mt
from mlirtri.errors import ArgumentMismatchError
from mlirtri.programs.torch_programs import caches

LENGTH = 8


class Cache:
    def __init__(self, layers):
        self.layers, self.layer_class_to_replicate = layers, None


class DynamicLayer:
    def __init__(self):
        self.keys = self.values = None
        self.is_initialized = False

    def update(self, key):
        self.keys = key if self.keys is None else torch.cat((self.keys, key), 1)
        self.values, self.is_initialized = self.keys * 2, True


class StaticLayer:
    def __init__(self):
        self.keys, self.values = torch.zeros(1, LENGTH, 4), torch.zeros(1, LENGTH, 4)
        self.length, self.is_initialized, self.device = torch.tensor(0), True, torch.device("cpu")

    def update(self, key):
        where = torch.arange(key.shape[1]) + self.length
        self.length.add_(key.shape[1])
        self.keys.index_copy_(1, where, key)


class StateLayer:
    """As layers of linear attention and state spaces: states by number, which the model writes where they lie."""

    def __init__(self):
        self.conv_states, self.has_previous_state = {0: None, 1: None}, {0: False, 1: False}

    def update(self, key):
        if self.has_previous_state[0]:
            self.conv_states[0].copy_(torch.cat([self.conv_states[0][:, 1:], key], 1))
        else:
            self.conv_states[0], self.has_previous_state[0] = key.expand(1, 3, 4).clone(), True
        self.keys = self.conv_states[0] * 2


@pytest.fixture
def library(monkeypatch):
    """A stand-in for the module of `transformers` that has the caches."""
    module = types.ModuleType(caches.LIBRARY)
    for name in (*caches.CACHES, caches.PAIR):
        setattr(module, name, type(name, (Cache,), {}))
    module.DynamicLayer, module.StaticLayer, module.StateLayer = DynamicLayer, StaticLayer, StateLayer
    monkeypatch.setitem(sys.modules, caches.LIBRARY, module)
    caches.register_caches()
    yield module
    for name in (*caches.CACHES, caches.PAIR):
        pytree._deregister_pytree_node(getattr(module, name))


class Step(torch.nn.Module):
    def forward(self, key, cache):
        cache.layers[0].update(key)
        return cache.layers[0].keys.sum(), cache


def test_a_growing_cache_is_compiled_once_for_all_lengths(library):
    def cache(length):
        made = library.DynamicCache([DynamicLayer()])
        made.layers[0].update(torch.arange(4.0 * length).reshape(1, length, 4))
        return made

    key, length = torch.full((1, 1, 4), 7.0), torch.export.Dim("length", min=2, max=64)
    shapes = {"key": None, "cache": [{1: length}, {1: length}]}
    kernel = mt.from_torch(Step(), (key, cache(3)), dynamic_shapes=shapes).compile()
    for count in (2, 5):
        total, found = kernel(key, cache(count))
        wanted_total, wanted = Step()(key, cache(count))
        assert type(found) is library.DynamicCache
        assert found.layers[0].is_initialized
        assert found.layers[0].dtype == torch.float32
        assert total == wanted_total
        torch.testing.assert_close(found.layers[0].values, wanted.layers[0].values)
    with pytest.raises(
        ArgumentMismatchError,
        match="of the structure ·, DynamicCache, got ·, DynamicCache with other tensors or settings",
    ):
        kernel(key, library.DynamicCache([DynamicLayer()]))


def test_a_static_cache_is_written_where_it_lies(library):
    ours, eager = library.StaticCache([StaticLayer()]), library.StaticCache([StaticLayer()])
    key = torch.ones(1, 1, 4)
    kernel = mt.from_torch(Step(), (key, library.StaticCache([StaticLayer()]))).compile()
    keys = ours.layers[0].keys
    for number in range(1, 4):
        total, _ = kernel(number * key, ours)
        assert total == Step()(number * key, eager)[0]
    assert ours.layers[0].keys is keys
    assert int(ours.layers[0].length) == 3
    torch.testing.assert_close(keys, eager.layers[0].keys)


def test_states_of_layers_by_number(library):
    ours, eager, key = library.DynamicCache([StateLayer()]), library.DynamicCache([StateLayer()]), torch.ones(1, 1, 4)
    first = mt.from_torch(Step(), (key, library.DynamicCache([StateLayer()]))).compile()
    (_, ours), _ = first(key, ours), Step()(key, eager)
    assert ours.layers[0].has_previous_state == {0: True, 1: False}
    step = mt.from_torch(Step(), (key, eager)).compile()
    for number in (2, 3):
        (total, ours), (wanted, eager) = step(number * key, ours), Step()(number * key, eager)
        assert total == wanted
    torch.testing.assert_close(ours.layers[0].conv_states[0], eager.layers[0].conv_states[0])
    assert ours.layers[0].conv_states[1] is None
    _, structure = pytree.tree_flatten(ours)
    assert pytree.treespec_loads(pytree.treespec_dumps(structure)) == structure


def test_a_pair_of_caches_keeps_which_layers_are_filled(library):
    pair = library.EncoderDecoderCache([])
    pair.self_attention_cache = library.StaticCache([StaticLayer()])
    pair.cross_attention_cache = library.DynamicCache([DynamicLayer(), DynamicLayer()])
    pair.cross_attention_cache.layers[0].update(torch.ones(1, 2, 4))
    pair.is_updated = {0: True, 1: False}
    leaves, structure = pytree.tree_flatten(pair)
    assert len(leaves) == 5
    assert pytree.treespec_loads(pytree.treespec_dumps(structure)) == structure
    back = pytree.tree_unflatten(leaves, structure)
    assert back.is_updated == pair.is_updated
    assert back.cross_attention_cache.layers[0].keys is pair.cross_attention_cache.layers[0].keys
    assert back.cross_attention_cache.layers[1].keys is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2", "llama", "t5", "whisper"])
def test_models_of_transformers_generate_what_eager_torch_does(name, monkeypatch):
    pytest.importorskip("transformers")
    monkeypatch.syspath_prepend("examples/generate")
    import cached_models

    model = cached_models.model(name)
    assert cached_models.compiled_tokens(model, 50) == cached_models.eager_tokens(model, 50)
