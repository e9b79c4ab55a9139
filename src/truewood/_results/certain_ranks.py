"""Which part of the order of features is certain, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from truewood._formatting import enumerate_names

if TYPE_CHECKING:
    from truewood._results.importance_result import ImportanceResult

# Rank sets take the differences of all pairs of features; reports and frames of more features leave them out.
MAX_RANKED = 200


def write_certain_top(result: ImportanceResult, alpha: float) -> str:
    """Write which features are the top k with confidence 1 - alpha, for the largest such k, or are among them."""
    _, worst = result.rank_sets(alpha)
    confidence, n_features = f"{100 * (1 - alpha):g}% confidence", len(worst)
    n_top = max((k for k in range(1, n_features) if np.count_nonzero(worst <= k) == k), default=0)
    if not n_top and worst.min() == n_features:
        return f"At {confidence}, no feature can be ranked above another one."
    k = n_top or int(worst.min())
    named = enumerate_names([str(result.feature_names[j]) for j in result.order.tolist() if worst[j] <= k])
    if n_top:
        top = f"the top {k} features are" if k > 1 else "the top feature is"
        return f"With {confidence}, {top} {named}."
    verb = "is" if np.count_nonzero(worst == k) == 1 else "are"
    return f"With {confidence}, {named} {verb} among the top {k} features."
