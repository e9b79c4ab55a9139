"""Which pairs of features to test, those asked for or those whose splits share paths, and what to control for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._arguments import find_index
from truewood._formatting import list_names, quote
from truewood._inputs.groups import Grouping
from truewood._scoring.node_means import read_fitted_means
from truewood._trees.ensemble import TreeEnsemble
from truewood.adapters import TreeModel

Floats = NDArray[np.float64]
Pairs = NDArray[np.int64]

_BATCH_NODES = 1 << 18
# Maximum number of features outside all pairs that scores control for.
_MOST_OTHERS = 100


def list_pairs(names: list[str], features: Sequence[int | str] | None) -> Pairs:
    """All pairs of features, or of those that are asked for, ascending, shape (n_pairs, 2)."""
    chosen = range(len(names)) if features is None else sorted({_find_feature(feature, names) for feature in features})
    if len(chosen) < 2:
        what = "X must have" if features is None else "features must list"
        raise ValueError(f"{what} at least two features, got {list_names([names[j] for j in chosen])}.")
    return np.array(list(combinations(chosen, 2)), dtype=np.int64)


def choose_pairs(tree_model: TreeModel, grouping: Grouping, pairs: Pairs, max_pairs: int) -> Pairs:
    """The pairs to test, ascending.

    If there are too many, those with the largest training gain of splits that share a path are tested: the choice
    depends on the fitted trees only, never on the evaluation rows.
    """
    if len(pairs) <= max_pairs:
        return pairs
    n_features = len(grouping.names)
    key, gain = _sum_shared_gain(tree_model, grouping)
    is_listed = np.isin(key, pairs[:, 0] * n_features + pairs[:, 1])
    key, gain = key[is_listed], gain[is_listed]
    if not len(key):
        raise ValueError(
            "no two features share a path in the trees, so there is no interaction to test; fit deeper trees."
        )
    best = np.sort(key[np.argsort(-gain, kind="stable")[:max_pairs]])
    return np.column_stack(np.divmod(best, n_features))


def find_used(tree_model: TreeModel, grouping: Grouping, pairs: Pairs) -> tuple[NDArray[np.int64], Pairs]:
    """The features of pairs, ascending, then others of the model, and the pairs by position among these.

    Scores control for the other features: if there are too many, for those with the largest training gain.
    """
    used, local = np.unique(pairs, return_inverse=True)
    others = np.setdiff1d(np.arange(len(grouping.names)), used)
    if len(others) > _MOST_OTHERS:
        total = np.zeros(len(grouping.names))
        for trees in tree_model.split_trees(most_nodes=_BATCH_NODES):
            ensemble = read_fitted_means(tree_model, trees)
            feature = grouping.group_of[ensemble.feature[ensemble.splits]]
            total += np.bincount(feature, weights=_measure_gain(ensemble), minlength=len(total))
        others = np.sort(others[np.argsort(-total[others], kind="stable")[:_MOST_OTHERS]])
    return np.concatenate([used, others]), local.reshape(pairs.shape)


def _find_feature(feature: Any, names: list[str]) -> int:
    found = find_index(feature, names)
    if found is not None:
        return found
    raise ValueError(
        f"features must list features by a name that occurs once or by a number from 0 to {len(names) - 1}, got "
        f"{quote(feature)}; the features are {list_names(names)}."
    )


def _sum_shared_gain(tree_model: TreeModel, grouping: Grouping) -> tuple[NDArray[np.int64], Floats]:
    """For each pair of features that share a path, as first * n + second: the training gain of the lower splits."""
    n_features, totals = len(grouping.names), dict[int, float]()
    for trees in tree_model.split_trees(most_nodes=_BATCH_NODES):
        ensemble = read_fitted_means(tree_model, trees)
        splits, gain = ensemble.splits, _measure_gain(ensemble)
        feature = grouping.group_of[ensemble.feature].astype(np.int64)
        above, at = ensemble.parent[splits], np.arange(len(splits))
        is_below = above != splits
        while is_below.any():
            above, at = above[is_below], at[is_below]
            own, other = feature[splits[at]], feature[above]
            key = np.minimum(own, other) * n_features + np.maximum(own, other)
            found, inverse = np.unique(key[own != other], return_inverse=True)
            summed = np.bincount(inverse, weights=gain[at][own != other], minlength=len(found))
            for pair, more in zip(found.tolist(), summed.tolist(), strict=True):
                totals[pair] = totals.get(pair, 0.0) + more
            is_below = ensemble.parent[above] != above
            above = ensemble.parent[above]
    keys = np.array(sorted(totals), dtype=np.int64)
    return keys, np.array([totals[pair] for pair in keys.tolist()])


def _measure_gain(ensemble: TreeEnsemble) -> Floats:
    """Training gain of each split."""
    left, right = ensemble.split_children
    total = ensemble.weight[left] + ensemble.weight[right]
    product = np.divide(ensemble.weight[left] * ensemble.weight[right], total, out=np.zeros(len(left)), where=total > 0)
    gain: Floats = product * ((ensemble.value[left] - ensemble.value[right]) ** 2).sum(axis=1)
    return gain
