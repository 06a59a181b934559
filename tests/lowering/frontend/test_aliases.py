"""Names of one array: what is written through one of them is seen through all, of rank 0, too; or it is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from program_runner import load

import mlirtri as mt

TORCH = {
    "another name": "s = x.sum()\nt = s\nt += 1\nreturn s, t",
    "an element is a view": "t = x[0]\nt += 1\nt.add_(2)\nreturn t",
    "methods in place": "s = x.sum().mul_(2)\nt = s.add_(1)\nt += 1\ny = (x * 2).add_(1)\nreturn s, t, y",
    "swapped": "s, t = x.sum(), x.max()\ns, t = t, s\ns += 1\nreturn s, t",
    "in tuples": "s = x.sum()\npair = [s, (s, x.max())]\np, (q, r) = pair\np += 1\nr -= 1\nreturn s, q, pair[1][1]",
    "new tensors": "s = x.sum()\nt, u, v = s * 1, -s, s.clone()\nfor e in (t, u, v):\n    e += 1\nreturn s, t, u",
    "views": "s = x.sum()\ns.view(1)[0] = 5.0\nt = +s\nt += 1\nx[1:2].squeeze().add_(1)\ns.detach().mul_(3)\nreturn t",
    "everything": "s = torch.zeros(())\ns[...] = 3.5\ntorch.add(x[0], x[1], out=s)\nreturn s",
    "arguments": "w = z\nw += 1\nv = w + 1\nv *= 2\nreturn z, w, v",
    "functions": "s = x.sum()\nt = written(s)\nu = itself(s)\nu += 1\nreturn s, t, u",
    "in a loop": "s = x.sum()\nt = s\nfor i in range(n):\n    t += x[i % 5]\nreturn s, t",
    "swapped in a loop": "s, t = x.sum(), x.max()\nfor i in range(n):\n    s, t = t, s\n    s += x[i % 5]\nreturn s, t",
    "the greatest": "s = x[0]\nfor i in range(n):\n    if x[i % 5] > s:\n        s = x[i % 5]\nreturn s",
    "a number first": "s = 0.0\nfor i in range(n):\n    s += x[i % 5]\nt = s * 1\nt += 1\nreturn s, t",
    "rebound in one arm": "s, t = x.sum(), 0.0\nif x[0] > 1:\n    s, t = s * 2, x.max()\ns += 1\nt += 1\nreturn s, t",
    "a mean": "m = x.mean()\nx -= m\nm += 100\nreturn m",
}
NUMPY = {
    "zeros": "s = np.zeros(())\nt = s\nt += 1\nu = s + 1\nv = u\nv += 1\nreturn s, t, u, v",
    "copies": "s = np.array(2.0)\nt = np.asarray(s)\nu, v = s.copy(), np.array(s)\nt *= 3\nv *= 5\nreturn s, u, v",
    "views": "s = np.array(2.0)\ns.reshape(1)[0] = 5.0\nt = s[...]\nt += 1\nu = s[()]\nu += 1\nreturn s, u",
    "elements": "t = x[0, ...]\nt += 1\nu = x[1]\nu += 1\nw = u\nw += 1\nx[2:3].squeeze()[...] = 8.0\nreturn t, u, w",
    "scalars": "s = x.sum()\nt = s\nt += 1\nu = max(s, x[0])\nu += 1\nreturn s, t, u",
    "where": "s = np.where(x[0] > 1, x[1], x[2])\nt = s\nt += 1\nu = np.full((), 3.0)\nv = u\nv -= 1\nreturn s, t, u",
    "out": "s = np.zeros(())\nt = np.add(x[0], x[1], out=s)\nt += 1\nreturn s",
    "rebound in one arm": "t = x * 2\nif x[0] > 1:\n    t = y * 3\nt += 1\nreturn t",
    "several targets": "a = b = x * 2\na += 1\nc = (d := x * 3)\nc += 1\n(e, f) = g = (y * 4, z)\ne += d\nreturn b, g",
    "the order of evaluation": "return x, x + written(x), x > written(x), (x, [written(x)]), x[int(written(x)[0]) % 5]",
    "updates by what they change": "x += written(x)\nx[1:] *= written(x)[1:]\nx[0] += written(x)[0]\nreturn x.sum()",
    "a sign of its own": "t = +x\nt += 1\nreturn t",
    "in a loop": "s = np.zeros(())\nt = s\nfor i in range(n):\n    s += x[i % 5]\nreturn s, t",
}
REFUSED = {
    "t = x.sum()\ns = t if x[0] > 0 else x.max()\ns += 1": "this value may be another name of the same array",
    "s = max(x.sum(), x.max())\ns += 1": r"the result of max\(\) or min\(\) may be",
    "s = max(x[0], x[1])\nx += 1\nreturn s": r"max\(\) or min\(\) may be .*, and that was written since",
    "s = 0.0\nif x[0] > 0:\n    s = x.sum()\nt = s\ns += 1": "'s' is a number or a rank-0 .* and 't' may be",
    "s = 0.0\nt = 0.0\nfor i in range(n):\n    t = s\n    s += x[i % 5]\nreturn s, t": "'s' is a number or",
    "s = x[0]\nfor i in range(n):\n    if x[i % 5] > s:\n        s = x[i % 5]\ns += 1": "'s' may be another name",
}
REFUSED_OF_RANK_1 = {
    "one branch in another": "t = y\nif x[0] > 1:\n    t = y * 2\n    if x[1] > 1:\n        t = x\nt += 1",
    "from one iteration to the next": "t = y * 2\nfor i in range(n):\n    t += 1\n    if x[i % 5] > 3:\n        t = x",
    "from a branch into a loop": "t = y * 2\nif x[0] > 1:\n    t = x\nfor i in range(n):\n    t += 1\n    t = t.copy()",
    "in a tuple": "p = (x, y) if x[0] > 0 else (y, x)\nq, r = p\nq += 1",
    "the array that a loop runs over": "t = y * 2\nfor e in t:\n    if x[0] > e:\n        t = y * 3\n    t += 1",
    "twice in a tuple": "t = y * 2\np = (t, t)\nif x[0] > 0:\n    p = (y * 2, y * 3)\nq, r = p\nq += 1",
}
HEAD = """
import numpy as np
import torch

