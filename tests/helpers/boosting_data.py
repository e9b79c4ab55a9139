"""Data for boosted trees of scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest

# scikit-learn adds up all values to see whether they are finite, and the largest floats overflow.
sums_may_overflow = pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered in reduce:RuntimeWarning")
N_FEATURES = 5
SIGNAL = 2


def draw_data(task, seed=0, n_rows=400):
    """Column SIGNAL carries the target, the others are noise; labels are strings."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, N_FEATURES))
    score = 2.0 * X[:, SIGNAL] + 0.5 * rng.standard_normal(n_rows)
    if task == "binary":
        return X, np.array(["no", "yes"])[(score > 0).astype(int)]
    if task == "multiclass":
        return X, np.array(["a", "b", "c"])[np.digitize(score, [-1.0, 1.0])]
    return X, np.exp(0.5 * score) if task == "positive" else score
