"""What bad input gets: one line that names the argument, what was expected and what came."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)

import truewood as tw

rng = np.random.default_rng(0)
X = rng.standard_normal((60, 3))
y = (X[:, 0] > 0).astype(int)
frame = pd.DataFrame(X, columns=["a", "b", "c"])


@pytest.fixture(scope="module")
def classifier():
    return RandomForestClassifier(5, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def regressor():
    return RandomForestRegressor(5, random_state=0).fit(X, X[:, 0])


@pytest.fixture(scope="module")
def named():
    return RandomForestClassifier(5, random_state=0).fit(frame, y)


def replaced(value):
    changed = X.copy()
    changed[3, 1] = value
    return changed


INFINITE = r"X\b.*infinite.*float32"
# Fixture of the model, X, y, options, and the facts in the message.
CASES = {
    "no rows": ("classifier", X[:0], y[:0], {}, r"X\b.*row"),
    "columns": ("classifier", X[:, :2], y, {}, r"X\b.*\b3 columns.*RandomForestClassifier.*\b2\b"),
    "a column too many": (
        "named",
        frame.assign(other=1.0),
        y,
        {},
        r"X\b.*\b3 columns.*RandomForestClassifier.*\b4\b.*other",
    ),
    "a column too few": (
        "named",
        frame.drop(columns="b"),
        y,
        {},
        r"X\b.*\b3 columns.*RandomForestClassifier.*\b2\b.*\bb\b",
    ),
    "columns of a model without names": (
        "classifier",
        frame[["a", "b"]],
        y,
        {},
        r"X\b.*\b3 columns.*RandomForestClassifier.*\b2\b.*\ba, b\b",
    ),
    "one axis": (
        "classifier",
        X[:, 0],
        y,
        {},
        r"X\b.*\(n_rows, n_features\).*\(60,\)",
    ),
    "infinite": ("classifier", replaced(np.inf), y, {}, INFINITE),
    "too large": ("classifier", replaced(1e39), y, {}, INFINITE),
    "both infinities": (
        "classifier",
        np.where(np.arange(3) == 0, np.inf, replaced(-np.inf)),
        y,
        {},
        INFINITE,
    ),
    "text": ("classifier", X.astype(str).astype(object) + "x", y, {}, r"X\b.*numbers"),
    "text column": (
        "classifier",
        frame.assign(b="x"),
        y,
        {},
        r"X\b.*numbers.*'b'.*String",
    ),
    "sparse NaN": (
        "classifier",
        sparse.csr_matrix(replaced(np.nan)),
        y,
        {},
        r"X\b.*NaN.*RandomForestClassifier.*sparse",
    ),
    "names": (
        "named",
        frame[["a", "c", "b"]],
        y,
        {},
        r"X\b.*RandomForestClassifier.*column 1\b.*'b'.*'c'",
    ),
    "unknown labels": (
        "classifier",
        X,
        np.where(y == 0, 7, y),
        {},
        r"y\b.*\b7\b.*\b0, 1\b",
    ),
    "text labels": ("classifier", X, np.array(["no", "yes"])[y], {}, r"y\b.*'no'"),
    "numbers for classes": ("classifier", X, X[:, 0], {}, r"y\b.*\b0, 1\b"),
    "missing label": ("classifier", X, np.where(y == 0, np.nan, y), {}, r"y\b.*\bnan\b"),
    "text for numbers": (
        "regressor",
        X,
        np.array(["no", "yes"])[y],
        {},
        r"y\b.*numbers",
    ),
    "NaN target": ("regressor", X, np.where(y == 0, np.nan, y), {}, r"y\b.*NaN.*infinite"),
    "infinite target": ("regressor", X, np.where(y == 0, np.inf, y), {}, r"y\b.*NaN.*infinite"),
    "outputs": ("regressor", X, X, {}, r"y\b.*\(n_rows,\).*\(60, 3\)"),
    "lengths": ("classifier", X, y[:50], {}, r"X and y\b.*\b60\b.*\b50\b"),
    "measure": ("classifier", X, y, {"measure": "gini"}, r"measure\b.*'auto', 'ufi', .*'gini'"),
    "weights": (
        "classifier",
        X,
        y,
        {"sample_weight": [1.0]},
        r"sample_weight\b.*\(60,\)",
    ),
    "negative": ("classifier", X, y, {"sample_weight": -np.ones(60)}, r"sample_weight\b.*finite.*negative"),
    "inference": ("classifier", X, y, {"inference": "row"}, r"inference\b.*True, False.*'bags'.*'row'"),
    "inference of mdi": (
        "classifier",
        X,
        y,
        {"contributions": True, "measure": "mdi"},
        "contributions=True.*measure='mdi'",
    ),
    "feature_groups": (
        "classifier",
        X,
        y,
        {"feature_groups": ["a", "b"]},
        r"feature_groups\b.*\b3 columns.*\b2\b",
    ),
    "group column": (
        "named",
        frame,
        y,
        {"feature_groups": {"g": ["z"]}},
        r"feature_groups\b.*\bX\b.*'z'",
    ),
    "group number": (
        "named",
        frame,
        y,
        {"feature_groups": {"g": [3]}},
        r"feature_groups\b.*\bX\b.*\b3\b",
    ),
    "two groups": (
        "named",
        frame,
        y,
        {"feature_groups": {"g": ["a"], "h": ["a"]}},
        r"feature_groups\b.*'a'.*'g'.*'h'",
    ),
    "group number kind": (
        "named",
        frame,
        y,
        {"feature_groups": {"g": [0.9]}},
        r"feature_groups\b.*\bX\b",
    ),
    "group mask": (
        "named",
        frame,
        y,
        {"feature_groups": {"g": [True, False, True]}},
        r"feature_groups\b.*\bX\b",
    ),
    "empty group": (
        "named",
        frame,
        y,
        {"feature_groups": {"g": []}},
        r"feature_groups\b.*column",
    ),
    "group twice": (
        "named",
        frame,
        y,
        {"feature_groups": {1: [0], "1": [1]}},
        r"feature_groups\b.*'1'.*twice",
    ),
    "zero weights": (
        "classifier",
        X,
        y,
        {"sample_weight": np.zeros(60)},
        r"sample_weight\b.*zero",
    ),
    "text weights": (
        "classifier",
        X,
        y,
        {"sample_weight": "a"},
        r"sample_weight='a'.*\bX\b.*ndarray",
    ),
    "measures": ("classifier", X, y, {"measure": ["ufi"]}, r"measure\b.*'auto', 'ufi'"),
    "no X": ("classifier", None, y, {}, r"X\b"),
    "no y": ("classifier", X, None, {}, r"y\b.*\(n_rows,\).*NoneType"),
    "ragged y": (
        "classifier",
        X,
        [[0], [0, 1]],
        {},
        r"y\b.*\(n_rows,\).*list",
    ),
    "complex X": ("classifier", X + 1j, y, {}, r"X\b.*numbers.*complex128"),
    "complex y": ("regressor", X, X[:, 0] + 1j, {}, r"y\b.*numbers.*complex128"),
    "dates": (
        "regressor",
        X,
        np.arange(60).astype("datetime64[s]"),
        {},
        r"y\b.*numbers",
    ),
    "date column": (
        "classifier",
        frame.assign(b=pd.Timestamp("2020")),
        y,
        {},
        r"X\b.*'b'.*Datetime",
    ),
    "masked": ("classifier", np.ma.masked_greater(X, 1), y, {}, r"X\b.*masked"),
    "masked y": ("regressor", X, np.ma.masked_greater(X[:, 0], 1), {}, r"y\b.*masked"),
    "masked weights": (
        "classifier",
        X,
        y,
        {"sample_weight": np.ma.masked_array(np.ones(60), mask=y > 0)},
        r"sample_weight\b.*masked",
    ),
    "numbers beyond floats": ("classifier", [[10**400] * X.shape[1]], y, {}, r"X\b.*numbers.*list"),
    "y beyond floats": ("regressor", X, [10**400] * 60, {}, r"y\b.*numbers"),
    "a column without a group": (
        "named",
        frame,
        y,
        {"feature_groups": frame.columns.map({"a": "group"})},
        r"feature_groups\b.*'b'.*dict",
    ),
    "group name": (
        "named",
        frame,
        y,
        {"feature_groups": {"c": ["a", "b"]}},
        r"feature_groups\b.*'c'",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_gets_one_clear_line(case, request):
    name, X, y, options, message = CASES[case]
    model = request.getfixturevalue(name)
    with pytest.raises(ValueError, match=f"^{message}") as caught:
        tw.importance(model, X, y, **options)
    assert "\n" not in str(caught.value)


def test_nan_where_the_model_knows_none():
    boosting = GradientBoostingClassifier(n_estimators=2).fit(X, y)
    with pytest.raises(ValueError, match=r"^X\b.*NaN"):
        tw.importance(boosting, replaced(np.nan), y, rows="heldout")


def test_groups_of_another_kind(classifier):
    with pytest.raises(TypeError, match=r"groups.*dict.*sequence.*int"):
        tw.importance(classifier, X, y, feature_groups=3)
    with pytest.raises(TypeError, match=r"groups.*dict.*sequence of sequences"):
        tw.importance(classifier, X, y, feature_groups=[["x0", "x1"], ["x2"]])


def test_several_outputs_want_as_many_targets():
    forest = ExtraTreesRegressor(3, bootstrap=True).fit(X, X[:, :2])
    with pytest.raises(ValueError, match=r"\by\b.*\(n_rows, 2\).*\(60,\)"):
        tw.importance(forest, X, y)
