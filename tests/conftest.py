from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from helpers.installed import has_kernel, lacks_any

ENGINES = ("numpy", "native") if has_kernel() else ("numpy",)

# Files that need a library which is not installed are left out; the extra "test" installs all of them.
LIBRARIES = {
    "app/test_*.py": ["altair", "nicegui", "pyarrow", "vl_convert"],
    "*verification*.py": ["catboost", "econml", "lightgbm", "sksurv", "treelite", "xgboost"],
    "*catboost*.py": ["catboost"],
    "*econml*.py": ["econml"],
    "*lightgbm*.py": ["lightgbm"],
    "*spark_folders.py": ["pyarrow"],
    "*spark_models.py": ["pyspark"],
    "*survival*.py": ["sksurv"],
    "*treelite*.py": ["treelite", "lightgbm", "xgboost"],
    "*ubjson.py": ["xgboost"],
    "*xgboost*.py": ["xgboost"],
    "cli/test_importance_folder.py": ["lightgbm", "xgboost"],
    "docs/test_code_blocks.py": ["altair", "pyarrow", "xgboost"],
    "engines/test_every_row.py": ["lightgbm", "xgboost"],
    "streaming/test_accumulating.py": ["lightgbm", "xgboost"],
    "streaming/test_dask.py": ["dask", "distributed", "lightgbm", "xgboost"],
    "streaming/test_sources.py": ["duckdb", "lightgbm", "xgboost"],
    "*streaming_models.py": ["lightgbm", "xgboost"],
    "scoring/test_noise.py": ["catboost", "lightgbm", "xgboost"],
    "scoring/test_scale_and_shift.py": ["catboost", "lightgbm", "xgboost"],
}
collect_ignore_glob = [files for files, needed in LIBRARIES.items() if lacks_any(needed)]
if not has_kernel():
    # What columns are taken for, pages and words are the same with any engine, and tested with the kernel.
    collect_ignore_glob += ["engines/test_cuda.py", "app/*", "cli/test_[!c]*", "report/*", "tabular/*"]


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
