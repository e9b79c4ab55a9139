"""Fused scoring: redrawn bags, trees in place, and bitwise agreement with the numpy engine on any threads."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.ensemble import (
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)

import truewood as tw
from truewood._engines.records import BrokenTreeError, EveryRow, InfluenceBuffers, SplitCriterion
from truewood._engines.selection import ENGINE_VARIABLE, resolve_engine
from truewood._inputs.tables import FeatureMatrix, InputSpec
from truewood._inputs.target import NumberTarget, TargetKind
from truewood._measures.split_measures import make_ufi_centered_terms
from truewood._rows import evaluation_rows
from truewood._scoring import fused
from truewood._trees.ensemble import TreeArrays
from truewood.adapters import TargetSpec, TrainingRecord, TreeModel, TreeReader, open_model

pytestmark = [pytest.mark.tsan, pytest.mark.asan, pytest.mark.kernel]

rng = np.random.default_rng(0)
X = rng.standard_normal((300, 5)).astype(np.float32)
NUMBERS = X[:, 0] + X[:, 1] * X[:, 2] + rng.standard_normal(300)
CLASSES = np.digitize(NUMBERS, [-1.0, 1.0])
PARTS = (
    "values",
    "per_tree",
    "per_output",
    "mdi",
    "contributions",
    "null_std_error",
    "std_error",
    "total_error",
    "share",
)


def assert_same_bits(result, other):
    for name in (*PARTS, "skipped_weight", "impurity"):
        assert_array_equal(getattr(result, name), getattr(other, name), err_msg=name)


@pytest.mark.parametrize("n_rows", [1, 2, 3, 255, 256, 257, 777, 70_000])
def test_bags_are_numpys(n_rows):
    for seed in (0, 1, 2**31 - 1, 2**32 - 1):
        n_draws = 1 + seed % 1999
        expected = np.random.RandomState(seed).randint(0, n_rows, n_draws, dtype=np.int32)
        for name in ("native", "numpy"):
            assert_array_equal(resolve_engine(name).draw_bag(seed, n_draws, n_rows), expected)


@pytest.mark.parametrize("options", [{}, {"max_samples": 0.3}, {"class_weight": "balanced"}, {"max_depth": 3}])
def test_bags_of_seeds_lists_and_trees_that_are_read_give_the_same_bits(options, monkeypatch):
    forest = RandomForestClassifier(12, random_state=0, **options).fit(X, CLASSES)
    expected = tw.importance(forest, X, CLASSES, contributions=True)
    monkeypatch.setattr(evaluation_rows, "find_bag_seeds", lambda *_arguments: None)
    assert_same_bits(tw.importance(forest, X, CLASSES, contributions=True), expected)
    monkeypatch.setattr(fused, "_BATCH_ROWS", 1)  # a tree at a time
    assert_same_bits(tw.importance(forest, X, CLASSES, contributions=True), expected)
    monkeypatch.setattr(TreeModel, "find_tree_arrays", lambda _model: None)
    monkeypatch.setattr(fused, "_BATCH_NODES", 1)
    assert_same_bits(tw.importance(forest, X, CLASSES, contributions=True), expected)


def test_bags_that_differ_from_the_librarys_are_not_drawn_again(monkeypatch):
    forest = RandomForestRegressor(12, random_state=0).fit(X, NUMBERS)
    expected = tw.importance(forest, X, NUMBERS)
    asked = []

    def draw_others(_self, seed, n_draws, n_rows):
        asked.append(seed)
        return np.zeros(n_draws, dtype=np.int64)

    monkeypatch.setattr(type(resolve_engine("native")), "draw_bag", draw_others)
    assert_array_equal(tw.importance(forest, X, NUMBERS).values, expected.values)
    assert asked == [forest.estimators_[0].random_state]


def list_models():
    weight = np.random.default_rng(1).random(len(X))
    two = np.column_stack([NUMBERS, X[:, 3]])
    yield "classes", RandomForestClassifier(7, random_state=0).fit(X, CLASSES), CLASSES, {}
    yield "numbers", RandomForestRegressor(7, random_state=0).fit(X, NUMBERS), NUMBERS, {}
    yield "weights", RandomForestRegressor(7, random_state=0).fit(X, NUMBERS, weight), NUMBERS, {}
    yield "two numbers", ExtraTreesRegressor(7, bootstrap=True, random_state=0).fit(X, two), two, {}
    both = np.column_stack([CLASSES, CLASSES > 0])
    yield "two classes", RandomForestClassifier(7, random_state=0).fit(X, both), both, {}
    balanced = RandomForestClassifier(7, random_state=0, class_weight="balanced_subsample").fit(X, CLASSES)
    yield "balanced", balanced, CLASSES, {}
    boosted = HistGradientBoostingClassifier(max_iter=7).fit(X[:150], CLASSES[:150])
    yield "held-out", boosted, CLASSES, {"rows": [np.arange(299, 149, -1)] * 21}


@pytest.mark.parametrize("measure", ["auto", "ufi", "ufi_centered", "mdi_oob"])
def test_engines_and_threads_give_the_same_bits(measure, monkeypatch):
    for name, model, y, options in list_models():
        monkeypatch.setenv(ENGINE_VARIABLE, "numpy")
        expected = tw.importance(model, X, y, measure=measure, contributions=True, **options)
        monkeypatch.setenv(ENGINE_VARIABLE, "native")
        for n_jobs in (1, 3):
            found = tw.importance(model, X, y, measure=measure, contributions=True, n_jobs=n_jobs, **options)
            try:
                assert_same_bits(found, expected)
            except AssertionError as error:
                raise AssertionError(f"{name}, {n_jobs} threads") from error


@pytest.mark.parametrize("n_features", [1, 3, 45, 63, 80])
@pytest.mark.parametrize("bootstrap", [True, False])
def test_more_rows_than_a_chunk_and_more_columns_than_a_path(n_features, bootstrap, monkeypatch):
    many = np.random.default_rng(2).standard_normal((9000, n_features))
    target = many[:, 0] + np.random.default_rng(3).standard_normal(9000)
    forest = RandomForestRegressor(11, max_depth=4, bootstrap=bootstrap, random_state=0)
    forest.fit(*((many, target) if bootstrap else (many[:300], target[:300])))
    rows = {"rows": "oob"} if bootstrap else {"rows": "heldout"}
    monkeypatch.setenv(ENGINE_VARIABLE, "numpy")
    expected = tw.importance(forest, many, target, contributions=True, **rows)
    monkeypatch.setenv(ENGINE_VARIABLE, "native")
    for n_jobs in (1, 4):
        assert_same_bits(tw.importance(forest, many, target, contributions=True, n_jobs=n_jobs, **rows), expected)


def test_influence_of_some_rows_is_that_of_these_rows_among_all():
    many = np.random.default_rng(2).standard_normal((3000, 5))
    target = NumberTarget.of_numbers(many[:, :1] + np.random.default_rng(3).standard_normal((3000, 1)))
    trees = open_model(RandomForestRegressor(11, max_depth=4, random_state=0).fit(X, NUMBERS)).find_tree_arrays()
    matrix = FeatureMatrix(many.astype(np.float32), np.array(list("abcde")), False)
    criterion = SplitCriterion("ufi", skips=True, scale=1.0, is_additive=False, row_terms=make_ufi_centered_terms)

    def add_influence(first, n_rows):
        influence = np.zeros((n_rows, 5))
        resolve_engine("native").score_fused(
            trees,
            TargetKind(),
            matrix,
            target,
            rows=EveryRow(),
            row_weight=None,
            criterion=criterion,
            influence=InfluenceBuffers(influence, None, None, first),
        )
        return influence

    whole = add_influence(0, 3000)
    assert (whole != 0).any(axis=1).all()
    for first, n_rows in ((0, 700), (511, 600), (512, 2488), (1500, 1500)):
        assert_array_equal(add_influence(first, n_rows), whole[first : first + n_rows])


def test_trees_are_read_in_place():
    forest = RandomForestClassifier(3, random_state=0).fit(X, CLASSES)
    trees = open_model(forest).find_tree_arrays()
    assert len(trees) == 3
    assert np.shares_memory(trees[0].threshold, forest.estimators_[0].tree_.threshold)
    forest = RandomForestRegressor(3, criterion="absolute_error", random_state=0).fit(X[:50], NUMBERS[:50])
    assert open_model(forest).find_tree_arrays() is None  # its values are medians


def test_arrays_of_another_number_of_columns_are_refused():
    ensemble = tw.to_ensemble(RandomForestRegressor(1, max_depth=1, random_state=0).fit(X, NUMBERS))
    reader = TreeReader.of_ensemble(ensemble, find_tree_arrays=lambda: [STUMP._replace(value=np.zeros((3, 2)))])
    model = TreeModel(InputSpec("Forest", ensemble.n_features), TargetSpec(TargetKind()), reader)
    with pytest.raises(tw.AdapterError, match=r"3 nodes and 1 columns.*\(3, 2\)"):
        model.find_tree_arrays()


STUMP = TreeArrays(
    feature=np.array([0, -2, -2]),
    threshold=np.zeros(3),
    left=np.array([1, -1, -1]),
    right=np.array([2, -1, -1]),
    missing_left=np.zeros(3, dtype=np.uint8),
    weight=np.array([2.0, 1.0, 1.0]),
    value=np.array([[0.0], [-1.0], [1.0]]),
    root_impurity=1.0,
)


def score_in_place(tree, formula="ufi_centered"):
    target = NumberTarget.of_numbers(NUMBERS[:, np.newaxis])
    matrix = FeatureMatrix(X, np.array(list("abcde")), False)
    criterion = SplitCriterion(formula, skips=True, scale=1.0, is_additive=False, row_terms=make_ufi_centered_terms)
    engine = resolve_engine("native")
    return engine.score_fused(
        [tree], TargetKind(), matrix, target, rows=EveryRow(), row_weight=None, criterion=criterion
    )


def change(name, value, place=0):
    changed = np.array(getattr(STUMP, name))
    changed[place] = value
    return STUMP._replace(**{name: changed})


@pytest.mark.parametrize(
    "tree",
    [
        change("left", 3),
        change("left", 0),
        change("left", 2),
        change("left", -1),
        change("right", 2**40),
        change("left", 1, 1),
        change("feature", 5),
        change("feature", -1),
        change("threshold", np.nan),
        change("weight", -1.0, 1),
        change("weight", np.nan, 2),
        change("weight", 0.0),
        change("value", np.inf, 1),
        STUMP._replace(left=STUMP.left.astype(np.float64)),
        STUMP._replace(threshold=STUMP.threshold.astype(np.float32)),
        STUMP._replace(weight=STUMP.weight[:2]),
        STUMP._replace(value=STUMP.value[:, 0]),
        STUMP._replace(value=np.zeros((3, 2))),
    ],
)
def test_broken_trees_are_rejected_in_place(tree):
    with pytest.raises(BrokenTreeError):
        score_in_place(tree)


def test_a_tree_is_read_at_any_stride():
    expected = score_in_place(STUMP)
    records = np.zeros(3, dtype=[("left", "<i8"), ("other", "u1"), ("right", "<i8"), ("weight", "<f8")])
    for name in ("left", "right", "weight"):
        records[name] = getattr(STUMP, name)
    odd = STUMP._replace(left=records["left"], right=records["right"], weight=records["weight"])
    odd = odd._replace(value=np.asfortranarray(np.repeat(STUMP.value, 3, axis=1))[:, 1:2])
    found = score_in_place(odd)
    for part in fields(expected):
        assert_array_equal(getattr(found, part.name), getattr(expected, part.name))


def test_a_row_may_be_in_a_bag_any_number_of_times(monkeypatch):
    few, labels = np.repeat(np.arange(3.0), 10)[:, np.newaxis], np.tile([0, 1], 15)
    forest = RandomForestClassifier(2, max_samples=3_000_000, random_state=0).fit(few, labels)
    assert np.bincount(forest.estimators_samples_[0]).max() > 1 << 16
    with pytest.raises(ValueError, match="rows='heldout'"):
        tw.importance(forest, few, labels)
    bag = np.repeat(np.arange(1, 30), 70_000)  # all but the first row
    monkeypatch.setattr(evaluation_rows, "find_bag_seeds", lambda *_arguments: None)
    monkeypatch.setattr(TrainingRecord, "list_bag", lambda *_args: bag)
    scored = tw.importance(forest, few, labels, inference=False)
    assert np.isfinite(scored.per_tree).all()


def test_a_formula_that_the_kernel_does_not_have_is_refused():
    with pytest.raises(ValueError, match="loss_oob"):
        score_in_place(STUMP, "loss_oob")


def test_a_broken_tree_of_a_forest_is_refused(monkeypatch):
    forest = RandomForestRegressor(3, random_state=0).fit(X, NUMBERS)
    view = open_model(forest)
    trees = view.find_tree_arrays()
    trees[1] = trees[1]._replace(threshold=np.full(len(trees[1].threshold), np.nan))
    monkeypatch.setattr(type(view), "find_tree_arrays", lambda _self: trees)
    with pytest.raises(BrokenTreeError, match="threshold"):
        tw.importance(forest, X, NUMBERS)


@pytest.mark.parametrize("categorical", [None, [4]])
def test_categories_and_missing_values_are_fused(categorical, monkeypatch):
    values = X.astype(np.float64).copy()
    values[:, 4] = np.random.default_rng(4).integers(0, 6, len(X))
    values[::7, 0] = np.nan
    model = HistGradientBoostingClassifier(max_iter=9, categorical_features=categorical).fit(
        values[:150], CLASSES[:150]
    )
    monkeypatch.setenv(ENGINE_VARIABLE, "numpy")
    expected = tw.importance(model, values[150:], CLASSES[150:], rows="heldout", contributions=True)
    monkeypatch.setenv(ENGINE_VARIABLE, "native")
    found = tw.importance(model, values[150:], CLASSES[150:], rows="heldout", contributions=True, n_jobs=2)
    assert_same_bits(found, expected)
