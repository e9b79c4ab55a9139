"""Rows that are copies of others do not evaluate trees with a copy of them in the bag."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import KFold, cross_validate

import truewood as tw
from helpers.messages import find_lacking
from truewood._engines.selection import resolve_engine
from truewood._inputs.tables import FeatureMatrix
from truewood._rows.copies import _draw_factors, encode_table, find_copies
from truewood._scoring import inputs

RNG = np.random.default_rng(8)
NUMBERS = pd.DataFrame({"x": RNG.standard_normal(100), "g": "a"})
AGES = pd.DataFrame({"age": RNG.integers(18, 80, 1000), "sex": RNG.choice(["m", "f"], 1000)})
FLAGS = pd.DataFrame(RNG.random((300, 22)) < 0.4)
LEVELS = RNG.integers(0, 4, (300, 6))
MIXED = pd.DataFrame({"x": RNG.standard_normal(200) * (RNG.random(200) < 0.5), "g": RNG.integers(0, 3, 200)})
# Two kinds of rows, of which half are as typical as can be.
TYPES = (RNG.random((400, 20)) < 0.97) == (RNG.random((400, 1)) < 0.5)
TABLES = {
    "numbers, a few copies": (pd.concat([NUMBERS, NUMBERS[:3]]), 3),
    "numbers, three times": (pd.concat([NUMBERS] * 3), 200),
    "numbers, drawn with replacement": (NUMBERS.iloc[RNG.integers(0, 100, 150)], None),
    "numbers, half of them zero": (pd.concat([MIXED, MIXED[MIXED["x"] != 0][:20]]), 20),
    "numbers and missing values": (pd.concat([NUMBERS.assign(z=np.nan), NUMBERS[:5].assign(z=np.nan)]), 5),
    "numbers, 0 and -0": (pd.DataFrame({"x": [*RNG.random(50), 0.5, 0.5], "z": [*RNG.random(50), 0.0, -0.0]}), 1),
    "counts": (np.vstack([counts := RNG.poisson(20, (285, 5)), counts[:15]]), 15),
    "flags, a fifth repeated": (pd.concat([FLAGS, FLAGS[:75]]), 75),
    "flags, five times": (pd.concat([FLAGS] * 5), 1200),
    "rare class drawn again": (np.vstack([rare := RNG.random((400, 6)), rare[RNG.integers(0, 40, 320)]]), 320),
    "few flags": (FLAGS.iloc[:, :5], 0),
    "flags of two types": (pd.DataFrame(TYPES), 0),
    "few levels": (pd.DataFrame({"a": RNG.integers(0, 4, 200), "b": RNG.choice(["u", "v"], 200)}), 0),
    "rows of six levels": (LEVELS, 0),
    "dummy columns": (np.hstack([np.eye(4)[column] for column in LEVELS.T]), 0),
    "zip codes and sexes": (np.column_stack([RNG.integers(0, 1000, 300), RNG.integers(0, 2, 300)]), 0),
    "encoded levels": (np.column_stack([RNG.random(30)[RNG.integers(0, 30, 300)], RNG.integers(0, 2, 300)]), 0),
    "ages": (AGES[["age"]], 0),
    "ages and sexes": (AGES, 0),
    "ages and hours": (AGES.assign(hours=RNG.integers(20, 60, 1000)), 0),
    "the same in two units": (pd.DataFrame({"cm": AGES["age"], "inch": AGES["age"] / 2.54}), 0),
    "rounded numbers": (RNG.standard_normal((1000, 2)).round(1), 0),
    "lists": (pd.DataFrame({"x": [[1], [2]] * 20}), 0),
}
KINDS = {
    "classes": (RandomForestClassifier, {"n_estimators": 30}),
    "numbers": (RandomForestRegressor, {"n_estimators": 30, "min_samples_leaf": 3}),
}
ARRAYS = ("values", "per_tree", "std_error", "null_std_error", "total_error", "skipped_weight")


@pytest.mark.parametrize("case", TABLES)
def test_which_rows_are_copies(case):
    table, n_copies = TABLES[case]
    assert pd.DataFrame(table).map(str).replace("-0.0", "0.0").duplicated().any()
    found = find_copies(encode_table(table))
    expected = 150 - len(table.drop_duplicates()) if n_copies is None else n_copies
    assert (0 if found is None else found.n_copies) == expected
    if found is not None and isinstance(table, pd.DataFrame):
        frame = pl.DataFrame({str(name): table[name].to_numpy() for name in table})
        np.testing.assert_array_equal(find_copies(encode_table(frame)).groups, found.groups)


def test_a_sparse_matrix_has_the_same_copies():
    dense = np.vstack([MIXED, MIXED[MIXED["x"] != 0][:20]]).astype(float)
    found = find_copies(encode_table(dense))
    stored = sparse.csr_matrix(dense)
    stored.data[:3] = stored.data[:3]
    np.testing.assert_array_equal(find_copies(encode_table(stored)).groups, found.groups)
    explicit = sparse.coo_array((np.append(stored.data, 0.0), tuple(np.append(i, 0) for i in stored.nonzero())))
    assert explicit.nnz == stored.nnz + 1
    np.testing.assert_array_equal(find_copies(encode_table(explicit)).groups, found.groups)


def draw(task, n_copies=20, *, same_target=True):
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.standard_normal((100, 3)), rng.integers(0, 2, 100)])
    y = X[:, 0] + rng.standard_normal(100)
    y = (y > 0).astype(int) if task == "classes" else y
    rows = np.append(np.arange(100), rng.integers(0, 100, n_copies))
    return X[rows], y[rows] if same_target else np.append(y, rng.permutation(y)[:n_copies]), rows


def list_uncopied(forest, original):
    """Rows of each tree that neither are in bag nor have a copy there, in plain loops."""
    lists = []
    for bag in forest.estimators_samples_:
        seen = {original[row] for row in bag}
        lists.append([row for row in range(len(original)) if original[row] not in seen])
    return lists


@pytest.mark.parametrize("task", KINDS)
@pytest.mark.parametrize("same_target", [True, False])
def test_copies_are_groups(task, same_target, engine):
    del engine
    X, y, original = draw(task, same_target=same_target)
    make, options = KINDS[task]
    forest = make(random_state=0, **options).fit(X, y)
    result = tw.importance(forest, X, y, contributions=True)
    lists = list_uncopied(forest, original)
    grouped = tw.importance(forest, X, y, rows=lists, groups=original, contributions=True)
    assert sum(map(len, lists)) < sum(len(set(range(120)) - set(bag)) for bag in forest.estimators_samples_)
    for name in (*ARRAYS, "contributions"):
        np.testing.assert_array_equal(getattr(result, name), getattr(grouped, name), err_msg=name)
    assert not find_lacking(result.notes[0], "20 of 120 rows", "copies")
    assert (result.rows, result.n_groups, result.groups) == ("oob", None, None)


@pytest.mark.filterwarnings("ignore:.* of 120 rows")  # in every bag
@pytest.mark.parametrize("measure", ["permutation", "loss_oob", "sobol_mda", "mdi_plus_oob"])
def test_other_measures_leave_copies_out(measure):
    X, y, original = draw("numbers")
    forest = RandomForestRegressor(10, random_state=0).fit(X, y)
    result = tw.importance(forest, X, y, measure=measure, random_state=0)
    listed = tw.importance(forest, X, y, rows=list_uncopied(forest, original), measure=measure, random_state=0)
    np.testing.assert_array_equal(result.values, listed.values)


def test_results_do_not_depend_on_engines_or_threads(engines):
    X, y, _ = draw("classes")
    forest = RandomForestClassifier(30, random_state=0).fit(X, y)
    first = tw.importance(forest, X, y, engine=engines[0], n_jobs=1)
    for engine in engines:
        for n_jobs in (1, 2):
            other = tw.importance(forest, X, y, engine=engine, n_jobs=n_jobs)
            for name in ("values", "per_tree"):
                np.testing.assert_array_equal(getattr(first, name), getattr(other, name))
            np.testing.assert_allclose(first.null_std_error, other.null_std_error, rtol=1e-12)


@pytest.mark.parametrize("name", ["few levels", "rows of six levels", "dummy columns", "zip codes and sexes"])
def test_tables_of_categories_stay_as_they_are(name, monkeypatch):
    X = TABLES[name][0]
    X = (pd.get_dummies(X) if isinstance(X, pd.DataFrame) else pd.DataFrame(X)).to_numpy(dtype=float)
    y = np.random.default_rng(0).integers(0, 2, len(X))
    forest = RandomForestClassifier(20, random_state=0).fit(X, y)
    result = tw.importance(forest, X, y, contributions=True)
    monkeypatch.setattr(inputs, "find_copies", lambda _matrix, _n_threads: None)
    before = tw.importance(forest, X, y, contributions=True)
    for array in (*ARRAYS, "contributions"):
        np.testing.assert_array_equal(getattr(result, array), getattr(before, array))
    assert result.notes == before.notes == ()


def test_lists_of_rows_leave_copies_out_if_bags_are_known():
    X, y, original = draw("numbers")
    forest = RandomForestRegressor(10, random_state=0).fit(X, y)
    lists = [np.setdiff1d(np.arange(120), bag) for bag in forest.estimators_samples_]
    listed = tw.importance(forest, X, y, rows=lists)
    np.testing.assert_array_equal(
        listed.values, tw.importance(forest, X, y, rows=list_uncopied(forest, original)).values
    )


def test_held_out_copies_count_as_one_row():
    X, y, original = draw("numbers")
    rng = np.random.default_rng(1)
    model = GradientBoostingRegressor(n_estimators=10).fit(rng.standard_normal((80, 4)), rng.standard_normal(80))
    result = tw.importance(model, X, y, rows="heldout")
    grouped = tw.importance(model, X, y, rows="heldout", groups=original)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(result, name), getattr(grouped, name))
    assert "copies" in result.notes[0]
    assert "trained" not in result.notes[0]


def test_folds_keep_copies_together():
    X, y, original = draw("numbers")
    model = GradientBoostingRegressor(n_estimators=10, random_state=0)
    result = tw.cross_importance(model, X, y, cv=4, progress=False)
    grouped = tw.cross_importance(model, X, y, cv=4, groups=original, progress=False)
    for name in ("values", "null_std_error", "total_error"):
        np.testing.assert_array_equal(getattr(result, name), getattr(grouped, name))
    assert not find_lacking(result.notes[0], "20 of 120 rows", "copies")


def test_given_folds_leave_out_copies_of_training_rows():
    X, y, original = draw("numbers")
    model = GradientBoostingRegressor(n_estimators=10, random_state=0)
    splits = list(KFold(4).split(X))
    uncopied = [(train, [row for row in test if original[row] not in set(original[train])]) for train, test in splits]
    n_left_out = sum(len(test) for _, test in splits) - sum(len(test) for _, test in uncopied)
    with pytest.warns(UserWarning, match=rf"{n_left_out} held-out rows were left out.*copies.*number of folds"):
        result = tw.cross_importance(model, X, y, cv=splits, progress=False)
    expected = tw.cross_importance(model, X, y, cv=uncopied, progress=False)
    np.testing.assert_array_equal(result.values, expected.values)
    with pytest.raises(ValueError, match=r"fold are copies.*number of folds"):
        tw.cross_importance(model, X, y, cv=[(np.arange(100), np.arange(100, 120))], progress=False)


def test_a_number_of_folds_is_no_remedy_where_it_does_not_keep_copies_together():
    X, y, _ = draw("numbers")
    model, splits = GradientBoostingRegressor(n_estimators=5, random_state=0), [(np.arange(100), np.arange(100, 120))]
    fitted = cross_validate(model, X, y, cv=splits, return_estimator=True, return_indices=True)
    with pytest.raises(ValueError, match=r"fold are copies.*; remove the copies\.$"):
        tw.cross_importance(fitted, X, y)
    with pytest.warns(UserWarning, match=r"held-out row.*copies.*; remove the copies\.$"):
        tw.cross_importance(model, X, y, cv=2, groups=np.arange(120) // 2, progress=False)


def test_an_oversampled_class_has_no_p_values():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 4)), (np.arange(300) < 20).astype(int)
    rows = np.append(np.arange(300), rng.integers(0, 20, 260))
    with pytest.warns(UserWarning, match=r"withheld.* rows of class 1 .*copies.*remove"):
        result = tw.importance(RandomForestClassifier(30, random_state=0).fit(X[rows], y[rows]), X[rows], y[rows])
    assert "copies" in result.inference_unavailable
    assert np.isnan(result.p_value).all()
    assert np.isnan(result.total_p_value)
    assert np.isfinite(result.values).all()


def test_a_rare_class_is_not_withheld_for_copies_of_other_rows():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 4)), (np.arange(300) < 3).astype(int)
    rows = np.append(np.arange(300), [100, 101])
    result = tw.importance(RandomForestClassifier(30, random_state=0).fit(X[rows], y[rows]), X[rows], y[rows])
    assert "2 of 302 rows" in result.notes[0]
    assert result.inference_unavailable is None


@pytest.mark.statistical
def test_copies_do_not_make_noise_significant():
    n_rejected, n_total = 0, 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((285, 6)), rng.standard_normal(285)
        rows = np.append(np.arange(285), rng.integers(0, 285, 15))
        forest = RandomForestRegressor(50, random_state=seed).fit(X[rows], y[rows])
        result = tw.importance(forest, X[rows], y[rows])
        n_rejected += int((result.p_value <= 0.05).sum())
        n_total += result.total_p_value <= 0.05
    # 5% of 360 and of 60 tests, and three standard errors; without the rule, 15% and 50%.
    assert n_rejected <= 31
    assert n_total <= 8


def test_rows_of_small_integers_have_hashes_of_their_own(engine):
    values = np.random.default_rng(0).integers(0, 2, (60_000, 40)).astype(np.float64)
    matrix = FeatureMatrix(values, np.empty(0, dtype=np.str_), has_missing=False)
    hashes = resolve_engine(engine).hash_rows(matrix, _draw_factors(matrix))
    assert len(values if hashes is None else np.unique(hashes)) == len(np.unique(values, axis=0))
