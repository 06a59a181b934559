"""The rows of `benchmarks.networks`: a candidate that fails or takes too long is a cell with its reason."""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest

torch = pytest.importorskip("torch")
networks = pytest.importorskip("benchmarks.networks")


def _row() -> tuple[Any, tuple[Any, ...]]:
    return torch.nn.Linear(4, 4), (torch.ones(2, 4),)


def _never(*_: Any) -> Any:
    while True:
        try:
            time.sleep(5)
        except Exception:
            continue


def _refuses(*_: Any) -> Any:
    raise ValueError("no such operator\nmore")


@pytest.fixture
def row(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(networks, "SECONDS", 1e-3)
    monkeypatch.setattr(networks, "_by_inductor", _never)
    monkeypatch.setattr(networks, "_by_onnxruntime", _refuses)
    return networks.measured(_row, torch.get_num_threads(), [], ["eager", "compile", "onnxruntime"], 0.05)


def test_late_and_refused_candidates_have_reasons_and_the_others_times(row: dict[str, Any]) -> None:
    assert row["why"] == {"compile": "not compiled and called after 0.05 s", "onnxruntime": "no such operator"}
    assert list(row["seconds"]) == ["eager"]
    assert row["differences"] == {"eager": 0.0}


def test_no_alarm_is_left(row: dict[str, Any]) -> None:
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
