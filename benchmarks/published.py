"""The published definitions of unbiased importance, transcribed: dense decision paths and matrix products.

For each tree, the paths of its out-of-bag rows form a matrix of rows x nodes. It determines the node means of
out-of-bag rows, eq. (pi), their impurities, eq. (delta_c), and the sums over the splits on a feature, eq. (ut), of
Zhou & Hooker.
"""

from __future__ import annotations

import numpy as np
from cases import draw_forest_data, find_oob_rows
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import truewood as tw


def score_tree(tree: DecisionTreeClassifier, X: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Compute the importance of each feature in one tree from out-of-bag rows and indicators of their classes."""
    nodes = tree.tree_
    path = tree.decision_path(X).toarray().astype(np.float64)
    n_oob = path.sum(axis=0)
    with np.errstate(invalid="ignore"):
        oob_mean = (path.T @ classes) / n_oob[:, None]
    train_mean = nodes.value[:, 0, :]
    share = nodes.weighted_n_node_samples / nodes.weighted_n_node_samples[0]
    impurity = share * (1 - (train_mean * oob_mean).sum(axis=1))
    split = np.flatnonzero(nodes.children_left >= 0)
    left, right = nodes.children_left[split], nodes.children_right[split]
    decrease = impurity[split] - impurity[left] - impurity[right]
    counts = (n_oob[left] > 0) & (n_oob[right] > 0)
    return np.bincount(nodes.feature[split[counts]], weights=decrease[counts], minlength=X.shape[1])


def score_forest(forest: RandomForestClassifier, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Compute the importance of each feature as the mean over trees."""
    classes = (y[:, None] == forest.classes_).astype(np.float64)
    oob = find_oob_rows(forest, len(X))
    return np.mean([score_tree(t, X[i], classes[i]) for t, i in zip(forest.estimators_, oob, strict=True)], axis=0)


def check() -> float:
    """Return the largest difference from truewood's scores of a small forest; exit if it exceeds 1e-10."""
    X, y = draw_forest_data(500, 6)
    forest = RandomForestClassifier(20, random_state=0).fit(X, y)
    scores = score_forest(forest, X, y)
    difference = float(np.abs(scores - tw.importance(forest, X, y, measure="ufi", inference=False).values).max())
    if not difference <= 1e-10:
        raise SystemExit(f"the transcription of the published definitions differs from truewood by {difference:.1e}")
    return difference


if __name__ == "__main__":
    print(f"largest difference from truewood's ufi scores: {check():.1e}")
