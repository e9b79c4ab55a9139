"""Data sets for which it is known which columns are worth keeping."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes

Table = tuple[np.ndarray, np.ndarray]

SIGNAL = "signal"  # the mean of y, given the other columns, depends on it
BESIDE = "beside"  # y depends on it, but its mean, given the signals, does not
NOISE = "noise"  # independent of y and of all other columns but noise
REAL = "real"  # a column of a real table: nobody knows


@dataclass(frozen=True)
class Data:
    """Rows to select columns with, and rows to evaluate the selection on; integers in y are classes."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    @property
    def has_classes(self) -> bool:
        """Whether y is of classes, 0 and 1."""
        return self.y.dtype.kind == "i"


@dataclass(frozen=True)
class Design:
    """How rows are drawn, a seed and a number of rows each time, and the role of each column."""

    draw_rows: Callable[[np.random.Generator, int], Table]
    roles: tuple[str, ...]
    n_rows: int = 300
    n_test: int = 1000

    def draw(self, rng: np.random.Generator) -> Data:
        """Draw a data set."""
        X, y = self.draw_rows(rng, self.n_rows + self.n_test)
        n = self.n_rows
        return Data(X[:n], y[:n], X[n:], y[n:])


def correlate(rng: np.random.Generator, n_rows: int, *, blocks: int, size: int, correlation: float) -> np.ndarray:
    """Normal columns, correlated within blocks."""
    common = np.repeat(rng.standard_normal((n_rows, blocks)), size, axis=1)
    own = rng.standard_normal((n_rows, blocks * size))
    return np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own


def draw_independent(rng: np.random.Generator, n_rows: int) -> Table:
    """Five signals of falling strength."""
    X = rng.standard_normal((n_rows, 20))
    return X, X[:, :5] @ [1.0, 0.8, 0.6, 0.4, 0.3] + rng.standard_normal(n_rows)


def draw_blocks(rng: np.random.Generator, n_rows: int) -> Table:
    """A block of correlated columns that all count, and three that do not."""
    X = correlate(rng, n_rows, blocks=4, size=5, correlation=0.7)
    return X, X[:, :5] @ np.full(5, 0.4) + rng.standard_normal(n_rows)


def draw_nulls_in_blocks(rng: np.random.Generator, n_rows: int) -> Table:
    """Two blocks with two signals each, whose other columns only follow them, and two blocks of noise."""
    X = correlate(rng, n_rows, blocks=4, size=5, correlation=0.7)
    return X, X[:, [0, 1, 5, 6]] @ [1.0, 0.7, 1.0, 0.7] + rng.standard_normal(n_rows)


LEVELS = (2, 4, 10, 2, 2, 4, 4, 10, 10, 30, 30, 30, 100, 100)
EFFECTS = ((-0.7, 0.7), (0.9, -0.9, -0.4, 0.4), (0.9, -1.0, 0.3, -0.6, 1.1, -0.2, -0.9, 0.6, 0.2, -0.4))


def draw_levels(rng: np.random.Generator, n_rows: int) -> Table:
    """Categories of 2 to 100 levels under numbers in no order, and two continuous columns; few levels count."""
    codes = [rng.integers(0, n_levels, n_rows) for n_levels in LEVELS]
    X = np.column_stack([*codes, *rng.standard_normal((2, n_rows))])
    score = sum(np.asarray(effect)[code] for effect, code in zip(EFFECTS, codes, strict=False))
    return X, (score + rng.logistic(size=n_rows) > 0).astype(int)


def draw_interactions(rng: np.random.Generator, n_rows: int) -> Table:
    """Two pairs of columns that matter only together."""
    X = rng.standard_normal((n_rows, 12))
    return X, X[:, 0] * X[:, 1] + np.sign(X[:, 2] * X[:, 3]) + 0.5 * rng.standard_normal(n_rows)


def draw_wide(rng: np.random.Generator, n_rows: int) -> Table:
    """More columns than rows."""
    X = rng.standard_normal((n_rows, 200))
    return X, X[:, :5] @ [2.0, 1.5, 1.2, 1.0, 0.8] + rng.standard_normal(n_rows)


def draw_rare_class(rng: np.random.Generator, n_rows: int) -> Table:
    """A class of about 7 %."""
    X = rng.standard_normal((n_rows, 20))
    score = X[:, :4] @ [1.5, 1.2, 0.9, 0.6] - 4.0
    return X, (score + rng.logistic(size=n_rows) > 0).astype(int)


def draw_moved_noise(rng: np.random.Generator, n_rows: int) -> Table:
    """Three signals, and two columns that move only the size of the noise."""
    X = rng.standard_normal((n_rows, 15))
    spread = 0.7 * np.exp(0.6 * X[:, 3] + 0.6 * X[:, 4])
    return X, X[:, :3] @ [1.0, 0.7, 0.5] + spread * rng.standard_normal(n_rows)


def _add_noise(load: Callable[..., Table], n_noise: int) -> Callable[[np.random.Generator, int], Table]:
    """A real table in random order, and some of its columns once more, in an order of their own."""

    def draw_rows(rng: np.random.Generator, n_rows: int) -> Table:
        X, y = load(return_X_y=True)
        order = rng.permutation(len(y))[:n_rows]
        chosen = rng.choice(X.shape[1], n_noise, replace=False)
        X, y = X[order], y[order]
        return np.hstack([X, rng.permuted(X[:, chosen], axis=0)]), y.astype(np.int64) if set(y) == {0, 1} else y

    return draw_rows


def _roles(**counts: int) -> tuple[str, ...]:
    return tuple(role for role, count in counts.items() for _ in range(count))


DESIGNS = {
    "independent": Design(draw_independent, _roles(signal=5, noise=15)),
    "blocks": Design(draw_blocks, _roles(signal=5, noise=15)),
    "nulls in blocks": Design(draw_nulls_in_blocks, 2 * (*_roles(signal=2, beside=3),) + _roles(noise=10)),
    "levels": Design(draw_levels, _roles(signal=3, noise=13), n_rows=500),
    "interactions": Design(draw_interactions, _roles(signal=4, noise=8), n_rows=500),
    "p > n": Design(draw_wide, _roles(signal=5, noise=195), n_rows=100),
    "rare class": Design(draw_rare_class, _roles(signal=4, noise=16), n_rows=600),
    "moved noise": Design(draw_moved_noise, _roles(signal=3, beside=2, noise=10)),
    "diabetes": Design(_add_noise(load_diabetes, 10), _roles(real=10, noise=10), n_rows=300, n_test=142),
    "breast cancer": Design(_add_noise(load_breast_cancer, 10), _roles(real=30, noise=10), n_rows=300, n_test=269),
}
