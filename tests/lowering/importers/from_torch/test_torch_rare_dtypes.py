"""uint16, uint64 and complex32 tensors in torch modules, which torch-mlir's importer or NumPy lack."""

from __future__ import annotations

import pytest
import torch

import mlirtri as mt

U16, U64 = torch.uint16, torch.uint64
FLOATS = torch.tensor([0.0, 1.5, 65535.0, 300.7, 40000.0])
INTEGERS = torch.tensor([0, 1, -1, 65535, 70000, 2**40 + 5])
SHORT = torch.tensor([0, 1, 65535, 40000], dtype=U16)
LONG = torch.tensor([0, 1, 2**64 - 1, 2**63 + 5, 2**53 + 1], dtype=U64)
LARGE = torch.tensor([0.0, 2.0**63, 1.5 * 2.0**63, 2.0**53 + 2, 7.9], dtype=torch.float64)


def _unsigned(x, i, s, u, d):
    casts = (x.to(U16), i.to(U16), i.to(U64), d.to(U64), (i > 0).to(U64), s.to(U64), u.to(U16))
    back = (s.float(), s.long(), s.to(torch.int8), u.float(), u.double(), u.long(), u.bool(), s.half())
    made = (torch.zeros(3, dtype=U16), torch.full_like(u, 2**63 + 1), torch.ones_like(s), i.view(U64))
    computed = (s.sin(), u.sin(), s + 1.5, s * 3, u.sum(), s == 1, torch.cat([u, u])[2:])
    return casts, back, made, computed


@pytest.mark.parametrize("pipeline", ["linalg", "mlir"])
def test_uint16_and_uint64_are_eagers(pipeline):
    arguments = (FLOATS, INTEGERS, SHORT, LONG, LARGE)
    results = mt.from_torch(_unsigned, arguments).compile(pipeline=pipeline)(*arguments)
    torch.testing.assert_close(results, _unsigned(*arguments))


def _half_complex(x, y, h):
    parts = torch.view_as_real(y) * 2
    made = torch.zeros(2, dtype=torch.complex32), torch.complex(h, h) * x
    x.add_(y)
    return (
        x * y + y,
        x.abs(),
        torch.view_as_complex(parts),
        y,
        x.to(torch.complex64),
        x == y,
        made,
        x.real,
        y.conj() * x,
    )


def _complex32(*shape):
    return torch.view_as_complex(torch.randn(*shape, 2, generator=torch.Generator().manual_seed(5)).half())


def test_complex32_is_eagers_in_results_and_writes(tmp_path):
    x, y, h = _complex32(4, 3), _complex32(4, 3) * 2, torch.ones(4, 3, dtype=torch.half)
    written = x.clone()
    wanted = _half_complex(written, y, h)
    kernel = mt.from_torch(_half_complex, (x, y, h)).compile()
    ours = x.clone()
    torch.testing.assert_close(kernel(ours, y, h), wanted)
    torch.testing.assert_close(ours, written)
    kernel.save(tmp_path / "kernel")
    loaded = mt.load(tmp_path / "kernel")
    torch.testing.assert_close(loaded(x.clone(), y, h), wanted)


def test_complex32_numbers_are_rounded_after_each_operator():
    x = torch.full((2,), complex(60000, 0), dtype=torch.complex64).to(torch.complex32)
    result = mt.from_torch(lambda x: (x + x) / 4, (x,)).compile()(x)
    assert torch.isinf(result.real).all()


def test_other_arguments_and_bits_of_complex32_are_refused():
    x = _complex32(3)
    kernel = mt.from_torch(lambda x: x * 2, (x,)).compile()
    with pytest.raises(mt.KernelError, match=r"'x' is a tensor of torch.complex32, got torch.complex64"):
        kernel(x.to(torch.complex64))
    with pytest.raises(mt.KernelError, match="the bits of complex32"):
        mt.from_torch(lambda x: x.view(torch.int32), (x,))


def test_an_argument_may_be_a_view_of_a_tensor_of_another_dtype():
    x = torch.view_as_complex(torch.randn(3, 2))
    torch.testing.assert_close(mt.from_torch(lambda x: x * x, (x,)).compile()(x), x * x)


def _hashed(x, i):
    return torch.hash_tensor(x), torch.hash_tensor(x, dim=1), torch.hash_tensor(i, dim=[0], keepdim=True)


def test_hashes_of_tensors_are_eagers():
    arguments = torch.randn(3, 5), torch.arange(-6, 6, dtype=torch.int16).reshape(3, 4)
    torch.testing.assert_close(mt.from_torch(_hashed, arguments).compile()(*arguments), _hashed(*arguments))
