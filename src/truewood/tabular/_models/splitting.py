"""Split rows for fitting and evaluation: folds, or a single held-out part."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    train_test_split,
)

from truewood._formatting import count, quote
from truewood._message import Message
from truewood.tabular._errors import TableError
from truewood.tabular._models.settings import FitSettings

Rows = NDArray[np.int64]


def split_rows(
    y: NDArray[Any], classes: NDArray[Any] | None, groups: Rows | None, settings: FitSettings
) -> list[tuple[Rows, Rows]]:
    """Split rows into training and test rows, one pair per fold or a single pair; stratified, or by whole groups.

    Parameters
    ----------
    y : ndarray of shape (n_rows,)
        The target; integer codes for classes.
    classes : ndarray or None
        Class labels; None for regression.
    groups : ndarray of shape (n_rows,), or None
        Groups of rows, which are not split.
    settings : FitSettings
        Number of folds, or fraction to hold out.
    """
    n_folds = settings.count_folds()
    _check_enough(y, classes, groups, settings, n_folds)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class")  # rare classes cannot be in every fold
        splits = list(_split(y, classes is not None, groups, settings, n_folds))
    for training, _ in splits:
        if classes is not None and len(np.unique(y[training])) < len(classes):
            absent = classes[np.setdiff1d(y, y[training])[0]]
            raise TableError(
                f"class {quote(str(absent))} occurs in too few groups: none of them is in the training rows. Merge it "
                "with another class, or remove its rows.",
                "groups",
            )
    return [(np.sort(training), np.sort(test)) for training, test in splits]


def _check_enough(
    y: NDArray[Any], classes: NDArray[Any] | None, groups: Rows | None, settings: FitSettings, n_folds: int | None
) -> None:
    """Refuse tables with too few rows, groups or members of a class to hold out."""
    if groups is not None:
        n_groups, n_needed = int(groups.max()) + 1, n_folds or 2
        if n_groups < n_needed:
            use = "a train/test split" if n_folds is None else count(n_folds, "fold")
            text = f"at least {n_needed} groups are needed for {use}, got {n_groups}."
            hint = "Use fewer folds: {cv}" if n_groups > 1 else ""
            raise TableError(Message(text, hint, cv=n_groups), "groups")
    elif classes is not None and np.bincount(y).min() < 2:
        rare = classes[np.bincount(y).argmin()]
        text = (
            "a model that is scored on held-out rows needs at least two rows of each class, got one of "
            f"{quote(str(rare))}."
        )
        if settings.is_forest:
            name = "test_size" if settings.cv is None else "cv"
            hint = f"To score out-of-bag rows instead, leave out {{{name}}}."
            raise TableError(Message(text, hint, **{name: getattr(settings, name)}), name)
        hint = "To score out-of-bag rows instead, use {model}."
        raise TableError(Message(text, hint, model="random-forest"), "model")
    if n_folds is not None and len(y) < n_folds:
        raise TableError(f"must be at most the number of rows, {len(y)}, got {n_folds}.", "cv")


def _split(
    y: NDArray[Any], is_classifier: bool, groups: Rows | None, settings: FitSettings, n_folds: int | None
) -> Any:
    """Split rows with scikit-learn's splitters."""
    seed = settings.random_state
    if groups is not None:
        if n_folds is None:
            by_group: Any = GroupShuffleSplit(1, test_size=settings.test_size, random_state=seed)
        else:
            by_group = StratifiedGroupKFold(n_folds) if is_classifier else GroupKFold(n_folds)
        return by_group.split(y, y, groups)
    if n_folds is None:
        stratify = y if is_classifier else None
        parts = train_test_split(np.arange(len(y)), test_size=settings.test_size, random_state=seed, stratify=stratify)
        return [parts]
    make = StratifiedKFold if is_classifier and np.bincount(y).max() >= n_folds else KFold
    return make(n_folds, shuffle=True, random_state=seed).split(y, y)
