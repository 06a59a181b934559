"""What the tests of calls share."""

from __future__ import annotations

import pytest

from mlirtri.calls.runtime import Runner


@pytest.fixture
def general(monkeypatch):
    """Return the number of arguments of each general call that the test makes."""
    calls, own = [], Runner.__call__

    def counted(self, arguments, out=None):
        calls.append(len(arguments))
        return own(self, arguments, out)

    monkeypatch.setattr(Runner, "__call__", counted)
    return calls