def written(v):
    v += 1
    return v * 2

def itself(v):
    return v
"""


def program(body: str, folder: Any) -> Any:
    indented = body.replace("\n", "\n    ")
    return load(f"{HEAD}\ndef program(x, y, z, n):\n    {indented}\n", folder).program


def arguments(kind: str) -> list[Any]:
    arrays = [np.array([3.0, 1.0, 4.0, -1.0, 5.0]), np.arange(5.0) + 1, np.array(2.5)]
    return [*(map(torch.from_numpy, arrays) if kind == "torch" else arrays), 40]


CASES = [("torch", name, body) for name, body in TORCH.items()] + [("numpy", *case) for case in NUMPY.items()]


@pytest.mark.parametrize(
    ("kind", "body"), [(kind, body) for kind, _, body in CASES], ids=[" ".join(c[:2]) for c in CASES]
)
def test_what_is_written_is_seen_through_every_name(kind, body, tmp_path):
    function = program(body, tmp_path)
    plain, ours = arguments(kind), arguments(kind)
    expected = function(*plain)
    result = mt.jit(function, pipeline="interpreter")(*ours)
    for mine, other in zip(_flat([result, ours]), _flat([expected, plain]), strict=True):
        np.testing.assert_array_equal(mine, other)


@pytest.mark.parametrize("pipeline", ["linalg", "relax", "mlir"])
@pytest.mark.parametrize("kind", ["torch", "numpy"])
def test_rank_0_arrays_in_each_pipeline(kind, pipeline, tmp_path):
    function = program(TORCH["in a loop"] if kind == "torch" else NUMPY["elements"], tmp_path)
    plain, ours = arguments(kind), arguments(kind)
    expected = function(*plain)
    result = mt.jit(function, pipeline=pipeline)(*ours)
    for mine, other in zip(_flat([result, ours]), _flat([expected, plain]), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-14)


def _flat(value: Any) -> list[Any]:
    return [part for each in value for part in _flat(each)] if isinstance(value, (tuple, list)) else [value]


@pytest.mark.parametrize("body", REFUSED)
def test_writes_whose_meaning_depends_on_what_ran_are_refused(body, tmp_path):
    with pytest.raises(mt.KernelError, match=REFUSED[body]):
        mt.jit(program(body, tmp_path), pipeline="interpreter")(*arguments("torch"))


@pytest.mark.parametrize("body", REFUSED_OF_RANK_1.values(), ids=REFUSED_OF_RANK_1)
def test_what_a_name_may_be_is_kept_through_branches_and_loops(body, tmp_path):
    with pytest.raises(mt.KernelError, match="may be another name of the same array, depending on what ran before"):
        mt.jit(program(body, tmp_path), pipeline="interpreter")(*arguments("numpy"))
