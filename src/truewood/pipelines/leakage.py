"""Steps that leak: they resampled the rows of the fit, or learned from their targets, so that scores are too good."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from sklearn.feature_selection import SelectorMixin, VarianceThreshold
from sklearn.preprocessing import TargetEncoder

from truewood.pipelines.walking import list_transformers
from truewood.words import list_names, quote

# Types that a sentence lists before it counts the rest.
_LISTED = 5


def check_rows(steps: Sequence[tuple[str, Any]], rows: Any) -> str | None:
    """Say which steps make scores on rows of the fit too good, or impossible."""
    if isinstance(rows, str):
        return _check_training(steps, rows) if rows in ("auto", "oob") else None
    suspects = [step for _, step in steps if hasattr(step, "fit_resample")]
    suspects += [part for _, step in steps for part in list_transformers(step) if _has_learned_from_y(part)]
    if not suspects:
        return None
    return (
        f"{_list_types(suspects)} resampled the rows of the fit or learned from their targets, so that scores and "
        "p-values are too good unless the listed rows are such as the pipeline never saw."
    )


def _check_training(steps: Sequence[tuple[str, Any]], rows: str) -> str | None:
    """Refuse steps whose training rows cannot be had again, and say which steps have learned from their y."""
    for name, step in steps:
        if hasattr(step, "fit_resample"):
            raise ValueError(
                f"rows={quote(rows)} needs the rows the trees were grown on, but step {quote(name)} "
                f"({type(step).__name__}) resampled them; pass rows the pipeline never saw and rows='heldout'."
            )
    fitted = [part for _, step in steps for part in list_transformers(step)]
    if any(isinstance(part, TargetEncoder) for part in fitted):
        raise ValueError(
            f"rows={quote(rows)} needs columns as the trees saw them, but TargetEncoder made those of training rows "
            "from "
            "their targets, by cross-fitting that is not recorded; pass rows the pipeline never saw and rows='heldout'."
        )
    learned = [part for part in fitted if _has_learned_from_y(part)]
    if not learned:
        return None
    return (
        f"{_list_types(learned)} learned from the targets of the rows that score, so that scores and p-values are too "
        "good; pass rows the pipeline never saw and rows='heldout'."
    )


def _has_learned_from_y(transformer: Any) -> bool:
    if isinstance(transformer, SelectorMixin):
        return not isinstance(transformer, VarianceThreshold)
    parameter = inspect.signature(transformer.fit).parameters.get("y")
    return parameter is not None and parameter.default is inspect.Parameter.empty


def _list_types(steps: Sequence[Any]) -> str:
    return list_names(list(dict.fromkeys(type(step).__name__ for step in steps)), _LISTED)
