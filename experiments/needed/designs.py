"""Data sets whose columns are known to be needed, or not, given the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

Drawn = tuple[np.ndarray, np.ndarray, list[str]]


@dataclass(frozen=True)
class Design:
    """How to draw a data set, with the role of each column, and the forest to fit; classes where y is of integers."""

    draw: Callable[[np.random.Generator], Drawn]
    options: dict[str, Any] = field(default_factory=dict)

    def fit(self, X: np.ndarray, y: np.ndarray, seed: int) -> Any:
        """Fit the forest."""
        make = RandomForestClassifier if y.dtype.kind == "i" else RandomForestRegressor
        return make(**{"n_estimators": 50, "random_state": seed, **self.options}).fit(X, y)


def draw_copy(rng: np.random.Generator, n_rows: int = 300, noise: float = 0.3) -> Drawn:
    """A signal, its noisy copy, another signal, and three columns of noise."""
    X = rng.standard_normal((n_rows, 6))
    X[:, 1] = X[:, 0] + noise * rng.standard_normal(n_rows)
    y = X[:, 0] + 0.5 * X[:, 2] + rng.standard_normal(n_rows)
    return X, y, ["signal", "copy", "weak signal", "noise", "noise", "noise"]


def draw_moved_noise(rng: np.random.Generator) -> Drawn:
    """A column that moves only the size of the noise."""
    X = rng.standard_normal((300, 5))
    y = X[:, 0] + np.exp(X[:, 1]) * rng.standard_normal(300)
    return X, y, ["signal", "moves the noise", "noise", "noise", "noise"]


def draw_odd_columns(rng: np.random.Generator) -> Drawn:
    """Noise in columns of many kinds: rare, of two values, of many levels, heavy in the tails."""
    n_rows = 300
    X = rng.standard_normal((n_rows, 6))
    X[:, 1] = rng.random(n_rows) < 0.03
    X[:, 2] = rng.integers(0, 2, n_rows)
    X[:, 3] = rng.permutation(n_rows)
    X[:, 4] = rng.standard_cauchy(n_rows)
    y = X[:, 0] + rng.standard_normal(n_rows)
    return X, y, ["signal", "rare binary", "binary", "many levels", "heavy tails", "noise"]


def draw_nothing(rng: np.random.Generator) -> Drawn:
    """Nothing but noise."""
    return rng.standard_normal((300, 6)), rng.standard_normal(300), ["noise"] * 6


def draw_interaction(rng: np.random.Generator) -> Drawn:
    """Two columns that matter only together, a noisy copy of one, and noise."""
    X = rng.standard_normal((500, 5))
    X[:, 2] = X[:, 0] + 0.3 * rng.standard_normal(500)
    y = X[:, 0] * X[:, 1] + 0.5 * rng.standard_normal(500)
    return X, y, ["signal", "signal", "copy", "noise", "noise"]


def draw_classes(rng: np.random.Generator, rate: float = 0.1) -> Drawn:
    """A rare class, a signal, its noisy copy, a rare binary column and noise."""
    n_rows = 400
    X = rng.standard_normal((n_rows, 5))
    X[:, 1] = X[:, 0] + 0.3 * rng.standard_normal(n_rows)
    X[:, 2] = rng.random(n_rows) < 0.03
    score = 1.5 * X[:, 0] + rng.logistic(size=n_rows)
    y = (score > np.quantile(score, 1 - rate)).astype(int)
    return X, y, ["signal", "copy", "rare binary", "noise", "noise"]


def draw_many(rng: np.random.Generator) -> Drawn:
    """Three signals and 27 columns of noise."""
    X = rng.standard_normal((200, 30))
    y = X[:, 0] + X[:, 1] + 0.5 * X[:, 2] + rng.standard_normal(200)
    return X, y, ["signal", "signal", "weak signal"] + ["noise"] * 27


LEAVES = {"min_samples_leaf": 5}
DESIGNS = {
    "copy": Design(draw_copy, LEAVES),
    "copy, third of columns": Design(draw_copy, LEAVES | {"max_features": 1 / 3}),
    "copy, full trees": Design(draw_copy),
    "near copy": Design(lambda rng: draw_copy(rng, noise=0.1), LEAVES),
    "copy, 1000 rows": Design(lambda rng: draw_copy(rng, 1000), LEAVES),
    "copy, 1000 rows, third of columns": Design(lambda rng: draw_copy(rng, 1000), LEAVES | {"max_features": 1 / 3}),
    "copy, 60 rows": Design(lambda rng: draw_copy(rng, 60), LEAVES),
    "moved noise": Design(draw_moved_noise, LEAVES),
    "odd columns": Design(draw_odd_columns, LEAVES),
    "odd columns, full trees": Design(draw_odd_columns, {"max_features": 1 / 3}),
    "nothing": Design(draw_nothing, LEAVES),
    "interaction": Design(draw_interaction, LEAVES),
    "rare class": Design(draw_classes),
    "rare class, balanced": Design(draw_classes, {"class_weight": "balanced"} | LEAVES),
    "rare class, balanced, max_samples=0.2": Design(
        draw_classes, {"class_weight": "balanced", "max_samples": 0.2} | LEAVES
    ),
    "rare class, balanced_subsample": Design(draw_classes, {"class_weight": "balanced_subsample"} | LEAVES),
    "many columns": Design(draw_many, LEAVES | {"max_features": 1 / 3}),
}
