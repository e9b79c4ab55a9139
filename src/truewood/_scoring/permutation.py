"""Scores by permuting columns: the rows of a tree swap one column at a time with other rows of the same tree."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from truewood._engines.records import RowLists
from truewood._measures.registry import Measure
from truewood._scoring.inputs import ScoringInputs
from truewood._trees.ensemble import TreeEnsemble

# Maximum number of leaves in memory at a time.
_BLOCK_LEAVES = 1 << 20


def permute_columns(
    inputs: ScoringInputs,
    measure: Measure,
    trees: range,
    means: TreeEnsemble,
    rows: RowLists,
    seeds: NDArray[np.int64] | None,
) -> NDArray[np.float64]:
    """Scores of some trees, shape (n_trees, n_features, n_outputs), by blocks of rows.

    Parameters
    ----------
    inputs : ScoringInputs
        Model and rows.
    measure : Measure
        A measure with a `loss_increase`.
    trees : range
        Which trees.
    means : TreeEnsemble
        These trees, with training means at their nodes.
    rows : RowLists
        Their evaluation rows.
    seeds : ndarray of int, shape (n_trees of the model,)
        Seeds of the permutations.
    """
    if measure.loss_increase is None or seeds is None:
        raise ValueError(f"measure {measure.name!r} has neither a formula of splits nor one of leaves with seeds.")
    ensemble, data = inputs.tree_model.read(trees), inputs.data  # with the values it predicts
    if ensemble.statistic in ("mean", "leaf"):
        # Means if it has no such values, or if other rows gave honest trees theirs.
        ensemble = means
    scores = np.zeros((len(trees), ensemble.n_features, ensemble.kind.n_outputs))
    block = max(1, _BLOCK_LEAVES // ensemble.n_features)
    for k, tree in enumerate(trees):
        one, own = ensemble[k : k + 1], rows.of_tree(k)
        donors = np.random.default_rng(seeds[tree]).permutation(own)
        weight = np.ones(len(own)) if inputs.row_weight is None else inputs.row_weight[own]
        for start in range(0, len(own), block):
            part = slice(start, start + block)
            leaves = inputs.tree_model.find_leaves(range(tree, tree + 1), one, data.matrix, RowLists.join([own[part]]))
            swapped = inputs.tree_model.find_swapped_leaves(tree, one, data.matrix, own[part], donors[part])
            scores[k] += measure.loss_increase(one, leaves, swapped, data.target.take(own[part]), weight[part])
        scores[k] /= max(weight.sum(), np.finfo(np.float64).tiny)
    return scores
