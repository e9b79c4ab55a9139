"""Encode columns as numbers that trees can split: the preprocessing step of the pipeline.

The encoding of a category must not depend on the target: splits on it would then be scored on rows that the encoding
has seen, so target encoding is not used. Categories with few levels are one-hot encoded, so that a few splits can
separate any set of levels. Many levels would give many nearly constant columns; such a category becomes one column of
codes in order of frequency instead. Frequent levels, which hold most rows, are at one end and can be split off one by
one; rare levels are together at the other end. More possible splits do no harm, as scores are unbiased.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

from truewood.tabular._columns.columns import BOOLEAN, CATEGORY, DATE, MANY_LEVELS, NUMBER, Column

# The number of days already contains the year.
_PARTS = ("month", "day", "day_of_week", "hour", "minute")
# Rows used to count encoded columns.
_FIRST_ROWS = 1000


class DateParts(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Encode dates as days since the first date, and as the parts of date and time that vary.

    Attributes
    ----------
    first_ : Timestamp
        The earliest date.
    parts_ : list of str
        Parts that vary.
    """

    def fit(self, X: pd.DataFrame, y: Any = None) -> Self:
        """Find the first date and the parts that vary."""
        del y
        dates = pd.DatetimeIndex(X.iloc[:, 0])
        self.first_ = dates.min()
        self.parts_ = [part for part in _PARTS if len(getattr(dates, part).dropna().unique()) > 1]
        self.feature_names_in_ = np.asarray(X.columns, dtype=object)
        self.n_features_in_ = 1
        return self

    def transform(self, X: pd.DataFrame) -> NDArray[np.float64]:
        """Encode dates, NaN if missing, shape (n_rows, 1 + number of parts)."""
        dates = pd.DatetimeIndex(X.iloc[:, 0])
        days = (dates - self.first_) / pd.Timedelta(days=1)
        return np.column_stack([days, *(getattr(dates, part) for part in self.parts_)]).astype(np.float64)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return names such as "signup_days" and "signup_month"."""
        names = self.feature_names_in_ if input_features is None else input_features
        return np.array([f"{names[0]}_{part}" for part in ("days", *self.parts_)], dtype=object)


def make_encoder(columns: list[Column]) -> ColumnTransformer:
    """Make the transformer that encodes the columns; fit it to the table of their values.

    Parameters
    ----------
    columns : list of Column
        The columns to use.
    """
    by_kind: dict[str, list[Column]] = {}
    for column in columns:
        by_kind.setdefault(column.dtype, []).append(column)
    numbers = [column.name for column in columns if column.dtype in (NUMBER, BOOLEAN)]
    few, many = by_kind.get(CATEGORY, []), by_kind.get(MANY_LEVELS, [])
    steps: list[tuple[str, Any, list[str]]] = []
    if numbers:
        steps.append(("numbers", _make_imputer(), numbers))
    if few:
        levels = [sorted(column.values.unique()) for column in few]
        one_hot = OneHotEncoder(categories=levels, drop="if_binary", sparse_output=False)
        steps.append(("categories", one_hot, [column.name for column in few]))
    if many:
        ordinal = OrdinalEncoder(categories=[_sort_by_frequency(column.values) for column in many])
        steps.append(("levels", ordinal, [column.name for column in many]))
    for k, column in enumerate(by_kind.get(DATE, [])):
        steps.append((f"date {k}", make_pipeline(DateParts(), _make_imputer()), [column.name]))
    return ColumnTransformer(steps, sparse_threshold=0.0)


def count_encoded(columns: list[Column], X: pd.DataFrame) -> tuple[int, int]:
    """Count the encoded columns, and those with at most two values, in the first rows."""
    encoded = make_encoder(columns).fit_transform(X.head(_FIRST_ROWS))
    return encoded.shape[1], sum(len(np.unique(values)) <= 2 for values in encoded.T)


def _make_imputer() -> SimpleImputer:
    """Impute medians and add missing indicators; trees of older scikit-learn versions do not accept NaN."""
    return SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)


def _sort_by_frequency(values: pd.Series[Any]) -> list[str]:
    counts = values.value_counts()
    return sorted(counts.index, key=lambda level: (-counts[level], level))
