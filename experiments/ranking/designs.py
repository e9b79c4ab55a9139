"""Data sets with known signals, after the simulations of Agarwal et al. (2023): real or drawn columns, a drawn target.

A response takes a few columns at random. Heritability is the share of the target's variance that they explain; for
classes, the same score is the probability's logit, scaled so that its variance is heritability / (1 - heritability)
times that of the logistic distribution.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits

N_DRAWN = 60
N_PAIRS = 3


def draw_independent(rng: np.random.Generator, n_rows: int) -> np.ndarray:
    """Independent normal columns."""
    return rng.standard_normal((n_rows, N_DRAWN))


def draw_blocks(rng: np.random.Generator, n_rows: int) -> np.ndarray:
    """Normal columns in blocks of ten, with correlations of .6 inside a block."""
    shared = np.repeat(rng.standard_normal((n_rows, N_DRAWN // 10)), 10, axis=1)
    return np.sqrt(0.6) * shared + np.sqrt(0.4) * rng.standard_normal((n_rows, N_DRAWN))


def draw_mixed(rng: np.random.Generator, n_rows: int) -> np.ndarray:
    """Independent columns of 2, 3, 5 and 10 levels, skewed and normal ones."""
    kinds = [
        *(lambda levels=levels: rng.integers(0, levels, n_rows) / 1.0 for levels in (2, 3, 5, 10)),
        lambda: rng.standard_exponential(n_rows),
        lambda: rng.standard_normal(n_rows),
    ]
    return np.column_stack([kinds[j % len(kinds)]() for j in range(N_DRAWN)])


@cache
def load_columns(name: str) -> np.ndarray:
    """Columns of a table of scikit-learn that vary."""
    X = (load_breast_cancer if name == "cancer" else load_digits)(return_X_y=True)[0]
    return X[:, (np.median(X, axis=0) != X).mean(axis=0) > 0.02]


def take_rows(name: str) -> Callable[[np.random.Generator, int], np.ndarray]:
    """Random rows of a table of scikit-learn, each at most once."""
    return lambda rng, n_rows: rng.permutation(load_columns(name))[:n_rows]


COLUMNS = {
    "independent": draw_independent,
    "blocks": draw_blocks,
    "mixed": draw_mixed,
    "cancer": take_rows("cancer"),
    "digits": take_rows("digits"),
}
MOST_ROWS = {"cancer": 569, "digits": 1797}


def add_linear(Z: np.ndarray) -> np.ndarray:
    """Five columns, with equal slopes."""
    return Z[:, :5].sum(axis=1)


def add_spikes(Z: np.ndarray) -> np.ndarray:
    """Locally spiky sparse: three pairs of columns, each a step where both are above their mean."""
    above = Z[:, : 2 * N_PAIRS] > 0
    return (above[:, ::2] & above[:, 1::2]).sum(axis=1).astype(float)


def add_polynomial(Z: np.ndarray) -> np.ndarray:
    """One column of each of three pairs, and the product of the pair."""
    first, second = Z[:, : 2 * N_PAIRS : 2], Z[:, 1 : 2 * N_PAIRS : 2]
    return (first + first * second).sum(axis=1)


def add_both(Z: np.ndarray) -> np.ndarray:
    """One column of each of three pairs, and the pair's step."""
    return Z[:, : 2 * N_PAIRS : 2].sum(axis=1) + add_spikes(Z)


RESPONSES = {
    "linear": (add_linear, 5),
    "LSS": (add_spikes, 2 * N_PAIRS),
    "polynomial": (add_polynomial, 2 * N_PAIRS),
    "linear and LSS": (add_both, 2 * N_PAIRS),
    "none": (lambda Z: np.zeros(len(Z)), 0),
}


@dataclass(frozen=True)
class Design:
    """How a data set is drawn."""

    columns: str
    response: str
    n_rows: int
    heritability: float
    has_classes: bool

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """X, y, and which columns are signals."""
        X = COLUMNS[self.columns](rng, self.n_rows)
        add, n_signals = RESPONSES[self.response]
        signals = rng.permutation(X.shape[1])[:n_signals]
        taken = X[:, signals]
        score = add((taken - taken.mean(axis=0)) / taken.std(axis=0))
        score = score - score.mean()
        ratio = np.sqrt(self.heritability / (1 - self.heritability)) if n_signals else 0.0
        score *= ratio / max(score.std(), 1e-12)
        noise = rng.logistic(size=self.n_rows) if self.has_classes else rng.standard_normal(self.n_rows)
        y = score + noise / (np.pi / np.sqrt(3) if self.has_classes else 1.0)
        return X, (y > np.median(y)).astype(int) if self.has_classes else y, np.isin(np.arange(X.shape[1]), signals)


DESIGNS = [
    Design(columns, response, n_rows, heritability, has_classes)
    for has_classes, n_rows, columns, response, heritability in product(
        (False, True), (250, 500, 1000), COLUMNS, RESPONSES, (0.1, 0.2, 0.4)
    )
    if n_rows <= MOST_ROWS.get(columns, n_rows) and (response != "none" or heritability == 0.1)
]
