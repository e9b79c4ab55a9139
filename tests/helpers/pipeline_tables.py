"""A table of numbers, texts and missing values, pipelines that encode it, and the same done by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    OneHotEncoder,
    StandardScaler,
)

import truewood as tw
from truewood._sklearn_compat import SKLEARN_VERSION

N = 200
POLARS = pytest.param("polars", marks=pytest.mark.skipif(SKLEARN_VERSION < (1, 6), reason="scikit-learn knew it less"))


def make_table(seed, n_rows=N):
    """Numbers with and without missing values, texts with and without, and a column that is always missing."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "a": rng.standard_normal(n_rows),
            "b": rng.random(n_rows) + 0.1,
            "c": rng.standard_normal(n_rows),
            "s": rng.choice(["u", "v", "w"], n_rows),
            "t": rng.choice(["p", "q", "r", "rare"], n_rows, p=[0.4, 0.3, 0.25, 0.05]),
            "empty": np.full(n_rows, np.nan),
        }
    )
    target = (table["a"] + table["b"] + (table["s"] == "u") + (table["t"] == "p") + rng.standard_normal(n_rows)) > 1
    table.loc[rng.random(n_rows) < 0.2, "c"] = np.nan
    return table, target.to_numpy().astype(int)


TRAIN, Y = make_table(0)
TEST, Y_TEST = make_table(1)


def make_forest():
    return RandomForestClassifier(6, max_depth=5, random_state=0)


def fit(*steps, table=TRAIN, y=Y):
    return make_pipeline(*steps, make_forest()).fit(table, y)


def check(pipeline, table, y, labels, **options):
    """Compare with the same done by hand: encode, score the columns, add up those of the same label."""
    before = table.copy()
    result = tw.importance(pipeline, table, y, **options)
    encoded = pipeline[:-1].transform(table.copy())
    columns = tw.importance(pipeline[-1], encoded, y, **options)
    grouped = tw.importance(pipeline[-1], encoded, y, feature_groups=labels, **options)
    order = [grouped.feature_names.tolist().index(name) for name in result.feature_names]
    assert sorted(order) == list(range(len(grouped.values)))
    by_hand = [columns.values[[label == name for label in labels]].sum() for name in result.feature_names]
    np.testing.assert_allclose(result.values, by_hand, rtol=0, atol=1e-12)
    for part in ("values", "std_error", "null_std_error", "mdi", "share", "p_value"):
        np.testing.assert_array_equal(getattr(result, part), getattr(grouped, part)[order])
    np.testing.assert_array_equal(result.expand().values, columns.values)
    np.testing.assert_array_equal(result.expand().std_error, columns.std_error)
    pd.testing.assert_frame_equal(table, before)
    return result


def make_columns(**options):
    """Preprocessing of a table with numbers, texts and missing values."""
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    texts = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return ColumnTransformer([("numbers", numbers, ["c", "a"]), ("texts", texts, ["t", "s"])], **options)


LABELS = list("cac" + "tttt" + "sss")
