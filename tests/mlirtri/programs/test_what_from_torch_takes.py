"""What `mt.from_torch` takes: one argument without a tuple, archives by path; what it refuses in a sentence."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

import mlirtri as mt
from mlirtri.errors import ArgumentMismatchError, KernelError


class Doubled(torch.nn.Module):
    def forward(self, x):
        return x * 2


def test_one_argument_needs_no_tuple_and_archives_are_named_after_their_file(tmp_path):
    x = torch.ones(3)
    assert torch.equal(mt.from_torch(Doubled(), x)(x), x * 2)
    exported = torch.export.export(Doubled(), (x,))
    assert mt.from_torch(exported).compile().name == "Doubled"
    path = tmp_path / "my net.pt2"
    torch.export.save(exported, path)
    program = mt.from_torch(path)
    assert program.compile().name == "my_net"
    assert torch.equal(program(x), x * 2)
    assert repr(program) == f"<mlirtri program of my_net from {path}>"
    assert repr(mt.from_torch(exported)) == "<mlirtri program of Doubled from torch>"


class Parts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4, 3))

    def forward(self, x):
        a = x.T.reshape(4, 3) + self.weight
        return x * 2, a, a


def test_out_takes_the_results():
    module, x = Parts(), torch.randn(4, 3)
    program = mt.from_torch(module, x)
    # The first call goes another way than later ones.
    for _ in range(3):
        wide = torch.zeros(4, 5)
        out = torch.empty(3, 4).T, wide[:, 1:4], np.empty((4, 3), np.float32)
        results = program(x, out=out)
        assert all(result is target for result, target in zip(results, out, strict=True))
        for target, expected in zip(out, module(x), strict=True):
            np.testing.assert_allclose(target, expected.detach(), rtol=1e-6)
        assert not wide[:, 0].any()
        # An argument may be written: it has been read.
        given = x.clone()
        program(given, out=(torch.empty(4, 3), given, torch.empty(4, 3)))
        np.testing.assert_allclose(given, module(x)[1].detach(), rtol=1e-6)


def test_out_that_does_not_fit_is_refused():
    module, x = Parts(), torch.ones(4, 3)
    program, good = mt.from_torch(module, x), [torch.empty(4, 3) for _ in range(3)]
    cases = [
        (torch.empty(4, 2), r"out of result 0 has to be float32\[4, 3\], got float32\[4, 2\]"),
        (torch.empty(4, 3, dtype=torch.float64), "got float64"),
        (torch.empty(1, 3).expand(4, 3), "several elements at one address"),
        (good[1], "two results have one out"),
        (module.weight.data, "out of result 0 is the module's 'weight'"),
        (3, "out has to be of the results' structure"),
    ]
    for _ in range(2):
        for first, message in cases:
            with pytest.raises(ArgumentMismatchError, match=message):
                program(x, out=(first, *good[1:]))
        program(x)
    writes = mt.from_torch(Writes(), torch.ones(3))
    with pytest.raises(ArgumentMismatchError, match="takes no out"):
        writes(torch.ones(3), out=torch.ones(3))


class Writes(torch.nn.Module):
    def forward(self, x):
        x += 1
        return x * 2


@pytest.mark.parametrize(
    ("arguments", "message", "help"),
    [
        ((Doubled(), {"x": torch.ones(3)}), "args is a dict", "as kwargs"),
        ((Doubled(), np.ones(3)), "NumPy array", "torch.from_numpy(x)"),
        ((Doubled(),), "Doubled takes arguments, and none are given", "from_torch(module, (x,))"),
        ((Doubled, torch.ones(3)), "Doubled is a class of modules", "Doubled(...)"),
        (("net.onnx",), "not .onnx", "mt.from_onnx"),
        (("net.pt",), "not .pt", "load the module in torch"),
        (("none.pt2",), "none.pt2 cannot be read: No such file", None),
        ((3,), "takes a torch.nn.Module or an ExportedProgram, got 3", None),
    ],
)
def test_what_is_no_module_or_no_arguments_is_refused_in_a_sentence(arguments, message, help):
    with pytest.raises(KernelError, match=re.escape(message)) as caught:
        mt.from_torch(*arguments)
    assert (help or "") in (caught.value.help or "")
