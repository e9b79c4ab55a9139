"""Prepare a table for a saved model: its columns, order and types, and the labels of the target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood._formatting import count, list_names, quote
from truewood._message import Message
from truewood._pipelines.provenance import list_transformers
from truewood.tabular._columns.text_values import parse_truth
from truewood.tabular._errors import TableError
from truewood.tabular._messages import Messages
from truewood.tabular._models.saved_model import SavedModel


def prepare_table(saved: SavedModel, table: pd.DataFrame, messages: Messages) -> pd.DataFrame:
    """Select and convert the columns of the model.

    Parameters
    ----------
    saved : SavedModel
        The model.
    table : DataFrame
        The table without its target.
    messages : Messages
        Receives columns and levels that are unknown to the model.
    """
    chosen = table if saved.columns is None else _choose(saved, table, messages)
    if chosen.shape[1] != saved.n_columns:
        raise TableError(
            Message(
                f"the model has {count(saved.n_columns, 'column')} without names, but the table has "
                f"{count(chosen.shape[1], 'column')} besides the target.",
                "Drop columns that the model does not have, such as {drop}.",
                drop=[str(chosen.columns[-1])],
            )
            if chosen.shape[1] > saved.n_columns
            else f"the model has {count(saved.n_columns, 'column')} without names, but the table has only "
            f"{chosen.shape[1]} besides the target; pass all columns of the fit, in the same order.",
            "saved_model",
        )
    names = saved.columns or [str(j) for j in range(saved.n_columns)]
    prepared = {
        column: _as_category(saved, chosen[column], name, messages) if name in saved.levels else chosen[column]
        for column, name in zip(chosen, names, strict=True)
    }
    X = pd.DataFrame(prepared)
    for name, levels in dict(_list_encoder_levels(saved.model)).items():
        if name in X:
            _warn_of_unknown_levels(name, X[name], levels, messages)
    return X


def _list_encoder_levels(model: Any) -> Iterator[tuple[str, Any]]:
    """List columns and levels of the encoders of a scikit-learn pipeline that are applied to the raw columns."""
    for encoder in list_transformers(getattr(model, "best_estimator_", model), only_first=True):
        if hasattr(encoder, "categories_") and hasattr(encoder, "feature_names_in_"):
            yield from zip(map(str, encoder.feature_names_in_), encoder.categories_, strict=True)


def _warn_of_unknown_levels(name: str, values: pd.Series[Any], levels: Sequence[Any], messages: Messages) -> None:
    is_unknown = values.notna() & ~values.isin(list(levels))
    if is_unknown.any():
        shown = list_names([repr(level) for level in values[is_unknown].unique().tolist()], 3)
        messages.warn(f"{is_unknown.mean():.1%} of rows have levels of {name} that the model does not know: {shown}")


def _choose(saved: SavedModel, table: pd.DataFrame, messages: Messages) -> pd.DataFrame:
    spelled = {saved.spell(str(name)): name for name in table}
    absent = [name for name in saved.columns or [] if name not in spelled]
    if absent:
        raise TableError(
            f"the table lacks columns of the model: {list_names(list(map(repr, absent)), 3)}; it has "
            f"{list_names(list(map(repr, table)), 5)}.",
            "saved_model",
        )
    chosen = [spelled[name] for name in saved.columns or []]
    others = [str(name) for name in table if name not in chosen]
    if others:
        messages.add(f"columns not used because the model does not have them: {list_names(others)}")
    return table[chosen]


def _as_category(saved: SavedModel, values: pd.Series[Any], name: str, messages: Messages) -> pd.Series[Any]:
    if saved.library == "CatBoost":
        # CatBoost accepts integers and strings; missing values are the level "nan".
        whole = values.dtype.kind == "f" and (values.dropna() == np.floor(values.dropna())).all()
        texts = values.astype("Int64").astype(str) if whole else values.astype(str)
        return texts.where(values.notna(), "nan").astype(object)
    levels = saved.levels[name]
    if levels is not None and all(isinstance(level, str) for level in levels):
        values = values.astype(object).where(values.isna(), values.astype(str))
    if levels is None:
        return values.astype("category")
    _warn_of_unknown_levels(name, values, levels, messages)
    return values.where(values.isin(list(levels))).astype(pd.CategoricalDtype(list(levels)))


def match_target(saved: SavedModel, given: pd.Series[Any], name: str) -> NDArray[Any]:
    """Convert the target to the labels or numbers that the model predicts."""
    texts = pd.Series(given.astype(object)).map(lambda value: str(value).strip())
    numbers = np.array(pd.to_numeric(texts, errors="coerce"), dtype=np.float64)
    if saved.classes is None:
        if not np.isfinite(numbers).all():
            odd = str(texts[~np.isfinite(numbers)].iloc[0])
            raise TableError(
                f"the model predicts numbers, but column {quote(name)} contains {quote(odd)}; pass the column that it "
                "predicts.",
                "target",
            )
        return numbers
    classes = saved.classes
    by_text = {str(label).strip(): label for label in classes.tolist()}
    if classes.dtype.kind in "biuf" and not np.isnan(numbers).any():
        labels: NDArray[Any] = numbers.astype(classes.dtype) if classes.dtype.kind != "b" else numbers != 0
        known = np.isin(labels, classes) & (labels == numbers)
    elif classes.dtype.kind in "biuf" and len(classes) == 2 and (truth := _read_truth(texts)) is not None:
        labels, known = truth.astype(classes.dtype), np.ones(len(texts), dtype=np.bool_)
    else:
        known = texts.isin(by_text).to_numpy()
        labels = np.array([by_text.get(text) for text in texts], dtype=object)
        labels = labels.astype(classes.dtype) if known.all() else labels
    if not known.all():
        shown = ", ".join(map(repr, texts[~known].unique()[:3]))
        remedy = "; encode the target as in training" if classes.dtype.kind in "iuf" else ""
        raise TableError(
            f"column {quote(name)} contains labels that the model does not know: {shown}; it knows "
            f"{list_names(list(by_text), 5)}{remedy}.",
            "target",
        )
    return labels


def _read_truth(texts: pd.Series[Any]) -> NDArray[np.bool_] | None:
    codes, levels = pd.factorize(texts)
    truth = parse_truth(list(levels))
    return None if truth is None else (truth == 1.0)[codes]
