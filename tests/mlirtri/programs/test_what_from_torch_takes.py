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


def test_out_is_refused_where_the_module_has_none():
    with pytest.raises(ArgumentMismatchError, match=r"write out.copy_\(program"):
        mt.from_torch(Doubled(), torch.ones(3))(torch.ones(3), out=torch.ones(3))


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
