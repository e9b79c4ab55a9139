from __future__ import annotations

import os
import sys

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from helpers.installed import has_kernel, lacks_any

os.environ.setdefault("MPLBACKEND", "agg")  # no windows

ENGINES = ("numpy", "native") if has_kernel() else ("numpy",)

# Files that need a library which is not installed are left out; the extra "test" installs all of them.
LIBRARIES = {
    "app/test_*.py": ["altair", "nicegui", "pyarrow", "vl_convert"],
    "*verification*.py": ["catboost", "econml", "lightgbm", "sksurv", "treelite", "xgboost"],
    "*catboost*.py": ["catboost"],
    "*econml*.py": ["econml"],
    "*lightgbm*.py": ["lightgbm"],
    "*ngboost*.py": ["ngboost"],
    "*spark_folders.py": ["pyarrow"],
    "*spark_models.py": ["pyspark"],
    "*sksurv*.py": ["sksurv"],
    "*survival*.py": ["sksurv"],
    "*treelite*.py": ["treelite", "lightgbm", "xgboost"],
    "*ubjson.py": ["xgboost"],
    "*xgboost*.py": ["xgboost"],
    "*ydf*.py": ["ydf"],
    "cli/test_importance_folder.py": ["lightgbm", "xgboost"],
    "docs/test_code_blocks.py": ["altair", "IPython", "pyarrow", "xgboost"],
    "engines/test_every_row.py": ["lightgbm", "xgboost"],
    "test_accumulator.py": ["lightgbm", "xgboost"],
    "test_notebook.py": ["altair", "ipykernel", "nbclient", "nbformat", "vl_convert"],
    "test_early_stopping.py": ["catboost", "lightgbm", "xgboost"],
    "streaming/test_dask.py": ["dask", "distributed", "lightgbm", "xgboost"],
    "streaming/test_sources.py": ["duckdb", "lightgbm", "xgboost"],
    "*streaming_models.py": ["lightgbm", "xgboost"],
    "scoring/test_noise.py": ["catboost", "lightgbm", "xgboost"],
    "scoring/test_scale_and_shift.py": ["catboost", "lightgbm", "xgboost"],
}
collect_ignore_glob = [files for files, needed in LIBRARIES.items() if lacks_any(needed)]

# Fixtures that start a browser or a cluster make a test slow.
SLOW_FIXTURES = {"browser", "client"}
SKIPPED_WITHOUT_KERNEL = {
    "kernel": "the compiled kernel is not installed",
    "any_engine": "the same with any engine, and tested where the compiled kernel is installed",
}


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their markers
def pytest_collection_modifyitems(items):
    missing = {} if has_kernel() else SKIPPED_WITHOUT_KERNEL
    for item in items:
        if SLOW_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker("slow")
        for name, reason in missing.items():
            if item.get_closest_marker(name):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(params=ENGINES)
def engine(request, monkeypatch):
    """Run a test with each engine that is installed."""
    from truewood._engines.selection import ENGINE_VARIABLE

    monkeypatch.setenv(ENGINE_VARIABLE, request.param)
    return request.param


@pytest.fixture(scope="session")
def engines():
    """Names of the engines that are installed, for a test that compares them."""
    return ENGINES


@pytest.fixture(autouse=True)
def _close_figures():
    """Close the pyplot figures of a test, as a notebook does after each cell."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture
def rng():
    """Random numbers of a test's own, so that they do not depend on the tests before it."""
    return np.random.default_rng(1)


@pytest.fixture(scope="session")
def peers():
    """Whether R is there with the packages of each peer."""
    from truewood._paper.methods import find_peers

    return find_peers()


@pytest.fixture(scope="module")
def one_thread():
    """HistGradientBoosting's threads wait for each other in a loop, which is slow where others work too."""
    with threadpool_limits(1):
        yield


@pytest.fixture
def no_sandbox(monkeypatch):
    """Load model files in this process alone: what the process of its own is for is in cli/test_damaged_models.py."""
    monkeypatch.setattr("truewood.tabular._models.loading.find_damage", lambda _path, _library: None)
