"""`corrected_importance`: mdi minus the mdi of permuted copies of the features, which is pure bias."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from truewood._arguments import check_estimator, check_n_jobs, check_seed
from truewood._engines.selection import place_rows, use_engine
from truewood._inputs.groups import read_feature_groups, sum_feature_groups
from truewood._inputs.tables import InputSpec, read_features
from truewood._measures.registry import MDI
from truewood._results.importance_result import ImportanceResult
from truewood._scoring.inputs import make_scoring_inputs
from truewood._scoring.results import average, average_mdi, weigh_trees
from truewood._scoring.trees import score_trees
from truewood.adapters import open_model


def corrected_importance(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    feature_groups: Any = None,
    n_jobs: int | None = None,
    random_state: Any = None,
    engine: str = "auto",
) -> ImportanceResult:
    """Fit a forest to the data and a permuted copy of every column, and subtract the importance of the copies.

    This is the correction of Sandri & Zuccolotto (2008) in the form of Nembrini, König & Wright (2018), available in
    R's ranger as ``importance="impurity_corrected"``. Unlike `importance`, it fits a model, with twice as many columns;
    the estimator's `max_features` counts columns and copies alike.

    Parameters
    ----------
    estimator : scikit-learn tree or forest
        The estimator to clone and fit.
    X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        Training data.
    y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        Target.
    feature_groups : dict or sequence, default=None
        Columns whose scores are summed, as in `importance`.
    n_jobs : int, default=None
        Number of threads for scoring; the estimator has its own setting for fitting.
    random_state : int, RandomState instance or None, default=None
        Seed of the permutation; the estimator has its own.
    engine : {"auto", "native", "numpy", "cuda"}, default="auto"
        Implementation that routes the rows through the trees, as in `importance`.

    Returns
    -------
    ImportanceResult
        Scores by feature and by tree: mean decrease in impurity (MDI) of the column minus that of its copy. `mdi` is
        the MDI of the columns alone.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import truewood as tw
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> result = tw.corrected_importance(RandomForestClassifier(random_state=0), X, y, random_state=0)
    >>> result.frame()["feature"][0]
    'petal length (cm)'
    """
    check_estimator(estimator)
    n_threads = check_n_jobs(n_jobs)
    X, chosen = place_rows(X, engine)
    matrix = read_features(X, InputSpec(type(estimator).__name__, None))
    grouping = read_feature_groups(feature_groups, matrix.names)
    order = check_seed(random_state).permutation(matrix.n_rows)
    join = sparse.hstack if sparse.issparse(matrix.values) else np.hstack
    joined = join([matrix.values, matrix.values[order]])
    model = clone(estimator).fit(joined, y)
    tree_model = open_model(model)
    with use_engine(chosen):
        # mdi depends on the training rows alone, so no row has to evaluate a tree.
        inputs = make_scoring_inputs(tree_model, joined, y, rows=[[]] * tree_model.n_trees)
        scores, n_columns = score_trees(inputs, MDI, n_threads=n_threads), len(matrix.names)
    corrected = sum_feature_groups(scores.scores[:, :n_columns] - scores.scores[:, n_columns:], grouping)
    averages = average(corrected, tree_model, np.ones(tree_model.n_trees, dtype=np.bool_))
    impurity = float(np.average(scores.impurity, weights=weigh_trees(tree_model)))
    return ImportanceResult(
        values=averages.values,
        share=averages.values / impurity if impurity > 0 else np.full(len(grouping.names), np.nan),
        per_tree=averages.per_tree,
        per_output=averages.per_output,
        mdi=average_mdi(sum_feature_groups(scores.mdi[:, :n_columns], grouping), tree_model),
        impurity=impurity,
        feature_names=grouping.names,
        measure="corrected",
        task=tree_model.target.kind.task,
        rows="training",
        n_rows=matrix.n_rows,
        skipped_weight=0.0,
        inference_unavailable="corrected importance is not a sum of contributions of evaluation rows; use importance()",
    )
