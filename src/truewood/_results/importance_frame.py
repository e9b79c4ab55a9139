"""The data frames of `ImportanceResult.frame`: by feature, and by feature and class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from truewood._results.scores_with_errors import get_classes

if TYPE_CHECKING:
    from truewood._results.importance_result import ImportanceResult

# Rank sets take the differences of all pairs of features; reports and frames of more features leave them out.
MAX_RANKED = 200


def make_frame(result: ImportanceResult) -> pd.DataFrame:
    """Make the data frame of `ImportanceResult.frame`."""
    columns: dict[str, Any] = {
        "feature": result.feature_names.tolist(),
        "importance": result.values,
        "share": result.share,
    }
    if result.inference_unavailable is None:
        low, high = result.interval()
        columns |= {"std_error": result.std_error, "ci_low": low, "ci_high": high, "p_value": result.p_value}
    columns["rank"] = rankdata(-result.values, method="min").astype(int)
    has_differences = result.inference_unavailable is None and result.contributions is not None
    if has_differences and len(result.values) <= MAX_RANKED:
        with np.errstate(all="ignore"):  # a file may hold contributions whose squares are infinite
            columns["best_rank"], columns["worst_rank"] = result.rank_sets()
    columns |= {
        "mdi": result.mdi,
        "mdi_rank": rankdata(-result.mdi, method="min").astype(int),
    }
    if result.per_fold is not None and len(result.per_fold) > 1:
        columns["fold_std"] = result.per_fold.std(axis=0, ddof=1)
    return pd.DataFrame(columns).iloc[result.order].reset_index(drop=True)


def make_class_frame(result: ImportanceResult) -> pd.DataFrame:
    """Make the data frame of scores by class of `ImportanceResult.frame`."""
    parts = get_classes(result)
    columns = {"importance": parts.values}
    if result.inference_unavailable is None:
        low, high = parts.interval()
        columns |= {"std_error": parts.std_error, "ci_low": low, "ci_high": high, "p_value": parts.p_value}
    n_classes, order = len(parts.names), result.order
    names = {
        "feature": np.repeat(result.feature_names[order], n_classes).tolist(),
        "class": np.tile(parts.names, len(order)).tolist(),
    }
    return pd.DataFrame(names | {name: numbers[:, order].T.ravel() for name, numbers in columns.items()})
