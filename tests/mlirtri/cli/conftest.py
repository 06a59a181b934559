"""Fixtures: a file of kernels, and a command line that runs in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlirtri.cli import main as cli

KERNELS = """
import mlirtri as mt

print("imported")

@mt.jit
def chain(a: mt.Tensor[[4, 8], mt.float32], b):
    out = a + b
    return out + a

@mt.jit
def scaled(x: mt.Tensor[[3], mt.float32], alpha=2.0, n: int = 3):
    return x * alpha + n, x.sum()

@mt.jit
def first(a: mt.Tensor[[9], mt.float32], n: mt.int32):
    total = a[0]
    for i in range(1, n):
        total += a[i]
    return total, n

@mt.jit
def picked(a: mt.Tensor[[100], mt.float32], places, n):
    return a[places] * n

def undecorated(a):
    return -a
"""


@pytest.fixture
def kernels(tmp_path: Path) -> str:
    file = tmp_path / "some_kernels.py"
    file.write_text(KERNELS)
    return str(file)


@pytest.fixture
def run(capsys):
    """Run a command line; gives status, stdout and stderr."""

    def call(*arguments: str) -> tuple[int, str, str]:
        status = cli.run_command(list(arguments))
        return status, *capsys.readouterr()

    return call
