"""A table as a saved model takes it: its columns, in its order and types, and the target in its labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood._formatting import count, list_names, quote
from truewood.tabular._checks.unknown_levels import describe_others, describe_unknown_levels
from truewood.tabular._columns.text_values import parse_truth
from truewood.tabular._errors import TableError
from truewood.tabular._messages import Messages
from truewood.tabular._models.saved_model import SavedModel


def prepare_table(saved: SavedModel, table: pd.DataFrame, messages: Messages) -> pd.DataFrame:
    """The model's columns, as categories where the model has some.

    Parameters
    ----------
    saved : SavedModel
        The model.
    table : DataFrame
        The table without its target.
    messages : Messages
        Hears of columns and of levels that the model does not know.
    """
    chosen = table if saved.columns is None else _choose(saved, table, messages)
    if chosen.shape[1] != saved.n_columns:
        raise TableError(
            f"the model has {count(saved.n_columns, 'column')} without names, the table {chosen.shape[1]} beside the "
            "target; leave others out with drop=[...].",
            "saved_model",
        )
    names = saved.columns or [str(j) for j in range(saved.n_columns)]
    prepared = {
        column: _as_category(saved, chosen[column], name, messages) if name in saved.levels else chosen[column]
        for column, name in zip(chosen, names, strict=True)
    }
    X = pd.DataFrame(prepared)
    for sentence in describe_unknown_levels(saved.model, X):
        messages.warn(sentence)
    return X


def _choose(saved: SavedModel, table: pd.DataFrame, messages: Messages) -> pd.DataFrame:
    spelled = {saved.spell(str(name)): name for name in table}
    absent = [name for name in saved.columns or [] if name not in spelled]
    if absent:
        raise TableError(
            f"the table lacks columns of the model: {list_names(list(map(repr, absent)), 3)}; it has "
            f"{', '.join(map(repr, list(table)[:5]))}{', ...' if table.shape[1] > 5 else ''}.",
            "saved_model",
        )
    chosen = [spelled[name] for name in saved.columns or []]
    others = [str(name) for name in table if name not in chosen]
    if others:
        messages.add(f"not columns of the model, and not used: {list_names(others)}")
    return table[chosen]


def _as_category(saved: SavedModel, values: pd.Series[Any], name: str, messages: Messages) -> pd.Series[Any]:
    if saved.library == "CatBoost":
        # It takes whole numbers and strings; missing ones are a level, as it names them.
        whole = values.dtype.kind == "f" and (values.dropna() == np.floor(values.dropna())).all()
        texts = values.astype("Int64").astype(str) if whole else values.astype(str)
        return texts.where(values.notna(), "nan").astype(object)
    levels = saved.levels[name]
    if levels is not None and all(isinstance(level, str) for level in levels):
        values = values.astype(object).where(values.isna(), values.astype(str))
    if levels is None:
        return values.astype("category")
    if sentence := describe_others(name, values, levels):
        messages.warn(sentence)
    return values.where(values.isin(list(levels))).astype(pd.CategoricalDtype(list(levels)))


def match_target(saved: SavedModel, given: pd.Series[Any], name: str) -> NDArray[Any]:
    """The target in the labels, or as the numbers, that the model predicts."""
    texts = pd.Series(given.astype(object)).map(lambda value: str(value).strip())
    numbers = np.array(pd.to_numeric(texts, errors="coerce"), dtype=np.float64)
    if saved.classes is None:
        if not np.isfinite(numbers).all():
            odd = str(texts[~np.isfinite(numbers)].iloc[0])
            raise TableError(f"the model predicts numbers, but column {quote(name)} holds {quote(odd)}.", "target")
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
        remedy = "; write the target as these numbers, as for the fit" if classes.dtype.kind in "iuf" else ""
        raise TableError(
            f"column {quote(name)} holds labels the model does not know: {shown}; it knows "
            f"{', '.join(list(by_text)[:5])}{', ...' if len(by_text) > 5 else ''}{remedy}.",
            "target",
        )
    return labels


def _read_truth(texts: pd.Series[Any]) -> NDArray[np.bool_] | None:
    codes, levels = pd.factorize(texts)
    truth = parse_truth(list(levels))
    return None if truth is None else (truth == 1.0)[codes]
