"""Fixtures that several test files ask for."""

from __future__ import annotations

import gc
import os
import sys

import numpy as np
import pytest
import torch
from shared_device import make_folder, remove_folder, share_device

os.environ.setdefault("MLIRTRI_STRICT", "1")
"""A schedule rule that fails costs a user speed only, so that nothing else would show it."""

os.environ["MLIRTRI_CACHE"] = "0"
"""Tests compile: those of the disk cache turn it on, in a folder of their own."""

# Each collection looks at many of the objects of torch, TVM and MLIR; with Python's own thresholds that takes a
# twentieth of the tests' time. Kernels of earlier tests are freed somewhat later.
gc.set_threshold(20_000, 10, 10)


def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        make_folder()


def pytest_unconfigure(config):
    if not hasattr(config, "workerinput"):
        remove_folder()


def pytest_collection_finish():
    """Let no collection look at what is loaded by now; five full ones at pytest's end are among those spared."""
    gc.freeze()
    if "tvm" in sys.modules:  # else nothing that was collected emulates a device, and TVM takes a second to load
        share_device()


@pytest.fixture(autouse=True)
def _seed():
    """torch's numbers are the same ones each time, too."""
    torch.default_generator.manual_seed(0)  # what `torch.manual_seed` does on a CPU, after loading torch's compiler


@pytest.fixture
def random():
    """Random numbers, the same ones in every test."""
    return np.random.default_rng(0)
