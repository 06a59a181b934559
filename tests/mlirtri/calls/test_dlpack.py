"""Tensors of other libraries as arguments, by DLPack."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import mlirtri as mt
from mlirtri.errors import ArgumentMismatchError, KernelTypeError


class Foreign:
    """A tensor of a library that is neither torch nor NumPy; like JAX's it has no hash."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@mt.jit
def scaled(x, w, factor=2.0):
    return x * w * factor


@mt.jit
def add_to(a, b):
    a += b


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_arguments_of_other_libraries(pipeline):
    kernel = mt.jit(pipeline=pipeline)(scaled.__mlirtri_function__)
    for number in range(3):
        x, w = np.arange(12, dtype=np.float32).reshape(3, 4) + number, np.ones(4, np.float32) * 3
        for result in (kernel(Foreign(x), Foreign(w)), kernel(Foreign(x), w), kernel(torch.tensor(x), w=Foreign(w))):
            assert isinstance(result, torch.Tensor)
            np.testing.assert_array_equal(result, x * 6)
    # The types of the arguments decide, not the objects.
    assert kernel.compiles == 1
    compiled = kernel.compile(Foreign(x), Foreign(w))
    np.testing.assert_array_equal(compiled(Foreign(x), Foreign(w), 1.0), x * 3)
    assert isinstance(kernel(x, w), np.ndarray)


def test_they_are_read_in_place_and_not_written():
    memory = torch.ones(4)
    out = torch.empty(4)
    scaled(Foreign(memory.numpy()), torch.ones(4), out=out)
    assert out.tolist() == [2, 2, 2, 2]
    add_to(memory, Foreign(np.ones(4, np.float32)))
    assert memory.tolist() == [2, 2, 2, 2]
    with pytest.raises(ArgumentMismatchError, match=r"its library may forbid writes(.|\n)*from_dlpack"):
        add_to(Foreign(np.ones(4, np.float32)), memory)
    with pytest.raises(ArgumentMismatchError, match="shares memory with 'b'"):
        add_to(memory, Foreign(memory.numpy()))
    with pytest.raises(KernelTypeError, match="torch takes no such Foreign by DLPack"):
        scaled(Foreign(np.array(["text"])), memory)
    if not torch.backends.cuda.is_built():
        elsewhere = Foreign(np.ones(4, np.float32))
        elsewhere.__class__ = type("Foreign", (Foreign,), {"__dlpack_device__": lambda _: (2, 0)})
        with pytest.raises(KernelTypeError, match=r"no such Foreign by DLPack: .*CUDA"):
            scaled(elsewhere, memory)
