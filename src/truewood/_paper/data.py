"""Data of the experiments: simulations, real data sets, and the encoding of features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood.datasets import load_adult, load_boston, load_rna

N_ROWS = 1000
N_ADULT = 5000


@dataclass(frozen=True, eq=False)
class Problem:
    """The data set of one repetition.

    Parameters
    ----------
    X : DataFrame
        Features as the paper names them; categorical ones as strings.
    y : ndarray
        Booleans for classification, floats for regression.
    """

    X: pd.DataFrame
    y: NDArray[Any]

    @property
    def is_classification(self) -> bool:
        """Whether y holds classes."""
        return self.y.dtype == bool

    def encode(self) -> tuple[NDArray[np.float64], list[str]]:
        """Return columns for scikit-learn, with dummy variables for categories, and the feature of each column."""
        parts, owners = [], []
        for name in self.X:
            column = self.X[name]
            if pd.api.types.is_numeric_dtype(column):
                block = column.to_numpy(dtype=np.float64)[:, np.newaxis]
            else:
                # Two levels need only one column.
                block = pd.get_dummies(column, drop_first=column.nunique() == 2).to_numpy(dtype=np.float64)
            parts.append(block)
            owners += [str(name)] * block.shape[1]
        return np.hstack(parts), owners


def draw_five(rng: np.random.Generator, *, task: str, encoding: str, rho: float = 0.0) -> Problem:
    """Draw five predictors (section 3.3): X1 normal, X2 to X5 with 2, 4, 10 and 20 categories; signal rho in X2."""
    X: dict[str, NDArray[Any]] = {"X1": rng.standard_normal(N_ROWS)}
    for name, levels in zip(("X2", "X3", "X4", "X5"), (2, 4, 10, 20), strict=True):
        X[name] = rng.integers(levels, size=N_ROWS)
    if task == "regression":
        y = rho * X["X2"] + rng.standard_normal(N_ROWS)
    else:
        is_flipped = rng.random(N_ROWS) > (1.0 + rho) / 2.0
        y = (X["X2"] == 1) ^ is_flipped
    table = pd.DataFrame(X)
    if encoding == "dummy":
        table = table.astype(dict.fromkeys(("X2", "X3", "X4", "X5"), str))
    return Problem(table, y)


def draw_ten(rng: np.random.Generator, *, task: str) -> Problem:
    """Draw ten ordered predictors with 2 to 11 levels (section 5.1); only the binary X1 is informative."""
    X = np.column_stack([rng.integers(levels, size=N_ROWS) for levels in range(2, 12)])
    y: NDArray[Any]
    if task == "classification":
        y = rng.random(N_ROWS) < np.where(X[:, 0] == 1, 0.55, 0.45)
    else:
        y = X[:, 0] + 5.0 * rng.standard_normal(N_ROWS)
    return Problem(pd.DataFrame(X, columns=[f"X{i}" for i in range(1, 11)]), y)


def draw_rna(rng: np.random.Generator) -> Problem:
    """Load the RNA editing sites (section 5.2); nothing is random."""
    del rng
    X, y = load_rna()
    return Problem(X, y.to_numpy())


def draw_adult(rng: np.random.Generator) -> Problem:
    """Load Adult (section 5.3): always the same random 5000 rows, with a new random feature."""
    X, y = load_adult()
    chosen = np.random.default_rng(0).choice(len(X), N_ADULT, replace=False)
    return _add_random(X.iloc[chosen].reset_index(drop=True), y.to_numpy()[chosen], rng)


def draw_boston(rng: np.random.Generator) -> Problem:
    """Load Boston housing (section 5.4) with a new random feature. The column B encodes a racist assumption."""
    X, y = load_boston()
    return _add_random(X, y.to_numpy(), rng)


def _add_random(X: pd.DataFrame, y: NDArray[Any], rng: np.random.Generator) -> Problem:
    return Problem(X.assign(random=rng.standard_normal(len(X))), y)
