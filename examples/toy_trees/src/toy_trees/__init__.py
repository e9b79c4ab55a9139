"""A toy tree library: `StumpForest`, a random forest of stumps. It does not import truewood."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["StumpForest"]
__version__ = "1.0"


class StumpForest:
    """A regression forest whose trees have one split each.

    Each tree is fit to a bootstrap sample. It splits one column, chosen at random, where that reduces the squared error
    the most. Rows with ``x <= threshold`` go left.
    """

    def __init__(self, n_trees: int = 200, random_state: int = 0) -> None:
        self.n_trees = n_trees
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> StumpForest:
        """Fit the forest to numbers X, shape (n_rows, n_columns), and y, shape (n_rows,)."""
        X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
        rng = np.random.default_rng(self.random_state)
        self.shape_ = X.shape
        self.bags_ = rng.integers(len(X), size=(self.n_trees, len(X)))
        self.column_ = rng.integers(X.shape[1], size=self.n_trees)
        self.threshold_ = np.array(
            [find_threshold(X[bag, j], y[bag]) for bag, j in zip(self.bags_, self.column_, strict=True)]
        )
        # Three nodes per tree: root, left leaf, right leaf.
        self.count_ = np.zeros((self.n_trees, 3))
        self.mean_ = np.zeros((self.n_trees, 3))
        for tree, leaves in enumerate(self.apply(X).T):
            bag = self.bags_[tree]
            for node, rows in enumerate((bag, bag[leaves[bag] == 1], bag[leaves[bag] == 2])):
                self.count_[tree, node], self.mean_[tree, node] = len(rows), y[rows].mean()
        return self

    def apply(self, X: Any) -> np.ndarray:
        """Return the leaf of each row in each tree, 1 or 2, shape (n_rows, n_trees)."""
        return np.where(np.asarray(X, dtype=np.float64)[:, self.column_] <= self.threshold_, 1, 2)

    def predict(self, X: Any) -> np.ndarray:
        """Predict y, shape (n_rows,)."""
        return self.mean_[np.arange(self.n_trees), self.apply(X)].mean(axis=1)


def find_threshold(x: np.ndarray, y: np.ndarray) -> float:
    """Return the value of x below the best split."""
    order = np.argsort(x, kind="stable")
    x, total = x[order], np.cumsum(y[order])
    n_left = np.flatnonzero(x[1:] > x[:-1]) + 1
    left, right = total[n_left - 1], total[-1] - total[n_left - 1]
    return float(x[n_left[(left**2 / n_left + right**2 / (len(x) - n_left)).argmax()] - 1])
