"""A thousand importances in a row keep no memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import gc
import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier
from threadpoolctl import threadpool_limits
import truewood as tw

def measure_memory():
    gc.collect()
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1])

rng = np.random.default_rng(0)
X = rng.standard_normal((600, 6))
y = X[:, 0] + rng.standard_normal(len(X)) > 0
forest = RandomForestClassifier(5, max_depth=6, random_state=0).fit(X, y)
with threadpool_limits(1):
    booster = HistGradientBoostingRegressor(max_iter=5, max_depth=4).fit(X[:300], y[:300])
frame, rows = pd.DataFrame(X), sparse.csr_array(X)
calls = [
    lambda: tw.importance(forest, X, y),
    lambda: tw.importance(forest, frame, pd.Series(y), n_jobs=2, contributions=True),
    lambda: tw.importance(forest, rows, y, measure="permutation", random_state=0),
    lambda: tw.importance(booster, X[300:], y[300:], rows="heldout"),
]
for number in range(1001):
    calls[number % len(calls)]()
    if number in (200, 1000):
        print(measure_memory(), flush=True)
"""


@pytest.mark.statistical
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
@pytest.mark.filterwarnings("ignore")
def test_memory_stays_flat():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    warm, end = map(int, done.stdout.split())
    assert end <= 1.02 * warm, (warm, end)
