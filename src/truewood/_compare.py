"""`compare`: differences between two results, with standard errors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from truewood._arguments import read_flag
from truewood._formatting import count, quote, shorten
from truewood._inference.differences import measure_paired_oob_variance, measure_paired_variance
from truewood._inference.moments import drop_rounding
from truewood._message import Message
from truewood._results.comparison import Comparison
from truewood._results.feature_differences import get_forest_noise
from truewood._results.importance_result import ImportanceResult

Floats = NDArray[np.float64]


def compare(
    a: ImportanceResult,
    b: ImportanceResult,
    *,
    names: tuple[str, str] = ("a", "b"),
    same_rows: bool | None = None,
) -> Comparison:
    """Compare two results feature by feature and test whether their importances differ.

    Compare two models on the same held-out rows, two forests on the same training data (out of bag), one model on two
    disjoint sets of rows (such as periods or regions), or two forests trained on different data.

    Parameters
    ----------
    a, b : ImportanceResult
        The results to compare; they must have the same features, measure and task. Results on the same rows, in the
        same order, need ``contributions=True`` so that rows can be paired.
    names : tuple of (str, str), default=("a", "b")
        Names of the results in tables, plots and reports.
    same_rows : bool, default=None
        Whether both results use the same rows, which are then paired by position; this needs ``contributions=True`` for
        both results. False treats the results as independent; with ``groups=``, they must not have a group in common.
        None treats the results as independent if their numbers of rows differ, and otherwise pairs rows or, without
        ``contributions=True``, raises an error. Pairing is also valid if the rows are in fact different and
        independent.

    Returns
    -------
    Comparison
        Differences (a minus b), standard errors and two-sided p-values.

    Raises
    ------
    ValueError
        If the results cannot be compared; the message states why.

    Examples
    --------
    >>> import truewood as tw
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> forest = RandomForestRegressor(random_state=0).fit(X[:200], y[:200])
    >>> early, late = (tw.importance(forest, X[k : k + 100], y[k : k + 100], rows="heldout") for k in (200, 300))
    >>> comparison = tw.compare(early, late, same_rows=False)
    >>> bool((comparison.adjusted_p_value() > 0.05).all())
    True
    """
    for name, result in (("a", a), ("b", b)):
        if not isinstance(result, ImportanceResult):
            raise TypeError(
                f"{name} must be an ImportanceResult, got {type(result).__name__}; pass what importance() returns."
            )
    if not isinstance(names, list | tuple) or len(names) != 2:
        raise ValueError(f"names must be a pair of names, got {quote(names)}; pass names=('before', 'after').")
    if same_rows is not None:
        same_rows = read_flag(same_rows, "same_rows", " or None")
    in_words = (shorten(str(names[0])), shorten(str(names[1])))
    _check_scale(a, b, in_words)
    b_order = _match_features(a, b, in_words)
    is_paired = _decide_pairing(a, b, same_rows, in_words)
    _check_row_groups(a, b, in_words, is_paired=is_paired)
    values_b = b.values[b_order]
    variance = independent = a.std_error**2 + b.std_error[b_order] ** 2
    if is_paired and a.contributions is not None and b.contributions is not None:
        contributions_a, contributions_b = a.contributions, b.contributions[:, b_order]
        if a.rows == "heldout":
            variance = measure_paired_variance(contributions_a, contributions_b, a.groups)
        else:
            errors = (a.std_error, b.std_error[b_order])
            noise = (get_forest_noise(a), get_forest_noise(b)[b_order])
            variance = measure_paired_oob_variance(contributions_a, contributions_b, *errors, *noise, a.groups)
    return Comparison(
        difference=a.values - values_b,
        std_error=np.sqrt(drop_rounding(variance, np.sqrt(independent))),
        values_a=a.values,
        values_b=values_b,
        feature_names=a.feature_names,
        names=(str(names[0]), str(names[1])),
        is_paired=is_paired,
        rows=a.rows,
        n_rows=(a.n_rows, b.n_rows),
        measure=a.measure,
        task=a.task,
        is_additive=a.is_additive and b.is_additive,
        n_groups=a.n_groups if is_paired else None,
    )


def _check_scale(a: ImportanceResult, b: ImportanceResult, names: tuple[str, str]) -> None:
    """Reject results with scores on different scales."""
    both = " and ".join(names)
    for name, result in zip(names, (a, b), strict=True):
        if result.inference_unavailable is not None:
            raise ValueError(f"{name} must have standard errors, but has none: {result.inference_unavailable}.")
    for kind in ("task", "measure"):
        if getattr(a, kind) != getattr(b, kind):
            raise ValueError(
                f"{both} must have the same {kind}, got {quote(getattr(a, kind))} and {quote(getattr(b, kind))}, "
                f"whose scores cannot be compared; pass results with the same {kind}."
            )
    if len(a.per_output) != len(b.per_output):
        raise ValueError(
            f"{both} must have the same number of outputs, got {len(a.per_output)} and {len(b.per_output)}, whose "
            "scores are on different scales; score models with the same outputs."
        )
    has_share = [not np.isnan(result.share).all() for result in (a, b)]
    if has_share[0] != has_share[1] or (a.is_additive != b.is_additive and not all(has_share)):
        raise ValueError(
            f"{both} are on different scales: only one of them has scores in units of the raw scores of boosted trees, "
            "which depend on the loss. Compare models of the same kind and loss."
        )
    if a.rows != b.rows:
        raise ValueError(
            f"{both} must be scored on the same kind of rows, got rows={quote(a.rows)} and {quote(b.rows)}: "
            "held-out rows evaluate one fitted model, out-of-bag rows a forest fit to all rows, and folds models that "
            "are each fit to a part of the rows. Score both on the same kind of rows."
        )


def _match_features(a: ImportanceResult, b: ImportanceResult, names: tuple[str, str]) -> NDArray[np.int64]:
    """Return the positions in b of the features of a."""
    names_a, names_b = a.feature_names.tolist(), b.feature_names.tolist()
    if names_a == names_b:
        return np.arange(len(names_a))
    positions = {name: position for position, name in enumerate(names_b)}
    if len(names_a) != len(names_b) or len(positions) < len(names_b) or set(names_a) != positions.keys():
        only_a, only_b = [n for n in names_a if n not in positions], [n for n in names_b if n not in names_a]
        reason = f"{quote((only_a or only_b)[0])} is only in {names[0 if only_a else 1]}"
        if not only_a and not only_b:
            reason = "names are repeated"
        raise ValueError(
            f"{' and '.join(names)} must have the same features, got {count(len(names_a), 'feature')} and "
            f"{len(names_b):,}: {reason}. Score both on the same columns, with the same feature_groups=."
        )
    return np.array([positions[name] for name in names_a])


def _decide_pairing(a: ImportanceResult, b: ImportanceResult, same_rows: bool | None, names: tuple[str, str]) -> bool:
    """Decide whether to pair rows; raise an error if the same rows could be mistaken for independent ones."""
    if same_rows is False:
        return False
    have_rows = a.contributions is not None and b.contributions is not None
    if a.n_rows == b.n_rows and have_rows:
        return True
    if a.n_rows != b.n_rows:
        if same_rows:
            raise ValueError(
                f"same_rows=True needs results with the same rows, but {names[0]} has {count(a.n_rows, 'row')} and "
                f"{names[1]} has {b.n_rows:,}; leave same_rows out."
            )
        return False
    raise ValueError(
        Message(
            f"{' and '.join(names)} have {count(a.n_rows, 'row')} each; if these are the same rows, the results are "
            "not independent.",
            "Score both with {contributions}, so that rows can be paired, or pass {same_rows} if they have no rows in "
            "common.",
            contributions=True,
            same_rows=False,
        )
    )


def _check_row_groups(a: ImportanceResult, b: ImportanceResult, names: tuple[str, str], *, is_paired: bool) -> None:
    """Reject results with different groups of rows, or with groups in only one of them."""
    if (a.n_groups is None) != (b.n_groups is None):
        has, lacks = names if b.n_groups is None else names[::-1]
        raise ValueError(f"{has} has groups and {lacks} has none; score both with groups=.")
    groups_a, groups_b = a.groups, b.groups
    if is_paired and groups_a is not None and groups_b is not None and not np.array_equal(groups_a, groups_b):
        raise ValueError(
            f"{' and '.join(names)} have the same number of rows but different groups; score both with the same "
            "groups=."
        )
