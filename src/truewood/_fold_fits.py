"""Folds: how rows are split, and the fit of a model on the training rows of each fold."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    check_cv,
    train_test_split,
)
from sklearn.utils import _safe_indexing

from truewood._arguments import check_type, is_fraction
from truewood._exceptions import warn
from truewood._formatting import count, list_names, quote
from truewood._inputs.table_types import bring_to_host
from truewood._inputs.tables import FeatureMatrix
from truewood._inputs.text_columns import name_text_columns
from truewood._refitting import list_validation_params, name_weight
from truewood._rows.copies import Copies
from truewood._rows.dependent_rows import SYNTHETIC_ROWS, has_synthetic_rows
from truewood._rows.folds import Folds, read_folds

# Share of each fold's training rows that are validation rows of models that stop early.
VALIDATION_FRACTION = 0.1
# Shuffles rows if `cv` is a number, and splits off validation rows.
_SEED = 0
# Arguments of fits that hold validation rows.
_VALIDATION = ("eval_set", "eval_X", "eval_y", "X_val", "y_val")


def split_rows(
    cv: Any, estimator: Any, X: Any, y: Any, groups: Any, codes: NDArray[np.int64] | None, copies: Copies | None
) -> Folds:
    """Split rows into folds, which keep groups together and, if `cv` is a number, copies of rows.

    Parameters
    ----------
    cv, estimator, X, y, groups
        As in `cross_importance`.
    codes : ndarray of int64, shape (n_rows,), or None
        The group of each row.
    copies : Copies or None
        Rows that are copies of each other.
    """
    together = groups if groups is not None or copies is None or not _is_number(cv) else copies.groups
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The groups parameter is ignored")  # `read_folds` checks them
        splits = list(_choose_splitter(cv, estimator, y, together).split(X, y, together))
    folds = read_folds([train for train, _ in splits], [test for _, test in splits], len(y), codes, "cv")
    if is_classifier(estimator):
        _check_classes(folds, np.asarray(bring_to_host(y)), cv, groups)
    return folds


def _check_classes(folds: Folds, labels: NDArray[Any], cv: Any, groups: Any) -> None:
    """Refuse folds that hold out a class they do not train on."""
    if labels.ndim != 1:
        return
    codes, classes = pd.factorize(labels)
    remedy = f"drop classes that occur in a single {'row' if groups is None else 'group'}"
    if not _is_number(cv):
        remedy = f"pass a number of folds, which are stratified by class, and {remedy}"
    for k, (train, test) in enumerate(zip(folds.train, folds.test, strict=True), start=1):
        unknown = np.setdiff1d(codes[test], codes[train])
        if len(unknown):
            raise ValueError(
                f"cv must train on every class that it holds out, but fold {k} has no training row of class "
                f"{quote(str(classes[unknown[0]]))}; {remedy}."
            )


def _choose_splitter(cv: Any, estimator: Any, y: Any, groups: Any) -> Any:
    """The splitter; one that keeps groups together, or else shuffles, if `cv` is only a number of folds."""
    splitter = check_cv(5 if cv is None else cv, y, classifier=is_classifier(estimator))
    if not _is_number(cv):
        return splitter
    if groups is None:
        return type(splitter)(splitter.n_splits, shuffle=True, random_state=_SEED)
    keep_groups = StratifiedGroupKFold if isinstance(splitter, StratifiedKFold) else GroupKFold
    return keep_groups(splitter.n_splits)


def _is_number(cv: Any) -> bool:
    """Whether `cv` is only a number of folds, so that we choose the splitter."""
    return cv is None or isinstance(cv, Integral)


def leave_out_copies(folds: Folds, copies: Copies, *, can_keep: bool) -> Folds:
    """Leave test rows out that have a copy among the training rows of their fold.

    `can_keep` says whether a number of folds would keep copies together; it does not if folds are given or keep groups.
    """
    test = [copies.drop_copies(own, train) for train, own in zip(folds.train, folds.test, strict=True)]
    n_left_out = sum(map(len, folds.test)) - sum(map(len, test))
    if not n_left_out:
        return folds
    remedy = "remove the copies" + ", or pass a number of folds as cv" * can_keep
    if not all(map(len, test)):
        raise ValueError(f"all held-out rows of a fold are copies of its training rows; {remedy}.")
    reason = "was left out because it is a copy" if n_left_out == 1 else "were left out because they are copies"
    warn(f"{count(n_left_out, 'held-out row')} {reason} of training rows of the same split; {remedy}.")
    return replace(folds, test=test)


def find_synthetic_rows(matrix: FeatureMatrix, y: Any, n_threads: int, *, inference: bool = True) -> str | None:
    """Why errors are unavailable, with a warning, if rows of a class were computed from others before the split."""
    labels = pd.factorize(np.asarray(y).reshape(len(y), -1)[:, 0])[0]
    if not has_synthetic_rows(matrix, labels, n_threads):
        return None
    withheld = "standard errors and p-values are withheld" if inference else "scores are unreliable"
    warn(f"{withheld}: {SYNTHETIC_ROWS}.")
    return SYNTHETIC_ROWS


def check_params(params: Any) -> None:
    """Refuse validation rows, which folds may score."""
    check_type(params, Mapping, "params", "a dict")
    for name in params:
        if str(name).rpartition("__")[2] in _VALIDATION:
            raise ValueError(
                f"params must not contain {quote(name)}, because early stopping could then see rows that are scored; "
                "leave it out, and a share of each fold's training rows (validation_fraction) is used for early "
                "stopping."
            )


def check_validation_fraction(fraction: Any) -> None:
    """Refuse anything but a share of the rows."""
    if not is_fraction(fraction):
        raise ValueError(
            f"validation_fraction must be a number between 0 and 1, got {quote(fraction)}; the default is "
            f"{VALIDATION_FRACTION}."
        )


@dataclass(frozen=True, eq=False)
class FoldFits:
    """Fits a model on the training rows of a fold.

    Parameters
    ----------
    estimator : object
        The model, which is cloned.
    X, y : array-like or data frame
        All rows and their target.
    weight : ndarray of shape (n_rows,), or None
        Their weights.
    params : dict
        Additional arguments of the fit; those with an entry per row are split, too.
    groups : ndarray of int64, shape (n_rows,), or None
        The group of each row.
    validation_fraction : float or None
        Share of the training rows to set aside for early stopping; None if the model does not stop early.
    """

    estimator: Any
    X: Any
    y: Any
    weight: NDArray[np.float64] | None
    params: dict[str, Any]
    groups: NDArray[np.int64] | None
    validation_fraction: float | None

    def fit(self, train: NDArray[np.int64]) -> Any:
        """Fit a model on training rows, some of which are set aside for early stopping."""
        if self.validation_fraction is None:
            params = self._list_params(train)
        else:
            train, rest = self._split(train, self.validation_fraction)
            params = self._list_params(train)
            inner, validation = ((take_rows(self.X, rows), take_rows(self.y, rows)) for rows in (train, rest))
            weight = None if self.weight is None else self.weight[rest]
            params = list_validation_params(self.estimator, params, inner, validation, weight) | params
        with name_text_columns(self.X, self.estimator):
            return clone(self.estimator).fit(take_rows(self.X, train), take_rows(self.y, train), **params)

    def _split(self, train: NDArray[np.int64], fraction: float) -> list[NDArray[np.int64]]:
        """Split training rows into those of the fit and validation rows; by group, or else by class if possible."""
        if self.groups is not None:
            splitter = GroupShuffleSplit(1, test_size=fraction, random_state=_SEED)
            return [train[part] for part in next(splitter.split(train, groups=self.groups[train]))]
        labels = None
        if is_classifier(self.estimator):
            labels = np.asarray(bring_to_host(take_rows(self.y, train)))
            counts = np.unique(labels, return_counts=True)[1]
            labels = labels if counts.min() > 1 and len(counts) <= fraction * len(train) else None
        split: list[NDArray[np.int64]] = train_test_split(
            train, test_size=fraction, random_state=_SEED, stratify=labels
        )
        return split

    def _list_params(self, train: NDArray[np.int64]) -> dict[str, Any]:
        """Arguments of the fit on the training rows."""
        n_rows = len(self.y)
        params = {
            name: take_rows(value, train) if _has_rows(value, n_rows) else value for name, value in self.params.items()
        }
        if self.weight is not None:
            params[name_weight(self.estimator)] = self.weight[train]
        return params


def take_rows(values: Any, rows: NDArray[np.int64]) -> Any:
    """Some rows of a table or target in any container that scikit-learn supports."""
    return _safe_indexing(values, rows)


def _has_rows(value: Any, n_rows: int) -> bool:
    """Whether an argument has an entry for each row."""
    return hasattr(value, "__len__") and not isinstance(value, str | Mapping) and len(value) == n_rows


def read_cv_results(
    results: Mapping[str, Any], cv: Any, params: Any, n_rows: int, codes: NDArray[np.int64] | None
) -> tuple[list[Any], Folds]:
    """Models and folds in the output of `cross_validate`; `cv` and `params` must be None."""
    if cv is not None or params is not None:
        raise ValueError(
            "cv and params must be None with the output of cross_validate, whose models are already fitted."
        )
    models, indices = results.get("estimator"), results.get("indices")
    if models is None or indices is None:
        raise ValueError(
            "estimator must be a model, or the output of cross_validate(..., return_estimator=True, "
            f"return_indices=True), got a {type(results).__name__} with {list_names(list(map(str, results)))}."
        )
    folds = read_folds(list(indices["train"]), list(indices["test"]), n_rows, codes, "estimator['indices']")
    return list(models), folds


def describe_validation(fraction: float) -> str:
    """Describe the validation rows of models that stop early, in one sentence."""
    return f"{fraction:.0%} of each fold's training rows served as validation rows for early stopping."
