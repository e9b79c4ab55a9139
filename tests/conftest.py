from __future__ import annotations

from importlib.util import find_spec

import pytest

from truewood.routing import ENGINE_VARIABLE, has_native_engine

ENGINES = ["numpy", *(["native"] if has_native_engine() else [])]


# Tests of libraries that are not installed; the extra "test" installs all of them.
LIBRARIES = {
    "test_catboost.py": ["catboost"],
    "test_econml.py": ["econml"],
    "test_lightgbm.py": ["lightgbm"],
    "test_noise.py": ["catboost", "lightgbm", "xgboost"],
    "test_survival.py": ["sksurv"],
    "test_treelite.py": ["treelite", "lightgbm", "xgboost"],
    "test_xgboost.py": ["xgboost"],
}
collect_ignore = [name for name, needed in LIBRARIES.items() if any(find_spec(library) is None for library in needed)]


@pytest.fixture(params=ENGINES)
def engine(request, monkeypatch):
    """Run a test with each engine that is installed."""
    monkeypatch.setenv(ENGINE_VARIABLE, request.param)
    return request.param
