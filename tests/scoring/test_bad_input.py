"""What bad input gets: one line that names the argument, what was expected and what came."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.ensemble import ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.tree import ExtraTreeClassifier

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


INFINITE = "X must not .*infinite values, or values too large for float32"
# Fixture of the model, X, y, options, and what is said.
CASES = {
    "no rows": ("classifier", X[:0], y[:0], {}, "X must .*at least one row"),
    "columns": ("classifier", X[:, :2], y, {}, "X must have the 3 columns RandomForestClassifier was fit on, got 2."),
    "a column too many": (
        "named",
        frame.assign(other=1.0),
        y,
        {},
        "X must have the 3 columns RandomForestClassifier was fit on, got 4; .*\\bother\\b",
    ),
    "a column too few": (
        "named",
        frame.drop(columns="b"),
        y,
        {},
        "X must have the 3 columns RandomForestClassifier was fit on, got 2; .*\\bb\\b",
    ),
    "columns of a model without names": (
        "classifier",
        frame[["a", "b"]],
        y,
        {},
        "X must have the 3 columns RandomForestClassifier was fit on, got 2: a, b.",
    ),
    "one axis": (
        "classifier",
        X[:, 0],
        y,
        {},
        r"X must have two dimensions, \(n_rows, n_features\), got shape \(60,\).",
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
    "text": ("classifier", X.astype(str).astype(object) + "x", y, {}, "X must be a table of numbers"),
    "text column": (
        "classifier",
        frame.assign(b="x"),
        y,
        {},
        "X must be numbers, but column 'b' is String; encode it as when the model was fit.",
    ),
    "sparse NaN": (
        "classifier",
        sparse.csr_matrix(replaced(np.nan)),
        y,
        {},
        "X must not .*NaN: RandomForestClassifier .*sparse matrix",
    ),
    "names": (
        "named",
        frame[["a", "c", "b"]],
        y,
        {},
        "X must have the columns RandomForestClassifier was fit on, in that order: column 1 should be 'b', got 'c'.",
    ),
    "unknown labels": (
        "classifier",
        X,
        np.where(y == 0, 7, y),
        {},
        "y .*labels.* 7; .*0, 1",
    ),
    "text labels": ("classifier", X, np.array(["no", "yes"])[y], {}, "y .*labels.*'"),
    "numbers for classes": ("classifier", X, X[:, 0], {}, "y .*labels"),
    "missing label": ("classifier", X, np.where(y == 0, np.nan, y), {}, "y .*labels.*nan"),
    "text for numbers": (
        "regressor",
        X,
        np.array(["no", "yes"])[y],
        {},
        "y must be numbers, as the model",
    ),
    "NaN target": ("regressor", X, np.where(y == 0, np.nan, y), {}, "y must not .*NaN or infinite"),
    "infinite target": ("regressor", X, np.where(y == 0, np.inf, y), {}, "y must not .*NaN or infinite"),
    "outputs": ("regressor", X, X, {}, r"y must have shape \(n_rows,\), as when the model was fit, got \(60, 3\)."),
    "lengths": ("classifier", X, y[:50], {}, "X and y must have the same number of rows, got 60 and 50."),
    "measure": ("classifier", X, y, {"measure": "gini"}, "measure must be one of auto, ufi, .*, got 'gini'."),
    "weights": (
        "classifier",
        X,
        y,
        {"sample_weight": [1.0]},
        r"sample_weight must have shape \(60,\), one weight",
    ),
    "negative": ("classifier", X, y, {"sample_weight": -np.ones(60)}, "sample_weight must be finite and not negative."),
    "inference": ("classifier", X, y, {"inference": "row"}, "inference must be True, False or 'bags', got"),
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
        "feature_groups must name the group of each of the 3 columns, got 2.",
    ),
    "group column": (
        "named",
        frame,
        y,
        {"feature_groups": {"g": ["z"]}},
        "feature_groups .*'z'",
    ),
    "group number": (
        "named",
        frame,
        y,
        {"feature_groups": {"g": [3]}},
        "feature_groups .*got 3",
    ),
    "two groups": (
        "named",
        frame,
        y,
        {"feature_groups": {"g": ["a"], "h": ["a"]}},
        "feature_groups .*'a'.*'g' and 'h'",
    ),
    "group number kind": (
        "named",
        frame,
        y,
        {"feature_groups": {"g": [0.9]}},
        "feature_groups .*columns? that X",
    ),
    "group mask": (
        "named",
        frame,
        y,
        {"feature_groups": {"g": [True, False, True]}},
        "feature_groups .*columns? that X",
    ),
    "empty group": (
        "named",
        frame,
        y,
        {"feature_groups": {"g": []}},
        "feature_groups must give each name once, with at least one column",
    ),
    "group twice": (
        "named",
        frame,
        y,
        {"feature_groups": {1: [0], "1": [1]}},
        "feature_groups must give each name once",
    ),
    "zero weights": (
        "classifier",
        X,
        y,
        {"sample_weight": np.zeros(60)},
        "sample_weight must not be zero for every row.",
    ),
    "text weights": (
        "classifier",
        X,
        y,
        {"sample_weight": "a"},
        "sample_weight='a' .*ndarray.*data frame",
    ),
    "measures": ("classifier", X, y, {"measure": ["ufi"]}, "measure must be one of auto, ufi"),
    "no X": ("classifier", None, y, {}, "X must"),
    "no y": ("classifier", X, None, {}, r"y must have shape \(n_rows,\), as when the model was fit, got NoneType."),
    "ragged y": (
        "classifier",
        X,
        [[0], [0, 1]],
        {},
        r"y must have shape \(n_rows,\), as when the model was fit, got list.",
    ),
    "complex X": ("classifier", X + 1j, y, {}, "X must be a table of numbers, got an array of complex128"),
    "complex y": ("regressor", X, X[:, 0] + 1j, {}, "y must be numbers, as the model is a regressor, got complex128"),
    "dates": (
        "regressor",
        X,
        np.arange(60).astype("datetime64[s]"),
        {},
        "y must be numbers, as the model is a regressor",
    ),
    "date column": (
        "classifier",
        frame.assign(b=pd.Timestamp("2020")),
        y,
        {},
        "X must be numbers, but column 'b' is Datetime",
    ),
    "masked": ("classifier", np.ma.masked_greater(X, 1), y, {}, "X must not be a masked array"),
    "masked y": ("regressor", X, np.ma.masked_greater(X[:, 0], 1), {}, "y must not .*masked"),
    "masked weights": (
        "classifier",
        X,
        y,
        {"sample_weight": np.ma.masked_array(np.ones(60), mask=y > 0)},
        "sample_weight must not .*masked",
    ),
    "numbers beyond floats": ("classifier", [[10**400] * X.shape[1]], y, {}, "X must be a table of numbers, got list"),
    "y beyond floats": ("regressor", X, [10**400] * 60, {}, "y must be numbers, as the model is a regressor"),
    "a column without a group": (
        "named",
        frame,
        y,
        {"feature_groups": frame.columns.map({"a": "group"})},
        "feature_groups .*each column.*'b'",
    ),
    "group name": (
        "named",
        frame,
        y,
        {"feature_groups": {"c": ["a", "b"]}},
        "feature_groups .*'c'",
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
    tree = ExtraTreeClassifier(splitter="best").fit(X, y)
    with pytest.raises(ValueError, match=r"^X\b.*NaN"):
        tw.importance(tree, replaced(np.nan), y, rows="heldout")


def test_groups_of_another_kind(classifier):
    with pytest.raises(TypeError, match=r"groups.*dict.*sequence.*int"):
        tw.importance(classifier, X, y, feature_groups=3)
    with pytest.raises(TypeError, match=r"groups.*dict.*sequence of sequences"):
        tw.importance(classifier, X, y, feature_groups=[["x0", "x1"], ["x2"]])


def test_several_outputs_want_as_many_targets():
    forest = ExtraTreesRegressor(3, bootstrap=True).fit(X, X[:, :2])
    with pytest.raises(ValueError, match=r"\by\b.*\(n_rows, 2\).*\(60,\)"):
        tw.importance(forest, X, y)
