"""Scores by class: the parts that classes have in the scores, each with errors of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from truewood.formulas.measure import Measure
from truewood.result.class_scores import ClassScores
from truewood.result.importance_result import ImportanceResult
from truewood.scoring.results import Facts


def name_classes(facts: Facts, measure: Measure) -> NDArray[np.str_]:
    """Names of the classes that scores are sums over, or an error that says why they are none."""
    view = facts.view
    kind = view.target.kind
    if not kind.is_classification or not (view.target.is_y or view.is_additive):
        raise ValueError(f"per_class=True needs a classifier, but {view.name} predicts numbers.")
    if measure.split_score is None:
        raise ValueError(
            f"per_class=True has nothing to give: measure={measure.name!r} is no sum over classes; use 'ufi'."
        )
    if view.is_additive and view.target.n_scores != kind.n_columns:
        raise ValueError(
            f"per_class=True needs a raw score for each class, but {view.name} has {view.target.n_scores} for "
            f"{kind.n_columns} classes, so that there is nothing to divide."
        )
    return kind.column_names


def add_classes(
    results: Sequence[ImportanceResult],
    class_names: NDArray[np.str_],
    score: Callable[[int], Sequence[ImportanceResult]],
) -> list[ImportanceResult]:
    """Results of each grouping with the parts of all classes, given the results of a class, ``score(column)``."""
    by_class = [score(column) for column in range(len(class_names))]
    return [
        replace(
            result,
            classes=ClassScores(
                class_names,
                values=np.stack([one.values for one in own]),
                std_error=np.stack([one.std_error for one in own]),
                test_error=np.stack([one.test_error for one in own]),
            ),
        )
        for result, *own in zip(results, *by_class, strict=True)
    ]
