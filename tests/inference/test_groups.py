"""`groups=`: standard errors of clustered rows are those of sums over groups."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.ensemble import (
    BaggingRegressor,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)

import truewood as tw
from helpers import oracle
from helpers.grouped_forest import GroupForestClassifier, GroupForestRegressor, list_oob_rows
from helpers.messages import find_lacking
from truewood._report.wording import describe_method
from truewood._results.caveats import list_caveats
from truewood._scoring import influence

N_GROUPS, N_ROWS = 30, 120
ERRORS = ("std_error", "null_std_error", "total_error")


def draw(seed, n_rows=N_ROWS):
    """Rows of groups of different size, in no order, with a group effect; x1 is the same within a group."""
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(N_GROUPS), rng.integers(0, N_GROUPS, n_rows - N_GROUPS)])
    rng.shuffle(labels)
    X = rng.standard_normal((n_rows, 4))
    X[:, 1] = rng.standard_normal(N_GROUPS)[labels]
    y = X[:, 0] + rng.standard_normal(N_GROUPS)[labels] + rng.standard_normal(n_rows)
    return X, y, np.array([f"patient {label}" for label in labels])


X, y, LABELS = draw(0)
X_NEW, Y_NEW, NEW = draw(1)


@pytest.fixture(scope="module")
def forest():
    return RandomForestRegressor(15, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def group_forest():
    return GroupForestRegressor(15, min_samples_leaf=3, random_state=0).fit_groups(X, y, LABELS)


def assert_same(one, other, **close):
    for name in ERRORS:
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), err_msg=name, **close)


@pytest.mark.parametrize("measure", ["ufi", "ufi_centered", "mdi_oob"])
def test_held_out_errors_are_those_of_plain_loops(forest, measure, engine):
    del engine
    result = tw.importance(forest, X_NEW, Y_NEW, rows="heldout", measure=measure, groups=NEW, contributions=True)
    expected = [oracle.errors_of_groups(NEW, phi, None, None, None, None) for phi in result.contributions.T]
    np.testing.assert_allclose(np.column_stack([result.null_std_error, result.std_error]), expected, rtol=1e-12)
    total, _ = oracle.errors_of_groups(NEW, result.contributions.sum(axis=1), None, None, None, None)
    assert result.total_error == pytest.approx(total, rel=1e-12)
    assert (result.n_groups, result.contributions.shape) == (N_GROUPS, X_NEW.shape)
    plain = tw.importance(forest, X_NEW, Y_NEW, rows="heldout", measure=measure, contributions=True)
    np.testing.assert_array_equal(plain.values, result.values)
    np.testing.assert_array_equal(plain.contributions, result.contributions)
    assert (np.abs(plain.null_std_error / result.null_std_error - 1) > 0.001).all()


@pytest.mark.parametrize("kind", [GroupForestRegressor, GroupForestClassifier])
def test_errors_of_bags_by_group_are_those_of_plain_loops(kind, engine, monkeypatch):
    del engine
    seen, target = [], y if kind is GroupForestRegressor else (y > 0).astype(int)

    def spy(*arguments, **options):
        for block in influence.allocate_influence(*arguments, **options):
            seen.append(block)
            yield block

    forest = kind(25, min_samples_leaf=25, random_state=1).fit_groups(X[:, :1], target, LABELS)
    options = {"measure": "ufi_centered", "groups": LABELS}
    with monkeypatch.context() as patch:
        patch.setattr("truewood._scoring.importance.allocate_influence", spy)
        result = tw.importance(forest, X[:, :1], target, **options)
    found, per_tree = seen[0], result.per_tree[:, 0]
    phi, psi = found.eval_influence[:, 0] / len(per_tree), found.inbag_influence[:, 0] / len(per_tree)
    biased = tw.importance(forest, X[:, :1], target, measure="mdi").values[0]
    assert result.skipped_weight == 0  # so that all splits count in mdi, too
    expected = oracle.errors_of_groups(LABELS, phi, psi, found.bags, per_tree, biased)
    np.testing.assert_allclose((result.null_std_error[0], result.std_error[0]), expected, rtol=1e-12)
    np.testing.assert_allclose(result.total_error, expected[0], rtol=1e-12)
    listed = tw.importance(forest, X[:, :1], target, rows=list_oob_rows(forest), **options)
    assert_same(listed, result, rtol=1e-12)


@pytest.mark.parametrize("inference", [True, "bags"])
@pytest.mark.filterwarnings("ignore:inference='bags'")
def test_groups_of_one_row_change_nothing(forest, inference):
    plain = tw.importance(forest, X, y, inference=inference)
    single = tw.importance(forest, X, y, inference=inference, groups=np.random.default_rng(0).permutation(N_ROWS))
    for name in ("values", *ERRORS, "p_value"):
        np.testing.assert_array_equal(getattr(single, name), getattr(plain, name))
    heldout = {"rows": "heldout", "inference": True}
    one, other = (tw.importance(forest, X_NEW, Y_NEW, groups=own, **heldout) for own in (None, np.arange(N_ROWS)))
    assert_same(one, other, rtol=0)


def test_labels_of_any_kind_and_rows_in_any_order(forest):
    options = {"rows": "heldout", "feature_groups": {"both": [0, 1]}}
    expected = tw.importance(forest, X_NEW, Y_NEW, groups=NEW, **options)
    numbers = np.unique(NEW, return_inverse=True)[1]
    kinds = [
        NEW.tolist(),
        numbers * 0.5,
        numbers - 7,
        [(label, 1) for label in NEW],
        [None.__class__ if label == NEW[0] else label for label in NEW],
        pd.Categorical(NEW),
        pd.Series(NEW, index=np.arange(N_ROWS)[::-1]),
        pd.Series(numbers, dtype="Int64"),
        numbers.astype(">i4"),
        pl.Series(NEW),
        np.datetime64("2026-01-01") + numbers,
    ]
    for labels in kinds:
        assert_same(tw.importance(forest, X_NEW, Y_NEW, groups=labels, **options), expected, rtol=0)
    order = np.random.default_rng(2).permutation(N_ROWS)
    shuffled = tw.importance(forest, X_NEW[order], Y_NEW[order], groups=NEW[order], **options)
    assert_same(shuffled, expected, rtol=1e-10)
    assert_same(shuffled.expand(), expected.expand(), rtol=1e-10)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_a_column_of_the_table_is_no_feature(forest, make):
    named = [f"x{j}" for j in range(4)]
    fitted = RandomForestRegressor(15, random_state=0).fit(pd.DataFrame(X, columns=named), y)
    table = make(dict(zip(named, X_NEW.T, strict=True)) | {"patient": NEW, "y": Y_NEW})
    result = tw.importance(fitted, table, "y", rows="heldout", groups="patient")
    assert result.feature_names.tolist() == named
    assert_same(result, tw.importance(forest, X_NEW, Y_NEW, rows="heldout", groups=NEW), rtol=1e-12)
    with pytest.raises(ValueError, match=r"groups.*'doctor'.*x0"):
        tw.importance(fitted, table, "y", rows="heldout", groups="doctor")


def test_parts_of_classes_have_errors_of_groups():
    labels = NEW
    codes, new_codes = np.digitize(y, [-1, 1]), np.digitize(Y_NEW, [-1, 1])
    model = GradientBoostingClassifier(n_estimators=10, random_state=0).fit(X, codes)
    result = tw.importance(model, X_NEW, new_codes, rows="heldout", groups=labels, per_class=True, contributions=True)
    plain = tw.importance(model, X_NEW, new_codes, rows="heldout", per_class=True)
    np.testing.assert_array_equal(result.per_class, plain.per_class)
    assert (result.classes.null_std_error != plain.classes.null_std_error).all()
    twice = tw.importance(
        model,
        np.tile(X_NEW, (2, 1)),
        np.tile(new_codes, 2),
        rows="heldout",
        groups=np.tile(labels, 2),
        per_class=True,
    )
    wider = np.sqrt(oracle.widen(np.tile(labels, 2)) / oracle.widen(labels))
    np.testing.assert_allclose(twice.classes.null_std_error, wider * result.classes.null_std_error, rtol=1e-9)
    np.testing.assert_allclose(twice.null_std_error, wider * result.null_std_error, rtol=1e-9)


@pytest.mark.parametrize("inference", [True, "bags"])
@pytest.mark.filterwarnings("ignore:inference='bags'")
def test_groups_over_several_blocks(group_forest, inference, monkeypatch):
    expected = tw.importance(group_forest, X, y, groups=LABELS, inference=inference)
    monkeypatch.setattr(influence, "MOST_INFLUENCE_VALUES", 4 * 25)
    assert_same(tw.importance(group_forest, X, y, groups=LABELS, inference=inference), expected, rtol=1e-10)


def test_rows_that_score_nothing_do_not_count(forest):
    weight = np.ones(N_ROWS)
    weight[NEW[0] == NEW], weight[:10] = 0.0, 0.0
    result = tw.importance(forest, X_NEW, Y_NEW, rows="heldout", sample_weight=weight, groups=NEW)
    kept = weight > 0
    without = tw.importance(forest, X_NEW[kept], Y_NEW[kept], rows="heldout", groups=NEW[kept])
    assert_same(result, without, rtol=1e-10)


def test_groups_on_both_sides_of_a_tree_are_refused(forest, group_forest):
    with pytest.raises(ValueError, match=r"tree 0\b.*cross_importance.*GroupKFold"):
        tw.importance(forest, X, y, groups=LABELS)
    other = LABELS.copy()
    other[:40] = "one of all"
    with pytest.raises(ValueError, match=r"groups.*tree"):
        tw.importance(group_forest, X, y, groups=other)
    with pytest.raises(ValueError, match=r"groups.*tree"):
        tw.importance(group_forest, X, y, rows=list_oob_rows(group_forest), groups=other)
    bagging = BaggingRegressor(n_estimators=5, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"groups.*tree"):
        tw.importance(bagging, X, y, groups=LABELS)


def test_lists_of_trees_without_known_bags_are_taken(group_forest):
    trees = tw.to_ensemble(group_forest)
    result = tw.importance(trees, X, y, rows=list_oob_rows(group_forest), groups=LABELS)
    assert result.n_groups == N_GROUPS
    assert (result.null_std_error > 0).all()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (NEW[1:], r"^groups\b.*\b120\b.*\b119\b"),
        (np.where(np.arange(N_ROWS) == 7, np.nan, 1.0), r"row 7\b"),
        ([*NEW[:-1], None], r"row 119\b"),
        (pd.Series([pd.NaT] * N_ROWS), r"row 0\b"),
        (np.column_stack([NEW, NEW]), r"\(120,\).*\(120, 2\)"),
        (5, r"\(\)"),
        ([[1]] * N_ROWS, "labels"),
        ("patient", r"groups='patient'.*\bX\b.*ndarray"),
    ],
)
def test_bad_labels_are_refused(forest, labels, message):
    with pytest.raises((ValueError, TypeError), match=message):
        tw.importance(forest, X_NEW, Y_NEW, rows="heldout", groups=labels)


def test_few_groups_or_one_large_group_give_no_errors(forest):
    with pytest.warns(UserWarning, match=r"20 groups .* got 19\b.*withheld"):
        few = tw.importance(forest, X_NEW, Y_NEW, rows="heldout", groups=np.arange(N_ROWS) % 19)
    assert not find_lacking(few.inference_unavailable, "20 groups", "19")
    large = np.where(np.arange(N_ROWS) < 60, -1, np.arange(N_ROWS))
    with pytest.warns(UserWarning, match=r"20 groups .* count as 3\.9\b.*withheld"):
        unequal = tw.importance(forest, X_NEW, Y_NEW, rows="heldout", groups=large)
    assert not find_lacking(unequal.inference_unavailable, "20 groups", "61", "3.9")
    assert np.isnan(unequal.p_value).all()
    enough = tw.importance(forest, X_NEW, Y_NEW, rows="heldout", groups=np.arange(N_ROWS) % 20)
    assert enough.inference_unavailable is None


def test_rows_elsewhere_are_refused(forest, tmp_path):
    path = tmp_path / "rows.parquet"
    pd.DataFrame(X_NEW, columns=list("abcd")).assign(y=Y_NEW, patient=NEW).to_parquet(path)
    with pytest.raises(ValueError, match=r"groups.*\bX\b.*a path"):
        tw.importance(forest, path, "y", rows="heldout", groups="patient")


def test_comparisons_pair_sums_of_groups(forest, tmp_path):
    other = RandomForestRegressor(15, max_depth=3, random_state=1).fit(X, y)
    options = {"rows": "heldout", "contributions": True}
    a, b = (tw.importance(model, X_NEW, Y_NEW, groups=NEW, **options) for model in (forest, other))
    paired = tw.compare(a, b)
    difference = a.contributions - b.contributions
    expected = [oracle.errors_of_groups(NEW, own, None, None, None, None)[0] for own in difference.T]
    np.testing.assert_allclose(paired.std_error, expected, rtol=1e-12)
    assert not find_lacking(paired.describe(), "paired", "30 groups")
    a.save(tmp_path / "a.json")
    loaded = tw.load(tmp_path / "a.json")
    np.testing.assert_array_equal(tw.compare(loaded, b).std_error, paired.std_error)
    plain = tw.importance(other, X_NEW, Y_NEW, **options)
    with pytest.raises(ValueError, match=r"\ba has groups.*\bb\b"):
        tw.compare(a, plain)
    with pytest.raises(ValueError, match=r"\bb has groups.*\ba\b"):
        tw.compare(plain, a, same_rows=False)
    regrouped = tw.importance(other, X_NEW, Y_NEW, groups=np.roll(NEW, 1), **options)
    with pytest.raises(ValueError, match=r"(other|different) groups"):
        tw.compare(a, regrouped)
    apart = tw.compare(a, regrouped, same_rows=False)
    np.testing.assert_allclose(apart.std_error**2, a.std_error**2 + regrouped.std_error**2)


def test_comparisons_of_forests_with_bags_by_group(group_forest):
    other = GroupForestRegressor(15, min_samples_leaf=8, random_state=3).fit_groups(X, y, LABELS)
    a, b = (tw.importance(model, X, y, groups=LABELS, contributions=True) for model in (group_forest, other))
    noise = [result.per_tree.var(axis=0, ddof=1) / 15 for result in (a, b)]
    squares, of_both = (
        [oracle.widen(LABELS) * (oracle.sum_by_group(phi, LABELS) ** 2).sum(axis=0) for phi in given]
        for given in ((a.contributions, b.contributions), (a.contributions - b.contributions,))
    )
    of_rows = of_both[0] - sum(noise)
    assert (of_rows > 0).any()
    growth = [(own.std_error**2 - n) / square for own, n, square in zip((a, b), noise, squares, strict=True)]
    variance = np.maximum(np.max(growth, axis=0), 1) * np.maximum(of_rows, 0) + sum(noise)
    np.testing.assert_allclose(tw.compare(a, b).std_error ** 2, variance, rtol=1e-12)


def test_results_report_the_number_of_groups(forest, tmp_path):
    result = tw.importance(forest, X_NEW, Y_NEW, rows="heldout", groups=NEW)
    assert not find_lacking(repr(result), "120 held-out rows", "30 groups")
    assert result.groups is None
    facts = dict(describe_method(result, None))
    assert "unit" not in facts["Biased importance"]
    assert any(text.startswith("30 groups") for text in facts.values())
    assert any("30 groups" in caveat.text for caveat in list_caveats(result, None))
    result.save(tmp_path / "result.json")
    loaded = tw.load(tmp_path / "result.json")
    assert (loaded.n_groups, loaded.groups) == (N_GROUPS, None)


@pytest.mark.statistical
@pytest.mark.parametrize("kind", [RandomForestClassifier, RandomForestRegressor])
def test_useless_features_of_groups_are_rejected_as_often_as_they_should(kind):
    rejected = []
    for seed in range(100):
        rng = np.random.default_rng([seed, 7])
        labels = np.repeat(np.arange(80), 10)
        noise = np.column_stack([rng.standard_normal((80, 3))[labels], rng.standard_normal((800, 2))])
        target = rng.standard_normal(80)[labels] + rng.standard_normal(800)
        target = target if kind is RandomForestRegressor else (target > 0).astype(int)
        model = kind(20, min_samples_leaf=20, random_state=seed).fit(noise[:400], target[:400])
        new = {"X": noise[400:], "y": target[400:], "rows": "heldout"}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            results = [tw.importance(model, **new, groups=labels[400:])]
            warnings.filterwarnings("ignore", "contributions of neighboring rows")
            results.append(tw.importance(model, **new))
        rejected.append([result.p_value[:3] < 0.05 for result in results])
    with_groups, ignored = np.mean(rejected, axis=(0, 2))
    assert 0.01 < with_groups < 0.075
    assert ignored > 0.12
