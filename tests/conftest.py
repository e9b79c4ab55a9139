from __future__ import annotations

import pytest

from truewood.routing import ENGINE_VARIABLE, has_native_engine

ENGINES = ["numpy", *(["native"] if has_native_engine() else [])]


@pytest.fixture(params=ENGINES)
def engine(request, monkeypatch):
    """Run a test with each engine that is installed."""
    monkeypatch.setenv(ENGINE_VARIABLE, request.param)
    return request.param
