"""`accumulate()`: what some rows say at the leaves of a model, to be merged with what other rows say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from truewood._arguments import check_n_jobs, count_rows, is_count
from truewood._formatting import quote
from truewood._inputs.row_arrays import take_named
from truewood._inputs.target import NumberTarget
from truewood._streaming.model import Rows, StreamingModel
from truewood._streaming.partial_sums import Partial
from truewood._streaming.row_sample import RowSample
from truewood._streaming.tree_passes import sum_at_leaves

# Rows that are kept for errors where the data are read only once.
N_SAMPLE = 100_000


def accumulate(
    model: Any,
    X: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    target: Any = None,
    n_sample: int = N_SAMPLE,
    n_jobs: int | None = None,
) -> Partial:
    """Sum up what some of the rows that a model never saw say at its leaves.

    With `finish`, this is `importance` with ``rows="heldout"`` for rows that are nowhere together: partials of disjoint
    rows add up by ``+``, on any engine and in any order.

    Parameters
    ----------
    model : object
        As of `importance`.
    X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        Some of the rows; there may be none.
    y : array-like of shape (n_rows,) or (n_rows, n_outputs), or str
        Their target, or the name of its column in X.
    sample_weight : array-like of shape (n_rows,) or str, default=None
        Their weights, or the name of their column in X.
    target : callable, default=None
        For boosted trees, a function that makes of y what scores them, as of `importance`. Losses whose target
        follows from a constant that one part of the rows does not tell (quantile, absolute error, Huber and other
        robust ones) need it.
    n_sample : int, default=100_000
        Number of rows that are kept for standard errors without a second pass; 0 for none. Which rows these are
        depends on nothing but the rows themselves.
    n_jobs : int, default=None
        Number of threads, as in scikit-learn.

    Returns
    -------
    Partial
        The sums.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> import truewood as tw
    >>> X, y = load_diabetes(return_X_y=True)
    >>> forest = RandomForestRegressor(20, random_state=0).fit(X[:200], y[:200])
    >>> total = sum(tw.accumulate(forest, X[part], y[part]) for part in (slice(200, 300), slice(300, None)))
    >>> tw.finish(forest, total).n_rows
    242
    """
    if not is_count(n_sample, 0):
        raise ValueError(f"n_sample must be a number of rows, 0 for none, got {quote(n_sample)}.")
    n_threads = check_n_jobs(n_jobs)
    opened = StreamingModel(model, target=target)
    return accumulate_rows(opened, X, y, sample_weight, n_sample=int(n_sample), n_threads=n_threads)


def accumulate_rows(
    opened: StreamingModel, X: Any, y: Any, sample_weight: Any, *, n_sample: int = N_SAMPLE, n_threads: int = 1
) -> Partial:
    """`accumulate` with a model that has been opened before, for one part of the rows after the other."""
    X, y, sample_weight = take_named(X, y=y, sample_weight=sample_weight)
    if count_rows(X) == 0:
        return make_empty(opened, n_sample)
    return sum_rows(opened, opened.read(X, y, sample_weight), n_sample=n_sample, n_threads=n_threads)


def sum_rows(opened: StreamingModel, rows: Rows, *, n_sample: int, n_threads: int) -> Partial:
    """Sum up rows that have been read."""
    names = tuple(str(name) for name in rows.matrix.names)
    none = replace(
        make_empty(opened, n_sample),
        names=names,
        encoding=rows.encoding,
        numbering=rows.numbering,
        y_sums=rows.y_sums,
        n_rows=rows.matrix.n_rows,
    )
    weight, is_scoring = rows.weight, rows.is_scoring
    if not is_scoring.any():
        return none
    origin = np.average(rows.said, axis=0, weights=weight) if opened.is_additive else opened.model_origin
    target = opened.make_target(rows.said, origin)
    each = np.ones(len(is_scoring)) if weight is None else weight
    moments, y_range = none.moments, none.y_range
    if isinstance(target, NumberTarget):
        moments = np.stack([each @ target.numbers, each @ target.numbers**2])
        y_range = np.stack([rows.said[is_scoring].min(axis=0), rows.said[is_scoring].max(axis=0)])
    can_sample = n_sample > 0 and not opened.tree_model.finds_leaves
    return replace(
        none,
        sums=sum_at_leaves(opened, rows.matrix, target, weight, n_threads),
        origin=origin,
        moments=moments,
        y_range=y_range,
        n_scoring=int(np.count_nonzero(is_scoring)),
        weight=float(each.sum()),
        least_weight=float(each[is_scoring].min()),
        largest_weight=float(each.max()),
        sample=RowSample.draw(opened, rows, n_sample) if can_sample else None,
    )


def make_empty(opened: StreamingModel, n_sample: int) -> Partial:
    """Sums over no rows."""
    form, n_leaves = opened.tree_model.target, int(opened.leaf_offset[-1])
    if opened.counts_classes:
        n_sums, n_columns, n_moments = 1 + form.kind.n_columns, form.kind.n_columns, 0
    else:
        n_columns = n_moments = form.n_scores if opened.is_additive else form.kind.n_columns
        n_sums = 1 + (1 if opened.is_additive else 2) * (n_columns if opened.column is None else 1)
    constant = None if opened.constant is None else tuple(opened.constant.tolist())
    return Partial(
        fingerprint=opened.fingerprint,
        settings=(opened.own_target is not None, constant, n_sample),
        names=None,
        encoding=None,
        numbering=None,
        sums=np.zeros((n_leaves, n_sums)),
        leaf_offset=opened.leaf_offset,
        column=opened.column,
        origin=np.zeros(n_columns),
        moments=np.zeros((2, n_moments)),
        y_range=np.repeat([[np.inf], [-np.inf]], n_moments, axis=1),
        y_sums=np.zeros((2, 1)),
        n_rows=0,
        n_scoring=0,
        weight=0.0,
        least_weight=np.inf,
        largest_weight=0.0,
        sample=None,
    )
