"""MDI+ with ridge regression, written from Agarwal et al. (2023), for forests of scikit-learn.

Per tree, all rows are regressed on the stumps of the tree and the columns that it splits on, with the penalty of 100
that predicts best if rows are left out. A feature scores the R2 of its part of the prediction, from coefficients of a
regression without the row. The choices that the paper leaves open follow the defaults of the imodels package: stumps
with the square of each summing to the node's weight, columns on the scale of the feature's largest stump.
"""

from __future__ import annotations

import numpy as np

PENALTIES = np.logspace(-5, 5, 100)


def score_mdi_plus(forest: object, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """MDI+ of each column, given a forest for numbers or for two classes, 0 and 1."""
    return np.mean([score_tree(tree, X, y.astype(float)) for tree in forest.estimators_], axis=0)


def score_tree(tree: object, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """R2 of the partial predictions, 0 for a column that the tree does not split on."""
    nodes, n_rows = tree.tree_, len(X)
    scores, splits = np.zeros(X.shape[1]), np.flatnonzero(nodes.children_left >= 0)
    if len(splits) == 0:
        return scores
    reached = tree.decision_path(X).toarray()
    left, right, weight = nodes.children_left[splits], nodes.children_right[splits], nodes.weighted_n_node_samples
    ratio = np.sqrt(weight[right] / weight[left])
    stumps = reached[:, left] * -ratio + reached[:, right] / ratio
    used, place = np.unique(nodes.feature[splits], return_inverse=True)
    largest = np.zeros(len(used))
    np.maximum.at(largest, place, stumps.std(axis=0))
    design = np.column_stack([stumps, X[:, used] * (largest / X[:, used].std(axis=0))])
    design -= design.mean(axis=0)
    block = np.append(place, np.arange(len(used)))
    U, size, V = np.linalg.svd(design, full_matrices=False)
    mean = y.mean()
    projected = U.T @ (y - mean)
    shrunk = size[:, np.newaxis] ** 2 / (size[:, np.newaxis] ** 2 + PENALTIES)
    leverage = 1.0 / n_rows + U**2 @ shrunk
    left_out = (y[:, np.newaxis] - mean - U @ (shrunk * projected[:, np.newaxis])) / (1.0 - leverage)
    best = int((left_out**2).mean(axis=0).argmin())
    rate = size / (size**2 + PENALTIES[best])
    effect = design * ((U * rate) @ V)  # of leaving a row out, on the part of each column in its own prediction
    fitted = design * (V.T @ (rate * projected))
    for k, column in enumerate(used):
        own = block == k
        moved = left_out[:, best] * (effect[:, own].sum(axis=1) + 1.0 / n_rows)
        part = mean + fitted[:, own].sum(axis=1) - moved
        scores[column] = 1.0 - ((y - part) ** 2).sum() / ((y - mean) ** 2).sum()
    return scores
