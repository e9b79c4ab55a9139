"""Names are kept, containers agree, the caller's data stays as it was."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor

import truewood as tw
from truewood._inputs.tables import InputSpec, read_features

rng = np.random.default_rng(0)
X = np.column_stack([rng.integers(0, 5, 80), rng.standard_normal(80).round(2), rng.random(80) < 0.5]).astype(float)
y = (X[:, 0] + X[:, 1] > 2).astype(int)
frame = pd.DataFrame({"count": X[:, 0].astype(int), "size": X[:, 1], "flag": X[:, 2].astype(bool)})
CONTAINERS = {
    "list": X.tolist(),
    "fortran": np.asfortranarray(X),
    "float32": X.astype(np.float32),
    "strided": np.repeat(X, 2, axis=0)[::2],
    "pandas": frame,
    "pandas nullable": frame.convert_dtypes(),
    "polars": pl.from_pandas(frame),
    "csr": sparse.csr_matrix(X),
    "csc array": sparse.csc_array(X),
    "coo": sparse.coo_matrix(X),
}


@pytest.fixture(scope="module")
def forest():
    return RandomForestClassifier(8, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def named():
    return RandomForestClassifier(8, random_state=0).fit(frame, y)


@pytest.fixture(scope="module")
def expected(forest):
    return tw.importance(forest, X, y)


@pytest.mark.parametrize("container", CONTAINERS)
def test_every_container_gives_the_same(forest, expected, container, engine):
    result = tw.importance(forest, CONTAINERS[container], y)
    np.testing.assert_array_equal(result.per_tree, expected.per_tree)


@pytest.mark.parametrize("target", [y.tolist(), pd.Series(y, index=y.cumsum()), pl.Series(y), y[:, np.newaxis], y == 1])
def test_every_kind_of_target_gives_the_same(forest, expected, target):
    np.testing.assert_array_equal(tw.importance(forest, X, target).per_tree, expected.per_tree)


def test_string_targets_of_every_kind(expected):
    words = np.array(["no", "yes"])[y]
    by_words = RandomForestClassifier(8, random_state=0).fit(X, words)
    for target in (words, words.astype(object), pd.Series(words), pd.Series(words, dtype="category"), pl.Series(words)):
        np.testing.assert_array_equal(tw.importance(by_words, X, target).per_tree, expected.per_tree)


def test_names_come_from_the_model_or_the_frame(forest, named):
    assert tw.importance(forest, X, y).feature_names.tolist() == ["x0", "x1", "x2"]
    assert tw.importance(forest, frame, y).feature_names.tolist() == ["count", "size", "flag"]
    assert tw.importance(named, frame, y).feature_names.tolist() == ["count", "size", "flag"]
    assert tw.importance(named, X, y).feature_names.tolist() == ["count", "size", "flag"]


def test_missing_values_of_nullable_columns_become_nan():
    values = pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64"), "b": [True, False, True]})
    for table in (values, pl.DataFrame({"a": [1, None, 3], "b": [True, False, True]})):
        matrix = read_features(table, InputSpec("", 2))
        np.testing.assert_array_equal(matrix.values, [[1, 1], [np.nan, 0], [3, 1]])
        assert matrix.has_missing


@pytest.mark.filterwarnings("ignore:.* of \\d+ rows")
def test_nothing_is_written_into_the_callers_data(forest):
    rows = sparse.csr_matrix(
        (np.array([1.0, 2.0, 3.0, -1.0]), np.array([2, 0, 0, 1]), np.array([0, 2, 4])), shape=(2, 3), dtype=np.float32
    )
    before = [part.copy() for part in (rows.data, rows.indices, rows.indptr)]
    matrix = read_features(rows, InputSpec("", 3))
    for part, copy in zip((rows.data, rows.indices, rows.indptr), before, strict=True):
        np.testing.assert_array_equal(part, copy)
    assert matrix.values.has_sorted_indices
    np.testing.assert_array_equal(matrix.take(np.array([0, 1])), [[2, 0, 1], [3, -1, 0]])
    read_only = X.copy(), y.copy(), np.ones(80)
    for array in read_only:
        array.flags.writeable = False  # to write into it is an error
    for measure in tw.measures():
        tw.importance(forest, read_only[0], read_only[1], measure=measure, sample_weight=read_only[2])


def test_groups_sum_columns(named):
    by_column = tw.importance(named, frame, y)
    by_dict = tw.importance(named, frame, y, feature_groups={"both": ["count", 2]})
    assert by_dict.feature_names.tolist() == ["both", "size"]
    np.testing.assert_allclose(by_dict.values, [by_column.values[[0, 2]].sum(), by_column.values[1]], rtol=1e-12)
    np.testing.assert_allclose(by_dict.mdi, [by_column.mdi[[0, 2]].sum(), by_column.mdi[1]], rtol=1e-12)
    np.testing.assert_allclose(by_dict.per_tree[:, 0], by_column.per_tree[:, [0, 2]].sum(axis=1), rtol=1e-12)
    by_list = tw.importance(named, frame, y, feature_groups=["both", "size", "both"])
    np.testing.assert_array_equal(by_list.per_tree, by_dict.per_tree)
    renamed = tw.importance(named, frame, y, feature_groups={"size": "size", "flag": [2]})
    np.testing.assert_array_equal(renamed.values, by_column.values)


def test_a_regressor_takes_integers_and_booleans():
    regressor = RandomForestRegressor(5, random_state=0).fit(X, y)
    whole = tw.importance(regressor, X, y).values
    np.testing.assert_array_equal(tw.importance(regressor, X, y.astype(bool)).values, whole)


@pytest.mark.parametrize(
    "columns", [range(3), ["a", "a", "b"], pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)])]
)
def test_columns_of_any_name(forest, expected, columns):
    table = pd.DataFrame(X, columns=columns)
    result = tw.importance(forest, table, y)
    np.testing.assert_array_equal(result.per_tree, expected.per_tree)
    assert result.feature_names.tolist() == [str(name) for name in table.columns]
    table.insert(1, ("y", 1) if table.columns.nlevels == 2 else 7, y)
    name = [str(column) for column in table.columns][1]
    np.testing.assert_array_equal(tw.importance(forest, table, name).per_tree, expected.per_tree)


def test_columns_of_numbers_by_another_type(forest, expected):
    for table in (frame.astype(object), frame.astype({"count": "category"})):
        np.testing.assert_array_equal(tw.importance(forest, table, y).per_tree, expected.per_tree)


@pytest.mark.parametrize("groups", [pd.Index(["a", "b", "a"]), pd.Series(["a", "b", "a"]), np.array(["a", "b", "a"])])
def test_groups_of_any_sequence(forest, groups):
    assert tw.importance(forest, X, y, feature_groups=groups).feature_names.tolist() == ["a", "b"]


def test_arrow_tables(forest, expected):
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.Table.from_pandas(frame)
    result = tw.importance(forest, table, pyarrow.chunked_array([pyarrow.array(y)]))
    np.testing.assert_array_equal(result.per_tree, expected.per_tree)
    assert result.feature_names.tolist() == ["count", "size", "flag"]
    gaps = pyarrow.table({"a": pyarrow.array([1, None, 3]), "b": pyarrow.array([True, None, False])})
    np.testing.assert_array_equal(
        read_features(gaps, InputSpec("", 2)).values, np.array([[1, 1], [np.nan, np.nan], [3, 0]])
    )
    texts = pyarrow.table({"a": pyarrow.array(["one"])})
    with pytest.raises(ValueError, match=r"'a'.*String"):
        read_features(texts, InputSpec("", 1))


@pytest.mark.parametrize("library", ["catboost", "lightgbm", "xgboost", "sklearn"])
def test_categories_of_an_arrow_table_are_those_of_pandas(library):
    pyarrow = pytest.importorskip("pyarrow")
    module = pytest.importorskip(library)
    kind = pd.Categorical(np.random.default_rng(1).choice(["u", "v", "w"], 80))
    table = frame.assign(kind=kind)
    models = {
        "catboost": lambda: module.CatBoostClassifier(
            iterations=5, cat_features=["kind"], verbose=0, allow_writing_files=False
        ),
        "lightgbm": lambda: module.LGBMClassifier(n_estimators=5, min_child_samples=2, verbose=-1),
        "xgboost": lambda: module.XGBClassifier(n_estimators=5, enable_categorical=True),
        "sklearn": lambda: HistGradientBoostingClassifier(
            max_iter=5, min_samples_leaf=2, categorical_features="from_dtype"
        ),
    }
    model = models[library]().fit(table[:40], kind.codes[:40])
    heldout, target = table[40:], kind.codes[40:]
    by_pandas = tw.importance(model, heldout, target, rows="heldout")
    by_arrow = tw.importance(model, pyarrow.Table.from_pandas(heldout), target, rows="heldout")
    assert by_pandas.feature_names[by_pandas.values.argmax()] == "kind"
    assert by_arrow.feature_names.tolist()[:4] == ["count", "size", "flag", "kind"]
    np.testing.assert_array_equal(by_arrow.per_tree, by_pandas.per_tree)


def test_a_broken_sparse_matrix_is_refused(forest):
    matrix = sparse.csr_array(np.ones((4, forest.n_features_in_)))
    matrix.indptr[2] = 1000
    with pytest.raises(ValueError, match=r"\bX\b.*sparse matrix"):
        tw.importance(forest, matrix, [0, 1, 0, 1], rows="heldout")


def test_misaligned_numbers_are_copied(forest, expected):
    raw = np.zeros(X.nbytes // 2 + 1, dtype=np.uint8)
    shifted = raw[1:].view(np.float32).reshape(X.shape)
    shifted[...] = X
    matrix = sparse.csr_array(X.astype(np.float32))
    shifted_data = np.zeros(matrix.data.nbytes + 1, dtype=np.uint8)[1:].view(np.float32)
    shifted_data[...] = matrix.data
    matrix.data = shifted_data
    for table in (shifted, matrix):
        parts = read_features(table, InputSpec("forest", 3)).parts
        assert all(part.flags.aligned for part in (parts[:3] if isinstance(parts, tuple) else [parts]))
        np.testing.assert_array_equal(tw.importance(forest, table, y).per_tree, expected.per_tree)
