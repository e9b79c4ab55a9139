"""Models and rows that are scored in parts, and what to compare."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import lightgbm
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import xgboost
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

N_ROWS, N_TRAIN = 900, 400

# Columns of the frame that models take; "y" and "w" are others.
FEATURES = ["a", "b", "c", "d", "kind"]

QUIET = {"n_estimators": 12, "verbose": -1, "min_child_samples": 5}
XGB = {"n_estimators": 12, "max_depth": 4, "enable_categorical": True}

# Name -> what y is, and the model.
CASES = {
    "forest of numbers": ("number", lambda: RandomForestRegressor(8, random_state=0)),
    "forest of two numbers": ("two numbers", lambda: RandomForestRegressor(6, random_state=0)),
    "forest of classes": ("classes", lambda: RandomForestClassifier(8, random_state=0)),
    "tree": ("labels", lambda: DecisionTreeClassifier(max_depth=6, random_state=0)),
    "extra trees": ("number", lambda: ExtraTreesRegressor(5, min_samples_leaf=3, random_state=0)),
    "gradient boosting": ("number", lambda: GradientBoostingRegressor(n_estimators=10, random_state=0)),
    "gradient boosting, huber": ("number", lambda: GradientBoostingRegressor(n_estimators=10, loss="huber")),
    "hist": ("number", lambda: HistGradientBoostingRegressor(max_iter=12)),
    "hist, categories": ("number", lambda: HistGradientBoostingRegressor(max_iter=12, categorical_features=[4])),
    "hist, classes": ("classes", lambda: HistGradientBoostingClassifier(max_iter=6)),
    "hist, gamma": ("positive", lambda: HistGradientBoostingRegressor(max_iter=12, loss="gamma")),
    "hist, quantile": ("number", lambda: HistGradientBoostingRegressor(max_iter=12, loss="quantile", quantile=0.8)),
    "xgboost": ("number", lambda: xgboost.XGBRegressor(**XGB)),
    "xgboost, labels": ("labels", lambda: xgboost.XGBClassifier(**XGB)),
    "xgboost, classes": ("classes", lambda: xgboost.XGBClassifier(**XGB)),
    "xgboost, tweedie": ("positive", lambda: xgboost.XGBRegressor(objective="reg:tweedie", **XGB)),
    "xgboost, absolute": ("number", lambda: xgboost.XGBRegressor(objective="reg:absoluteerror", **XGB)),
    "xgboost, logarithm": ("positive", lambda: xgboost.XGBRegressor(objective="reg:squaredlogerror", **XGB)),
    "lightgbm": ("number", lambda: lightgbm.LGBMRegressor(**QUIET)),
    "lightgbm, square root": ("number", lambda: lightgbm.LGBMRegressor(reg_sqrt=True, **QUIET)),
    "lightgbm, classes": ("classes", lambda: lightgbm.LGBMClassifier(**QUIET)),
    "lightgbm, quantile": ("number", lambda: lightgbm.LGBMRegressor(objective="quantile", alpha=0.3, **QUIET)),
    "pipeline": (
        "number",
        lambda: make_pipeline(
            make_column_transformer((OneHotEncoder(), ["kind"]), remainder="passthrough"),
            HistGradientBoostingRegressor(max_iter=8),
        ),
    ),
    "transformed target": (
        "positive",
        lambda: TransformedTargetRegressor(
            RandomForestRegressor(5, random_state=0), func=np.log1p, inverse_func=np.expm1
        ),
    ),
}


@cache
def draw_rows() -> pd.DataFrame:
    """Rows with missing values, a column of few values, and weights of which some are zero."""
    rng = np.random.default_rng(7)
    table = pd.DataFrame(rng.normal(size=(N_ROWS, 4)), columns=FEATURES[:4])
    table["kind"] = rng.integers(0, 5, N_ROWS).astype(np.float64)
    table["score"] = table["a"] + table["b"] * table["c"] + (table["kind"] == 2)
    table["noise"] = rng.normal(size=N_ROWS)
    table["w"] = rng.integers(0, 4, N_ROWS) * 0.7
    table.loc[rng.random(N_ROWS) < 0.1, "d"] = np.nan
    return table


def make_y(kind: str) -> np.ndarray:
    rows = draw_rows()
    number = (rows["score"] + rows["noise"]).to_numpy()
    match kind:
        case "number":
            return number + 1000.0
        case "two numbers":
            return np.column_stack([number, rows["noise"] - 50.0])
        case "positive":
            return np.exp(number / 3)
        case "classes":
            return np.digitize(number, [-1.0, 1.0])
    return (number > 0).astype(np.int64)


@cache
def build(name: str):
    """A fitted model, with rows it never saw and their y."""
    kind, make = CASES[name]
    X, y = draw_rows()[FEATURES], make_y(kind)
    if name.startswith("gradient boosting"):
        X = X.fillna(0.0)  # it takes no missing values
    model = make().fit(X[:N_TRAIN], y[:N_TRAIN])
    return model, X[N_TRAIN:].reset_index(drop=True), y[N_TRAIN:]


def get_weight() -> np.ndarray:
    return draw_rows()["w"].to_numpy()[N_TRAIN:]


def assert_same(result, expected, *, errors: float | None = 1e-10):
    """Whether scores are the same to 1e-10 of the largest, and errors as far as asked for."""
    for name in ("values", "per_tree", "per_output", "mdi", "share"):
        size = max(np.nanmax(np.abs(getattr(expected, name)), initial=0.0), 1e-300)
        np.testing.assert_allclose(
            getattr(result, name), getattr(expected, name), rtol=1e-10, atol=1e-10 * size, err_msg=name
        )
    for name in ("impurity", "skipped_weight"):
        np.testing.assert_allclose(getattr(result, name), getattr(expected, name), rtol=1e-10, atol=1e-14)
    for name in ("measure", "task", "rows", "n_rows", "is_additive"):
        assert getattr(result, name) == getattr(expected, name)
    assert result.feature_names.tolist() == expected.feature_names.tolist()
    if errors is not None:
        assert result.inference_unavailable is None
        for name in ("std_error", "null_std_error", "total_error"):
            np.testing.assert_allclose(getattr(result, name), getattr(expected, name), rtol=errors, err_msg=name)
    assert (result.columns is None) == (expected.columns is None)
    if expected.columns is not None:
        assert_same(result.columns, expected.columns, errors=errors)


def write_folder(folder, cuts):
    """Save a model, m.ubj, and a folder of rows that it has not seen, cut into Parquet files."""
    model, X, y = build("xgboost")
    model.save_model(folder / "m.ubj")
    (folder / "rows").mkdir()
    table = X.assign(w=get_weight(), other="text", y=y)
    for number, (start, end) in enumerate(pairwise([0, *cuts, len(table)])):
        part = pa.Table.from_pandas(table[start:end], preserve_index=False)
        pq.write_table(part, folder / "rows" / f"{number}.parquet")
    return folder
