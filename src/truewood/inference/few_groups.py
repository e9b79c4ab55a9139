"""What it takes to tell errors from groups of rows that belong together, and how they grow where groups are few."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Fewer groups than this say too little about their spread.
_FEWEST_GROUPS = 20


def find_problem_of_groups(size: Floats) -> str | None:
    """Why errors cannot be measured, given the number of rows of each group that score; None where they can."""
    n_groups = _count_groups(size)
    if n_groups >= _FEWEST_GROUPS:
        return None
    found = np.count_nonzero(size)
    as_few = f", which count as {n_groups:.1f} as they differ in size" if n_groups < found - 0.05 else ""
    return f"it takes at least {_FEWEST_GROUPS} groups of rows that score the model, got {found}{as_few}"


def widen_for_groups(size: Floats) -> float:
    """What variances grow by because they are found from groups, not from as many rows, given the size of each group.

    A sum of squares around a mean is short of a variance by the factor (n - 1) / n, and Student's distribution is wider
    than the normal one, by (n - 1) / (n - 3) in variance. For rows neither is counted, so that here it is the ratio of
    groups to rows: 1 for groups of one row.
    """
    n_groups, n_rows = max(_count_groups(size), _FEWEST_GROUPS), max(float(size.sum()), _FEWEST_GROUPS)
    return n_groups * (n_rows - 3.0) / (n_rows * (n_groups - 3.0))


def _count_groups(size: Floats) -> float:
    """Number of groups of the same size that tell as much (Kish)."""
    return float(size.sum() ** 2 / (size**2).sum()) if size.any() else 0.0
