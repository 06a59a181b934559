"""Mistakes planted in the CUDA of tile and element kernels: the emulated device names the check and the Python line.

The first element of an argument says which of the planted mistakes a source makes: 0 is none.
"""

from __future__ import annotations

import linecache
import re
import shutil

import planted_mistakes
import pytest
import torch
from planted_mistakes import FIRST, MISTAKES, histogram, product, scores

import mlirtri as mt
from mlirtri.errors import DeviceCheckError

pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="there is no C++ compiler")


def arguments_of(kernel, number):
    torch.manual_seed(0)
    if kernel is product:
        given = [torch.rand(70, 64).half(), torch.rand(64, 96).half(), torch.zeros(70, 96)]
    elif kernel is scores:
        given = [torch.rand(70, 32).half(), torch.rand(32, 32).half(), torch.zeros(70, 32)]
    elif kernel is histogram:
        given = [torch.randint(0, 20, (3000,), dtype=torch.int32), torch.zeros(20, dtype=torch.int32)]
    else:
        given = [torch.rand(30, 64), torch.zeros(30, 64)]
    given[0].view(-1)[0] = number
    return given


@pytest.fixture(scope="module")
def broken():
    """The executables of the sources with all mistakes."""
    executables = {}
    for function, mistakes in MISTAKES.items():
        kernel = mt.jit(function, target="cuda:emulated").compile(*arguments_of(function, 0))
        head, start, body = kernel.ir["cuda"].rpartition('extern "C" __global__')
        for number, mistake in enumerate(mistakes, 1):
            is_made = f"((float){FIRST[function]}_ptr[0] == {number})"
            body, count = re.subn(mistake.pattern, mistake.replacement.replace("IF", is_made), body, count=1)
            assert count == 1, mistake.name
        executables[function] = kernel.compilation.executable.with_source(head + start + body)
    return executables


def launched(executable, function, number):
    """Launch a kernel, whose last argument is written; return that."""
    *given, out = arguments_of(function, number)
    executable.launch([*given, out], [out])
    return out


CASES = {
    mistake.name: (function, number)
    for function, mistakes in MISTAKES.items()
    for number, mistake in enumerate(mistakes, 1)
}


@pytest.mark.parametrize("name", CASES)
def test_the_check_and_the_line_are_named(broken, name):
    function, number = CASES[name]
    mistake = MISTAKES[function][number - 1]
    with pytest.raises(DeviceCheckError) as caught:
        launched(broken[function], function, number)
    error = caught.value
    assert error.check == mistake.check, error.message
    assert re.search(mistake.words, error.message), error.message
    assert error.span.file == planted_mistakes.__file__
    assert mistake.line in linecache.getline(error.span.file, error.span.line)


@pytest.mark.parametrize("function", MISTAKES, ids=lambda each: each.__name__)
def test_the_same_sources_run_without_the_mistakes(broken, function):
    *given, out = arguments_of(function, 0)
    mt.jit(function)(*given, out)
    torch.testing.assert_close(launched(broken[function], function, 0), out, rtol=1e-3, atol=1e-3)
