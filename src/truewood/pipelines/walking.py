"""The single transformers within fitted preprocessing, however its parts are nested."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils.validation import check_is_fitted


def is_skipped(transformer: Any) -> bool:
    """Whether a step changes nothing when a model predicts: none, or one that resamples rows for the fit."""
    return transformer is None or isinstance(transformer, str) or hasattr(transformer, "fit_resample")


def list_transformers(transformer: Any, *, only_first: bool = False) -> Iterator[Any]:
    """All single transformers within fitted preprocessing, or only the first of each Pipeline in it."""
    if isinstance(transformer, Pipeline):
        parts = [part for _, part in transformer.steps if not is_skipped(part)][: 1 if only_first else None]
    elif isinstance(transformer, ColumnTransformer):
        check_is_fitted(transformer)
        parts = [part for _, part, _ in transformer.transformers_]
    elif isinstance(transformer, FeatureUnion):
        parts = [part for _, part in transformer.transformer_list]
    elif type(transformer).__name__ == "FrozenEstimator":
        parts = [transformer.estimator]
    else:
        yield from () if is_skipped(transformer) else (transformer,)
        return
    for part in parts:
        yield from list_transformers(part, only_first=only_first)
