"""Columns of the user's table as numbers that trees can split: the preprocessing step of the pipeline.

What a category becomes must not depend on the target, or splits on it would be judged by rows that the encoding has
seen: there is no target encoding here. Few levels get a column each, so that a few splits tell any levels apart. Many
levels would make as many columns, each nearly constant, and become one column of codes in order of frequency instead:
frequent levels, where most rows are, lie at one end and can be cut off one by one, rare ones together at the other.
That such a column has more places to split does no harm, as scores are unbiased.
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

# Years are not here: days tell them.
_PARTS = ("month", "day", "day_of_week", "hour", "minute")
# To count columns.
_FIRST_ROWS = 1000


class DateParts(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """One column of dates as numbers: days since the first, and the parts of date and time that vary.

    Attributes
    ----------
    first_ : Timestamp
        The earliest date.
    parts_ : list of str
        Parts beside the days.
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
        """Dates as numbers, NaN where they are missing, shape (n_rows, 1 + number of parts)."""
        dates = pd.DatetimeIndex(X.iloc[:, 0])
        days = (dates - self.first_) / pd.Timedelta(days=1)
        return np.column_stack([days, *(getattr(dates, part) for part in self.parts_)]).astype(np.float64)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names such as "signup_days" and "signup_month"."""
        names = self.feature_names_in_ if input_features is None else input_features
        return np.array([f"{names[0]}_{part}" for part in ("days", *self.parts_)], dtype=object)


def make_encoder(columns: list[Column]) -> ColumnTransformer:
    """The step that makes numbers of the columns; it is fit on the table of their values.

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
    """Number of columns that the encoder makes, and how many of them have two values at most, by the first rows."""
    encoded = make_encoder(columns).fit_transform(X.head(_FIRST_ROWS))
    return encoded.shape[1], sum(len(np.unique(values)) <= 2 for values in encoded.T)


def _make_imputer() -> SimpleImputer:
    """Medians for missing numbers, with a column that says where: old scikit-learn's trees take no NaN."""
    return SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)


def _sort_by_frequency(values: pd.Series[Any]) -> list[str]:
    counts = values.value_counts()
    return sorted(counts.index, key=lambda level: (-counts[level], level))
