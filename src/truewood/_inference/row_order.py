"""Row order: contributions of neighboring rows are correlated if rows depend on each other, as in a time series."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from truewood._exceptions import warn
from truewood._formatting import quote

Floats = NDArray[np.float64]

# The test looks at the first rows only, so that its cost does not matter.
MOST_ROWS = 4_000
_MOST_VALUES = 1 << 22
_FEWEST_ROWS = 20
# Least share of rows that contribute to a feature: among few of them, two neighbors are a strong correlation.
_LEAST_SHARE = 0.25
# Warnings for independent rows are as rare as this.
_ALPHA = 1e-4


def warn_of_dependent_rows(
    phi: Floats, names: NDArray[np.str_], target: Floats, parts: Sequence[NDArray[np.int64]] | None = None
) -> None:
    """Warn if contributions of neighboring rows are correlated, unless rows are sorted by the target.

    If rows are sorted by the target, neighbors contribute alike to the scores of useful features although rows are
    independent.

    Parameters
    ----------
    phi : ndarray of shape (n_rows, n_features)
        Contributions of all rows, or of the first ones, in their order.
    names : ndarray of str, shape (n_features,)
        Names of the features.
    target : ndarray of shape (n_rows, n_outputs)
        The target of the same rows; classes as numbers.
    parts : sequence of ndarray of int64, or None
        Numbers of the rows of each fold; None if all rows evaluate the same model.
    """
    found = find_correlated_neighbors(phi, parts)
    if found is None or _is_sorted(target):
        return
    feature, correlation = found
    warn(
        f"contributions of neighboring rows to {quote(str(names[feature]))} are correlated (rank correlation "
        f"{correlation:.2f} of each row and the next). If neighbors come from the same unit, or follow each other in "
        "time or place, they depend on each other, and p-values are far too small: use cross_importance with the "
        "units, or blocks of consecutive rows, as groups=, and hold out stretches of blocks. If rows are independent "
        "and were merely sorted by a column, p-values are correct."
    )


def find_correlated_neighbors(
    phi: Floats, parts: Sequence[NDArray[np.int64]] | None = None
) -> tuple[int, float] | None:
    """The feature whose contributions of neighboring rows are most correlated, and that rank correlation.

    None if independent rows would be as correlated. Ranks make the test exact enough for contributions of any
    distribution, unless most of them are zero; such features are left out. In random order, their
    correlation with the next row has standard error 1 / sqrt(n). Ranks are those within a fold, because
    contributions of different folds have different distributions; neighbors may be in different folds, as they are if
    rows were shuffled.
    """
    n_rows = min(MOST_ROWS, max(_FEWEST_ROWS, _MOST_VALUES // max(phi.shape[1], 1)))
    numbers, ranked = [], []
    for part in [np.arange(len(phi))] if parts is None else parts:
        rows = np.sort(part)[:n_rows]
        rows = rows[(phi[rows] != 0).any(axis=1)]  # rows in every bag have no contributions
        own = phi[rows]
        if len(own) < _FEWEST_ROWS or not np.isfinite(own).all():
            continue
        ranks = stats.rankdata(own, axis=0)
        ranks -= ranks.mean(axis=0)
        spread = np.where((own != 0).mean(axis=0) < _LEAST_SHARE, 0.0, ranks.std(axis=0))
        numbers.append(rows)
        ranked.append(np.divide(ranks, spread, out=np.zeros_like(ranks), where=spread > 0))
    if not ranked:
        return None
    _, first = np.unique(np.concatenate(numbers), return_index=True)  # a row may be in several folds
    ranks = np.concatenate(ranked)[first]
    squares, products = (ranks**2).sum(axis=0), (ranks[1:] * ranks[:-1]).sum(axis=0)
    if not squares.any():
        return None
    strongest = int(products.argmax())
    if np.count_nonzero(squares) * stats.norm.sf(products[strongest] / np.sqrt(len(ranks))) > _ALPHA:
        return None
    return strongest, float(products[strongest] / squares[strongest])


def _is_sorted(target: Floats) -> bool:
    """Whether rows with the same target are all next to each other, for any output."""
    for column in target.T:
        step, n_distinct = np.diff(column), len(np.unique(column))
        if (step >= 0).all() or (step <= 0).all():
            return True
        if n_distinct < len(column) and np.count_nonzero(step) == n_distinct - 1:
            return True
    return False
