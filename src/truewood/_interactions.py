"""`interactions()`: which pairs of features work together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from truewood._arguments import check_n_jobs, is_count, read_feature_list
from truewood._engines.selection import place_rows, use_engine
from truewood._formatting import quote
from truewood._inputs.table_types import bring_to_host, take_from_device, take_named
from truewood._results.interactions import Interactions
from truewood._scoring.interactions import score_pairs
from truewood._streaming.open_source import check_in_memory


def interactions(
    model: Any,
    X: Any,
    y: Any,
    *,
    rows: Any = "auto",
    features: Sequence[int | str] | None = None,
    max_pairs: int = 500,
    sample_weight: Any = None,
    feature_groups: Any = None,
    groups: Any = None,
    n_jobs: int | None = None,
    engine: str = "auto",
) -> Interactions:
    """Score pairs of features of a fitted tree model by their joint effect on rows its trees never saw.

    A prediction without a feature follows both branches of each split on it, weighted by their training rows. The joint
    effect of two features is the prediction, minus the prediction without the first, minus the prediction without the
    second, plus the prediction without both. A score is the variance of the target that the joint effect explains on
    evaluation rows, beyond what functions that do not combine the two features can explain. Nothing is refit.

    Parameters
    ----------
    model : object
        A fitted tree, forest or boosted model, or a Pipeline that ends in one, as in `importance`. Models of survival
        times, causal forests, YDF forests whose trees vote, and CatBoost models with categorical features are not
        supported.
    X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        The training data for ``rows="oob"``, held-out data for ``rows="heldout"``.
    y : array-like of shape (n_rows,) or (n_rows, n_outputs), or str
        The target, or the name of its column in X.
    rows : {"auto", "oob", "heldout"} or sequence of array-like, default="auto"
        Which rows each tree is evaluated on, as in `importance`.
    features : sequence of int or str, default=None
        Names or indices of features; only pairs of these are scored. None means all features. Scores also control for
        the separate effects of features that are not listed.
    max_pairs : int, default=500
        Maximum number of pairs to score. If there are more, those whose splits on the same paths reduce the training
        impurity most are scored; evaluation rows are not used for this choice.
    sample_weight : array-like of shape (n_rows,) or str, default=None
        Weights of the rows, as in `importance`.
    feature_groups : dict or sequence, default=None
        Columns that form one feature, as in `importance`: the joint effect of two groups is that of all their columns.
    groups : array-like of shape (n_rows,) or str, default=None
        Clusters of rows, as in `importance`; standard errors and p-values are then cluster-robust.
    n_jobs : int, default=None
        Number of threads, as in scikit-learn; the result does not depend on it.
    engine : {"auto", "native", "numpy", "cuda"}, default="auto"
        Implementation that routes the rows through the trees, as in `importance`; with "cuda", joint effects are
        computed by the compiled kernel in the host's memory.

    Returns
    -------
    Interactions
        Scores by pair, with standard errors and p-values. A pair without an interaction scores zero on average, so
        scores may be negative. P-values are withheld if the two features depend too strongly on each other.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> import truewood as tw
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 4))
    >>> y = X[:, 0] + X[:, 1] + X[:, 0] * X[:, 1] + X[:, 2] + rng.normal(size=400)
    >>> forest = RandomForestRegressor(min_samples_leaf=5, random_state=0).fit(X, y)
    >>> result = tw.interactions(forest, X, y)
    >>> result.pairs[result.select()].tolist()
    [[0, 1]]
    """
    if not is_count(max_pairs, 1):
        raise ValueError(f"max_pairs must be a whole number above 0, got {quote(max_pairs)}.")
    listed = read_feature_list(features)
    check_in_memory(X, "interactions")
    X, chosen = place_rows(X, engine)
    X = take_from_device(X, "interactions")
    y, sample_weight, groups = map(bring_to_host, (y, sample_weight, groups))
    if isinstance(rows, list | tuple):
        rows = [bring_to_host(listed) for listed in rows]
    X, y, sample_weight, groups = take_named(X, y=y, sample_weight=sample_weight, groups=groups)
    with use_engine(chosen):
        return score_pairs(
            model,
            X,
            y,
            rows=rows,
            features=listed,
            max_pairs=int(max_pairs),
            sample_weight=sample_weight,
            feature_groups=feature_groups,
            groups=groups,
            n_threads=check_n_jobs(n_jobs),
        )
