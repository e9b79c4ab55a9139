"""Levels in a table that a saved model has never seen, as far as its encoders tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from truewood._formatting import list_names
from truewood._pipelines.provenance import list_transformers


def describe_unknown_levels(model: Any, X: pd.DataFrame) -> list[str]:
    """One sentence for each column that has levels which no encoder of the model knows.

    Parameters
    ----------
    model : object
        A fitted model; levels are found in the encoders of scikit-learn's pipelines.
    X : DataFrame
        The columns as the model gets them.
    """
    sentences = []
    for name, levels in dict(_list_levels(model)).items():
        if name in X and (sentence := describe_others(name, X[name], levels)):
            sentences.append(sentence)
    return sentences


def describe_others(name: str, values: pd.Series[Any], levels: Sequence[Any]) -> str | None:
    """What to say of values that are not among the levels; None if there are none."""
    is_other = values.notna() & ~values.isin(list(levels))
    if not is_other.any():
        return None
    shown = list_names([repr(level) for level in values[is_other].unique().tolist()], 3)
    return f"{is_other.mean():.1%} of the rows have levels of {name} that the model does not know: {shown}"


def _list_levels(model: Any) -> Iterator[tuple[str, Any]]:
    """Names of columns and levels, of encoders that get the columns as they are."""
    for encoder in list_transformers(getattr(model, "best_estimator_", model), only_first=True):
        if hasattr(encoder, "categories_") and hasattr(encoder, "feature_names_in_"):
            yield from zip(map(str, encoder.feature_names_in_), encoder.categories_, strict=True)
