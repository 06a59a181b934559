"""Generated programs that once gave wrong numbers, in the pipelines that run loops.

`make fuzz` makes new ones. A failure that it reduced goes among the REGRESSIONS, or into
`test_found_programs.py`.
"""

from __future__ import annotations

import pytest
from program_runner import check_program, load, make_arguments

COMPILED = ("linalg", "mlir")

REGRESSIONS: dict[str, str] = {
    "an arm of a branch gives memory of its own": """
    t = v * 1
    if w[0] > 100:
        pass
    else:
        t = v * 2
    return t
""",
    "a branch updates an array after a loop did": """
    for i in range(9):
        m[i % 3] += 1
    if w[0] != -2:
        m[2] = m[0] + w[0]
""",
    "a loop over an array that it writes reads what is there then": """
    a = 0.0
    for e in v:
        a += e
        v[:] = 2 * v[::-1]
    return a
""",
    "a loop that ends early frees what it made": """
    for i in range(3):
        t = np.sort(v * s)
        if m[i, 0] > 3:
            break
        v[:] = np.sin(t[::-1]) + np.cumsum(v)[-1] * 0.1
""",
}
"""What was wrong, and the body of a program that shows it, on `SHAPES` of float64 and int64."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("programs")


HEADER = "import numpy as np\n\n\ndef program(x, y, v, u, m, w, s):\n"
SHAPES = {
    "x": ("F", (3, 4)), "y": ("F", (3, 4)), "v": ("F", (4,)), "u": ("F", (3,)), "m": ("I", (3, 4)), "w": ("I", (4,)),
    "s": ("F", ()),
}  # fmt: skip


@pytest.mark.parametrize("name", REGRESSIONS)
def test_what_was_wrong_is_right(folder, name):
    module = load(HEADER + REGRESSIONS[name].lstrip("\n"), folder, "regression")
    arguments = make_arguments(SHAPES, {"F": "float64", "I": "int64"}, 7)
    check_program(module.program, arguments, "float64", ("interpreter", *COMPILED))
