"""Which rows score a tree, and the guard against data the model was not fit on."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from imblearn.ensemble import BalancedRandomForestClassifier
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import truewood as tw
from helpers.sklearn_models import build, has_bags, supported_cases
from truewood._scoring.node_means import average_leaves

rng = np.random.default_rng(0)
X = rng.standard_normal((120, 3))
y = (X[:, 0] + 0.5 * rng.standard_normal(120) > 0).astype(int)
X_new = rng.standard_normal((80, 3))
y_new = (X_new[:, 0] > 0).astype(int)
WITH_BAGS = [name for name in supported_cases() if has_bags(name)]


@pytest.fixture(scope="module")
def forest():
    return RandomForestClassifier(10, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def tree():
    return DecisionTreeClassifier(random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def extra_trees():
    """Trees that all saw every row."""
    return ExtraTreesClassifier(5, random_state=0).fit(X, y)


def test_auto_is_oob_for_a_bootstrap_forest(forest, engine):
    auto, oob = tw.importance(forest, X, y), tw.importance(forest, X, y, rows="oob")
    np.testing.assert_array_equal(auto.per_tree, oob.per_tree)
    assert auto.rows == "oob"


def test_oob_rows_are_those_outside_the_bags(forest, engine):
    lists = [np.setdiff1d(np.arange(120), bag) for bag in forest.estimators_samples_]
    listed = tw.importance(forest, X, y, rows=lists)
    np.testing.assert_array_equal(listed.per_tree, tw.importance(forest, X, y).per_tree)
    assert listed.rows == "lists"
    masks = np.ones((10, 120), dtype=bool)
    for mask, bag in zip(masks, forest.estimators_samples_, strict=True):
        mask[bag] = False
    np.testing.assert_array_equal(tw.importance(forest, X, y, rows=masks).per_tree, listed.per_tree)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("tree", "single tree"),
        ("extra_trees", "bootstrap=False"),
    ],
)
@pytest.mark.parametrize("rows", ["auto", "oob"])
def test_a_model_without_bags_wants_heldout_rows(name, reason, rows, request):
    model = request.getfixturevalue(name)
    with pytest.raises(ValueError, match=f"rows='{rows}'.*{reason}.*heldout"):
        tw.importance(model, X, y, rows=rows)
    assert tw.importance(model, X_new, y_new, rows="heldout").rows == "heldout"


def test_another_number_of_rows_is_refused(forest):
    with pytest.raises(ValueError, match=r"rows='oob'.*\b120\b.*\b80\b.*heldout"):
        tw.importance(forest, X_new, y_new)


@pytest.mark.parametrize("name", WITH_BAGS)
def test_other_data_is_refused(name):
    built = build(name, seed=5)
    order = np.random.default_rng(1).permutation(len(built.y))
    options = {"sample_weight": built.sample_weight}
    with pytest.raises(ValueError, match="X and y"):
        tw.importance(built.model, built.X[order], built.y[order], **options)
    tw.importance(built.model, built.X, built.y, **options)  # the right data is not


def test_another_target_is_refused(rng, forest):
    order = rng.permutation(120)
    with pytest.raises(ValueError, match="X and y"):
        tw.importance(forest, X, y[order])
    regressor = RandomForestRegressor(5, random_state=0).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="X and y"):
        tw.importance(regressor, X, X[order, 0])
    with pytest.raises(ValueError, match="X and y"):
        tw.importance(regressor, X, X[:, 0] + 0.001)


def test_swapped_columns_are_refused(forest):
    with pytest.raises(ValueError, match="X and y"):
        tw.importance(forest, X[:, [1, 0, 2]], y)


def test_a_forest_warm_started_on_other_rows_is_refused(rng):
    warm = RandomForestClassifier(3, warm_start=True, random_state=0).fit(X, y)
    other = rng.standard_normal((120, 3))
    warm.set_params(n_estimators=6).fit(other, y)
    for data in (X, other):
        with pytest.raises(ValueError, match="X and y"):
            tw.importance(warm, data, y)


@pytest.mark.parametrize("name", ["forest", "tree", "extra_trees"])
def test_training_rows_are_no_heldout_rows(name, request):
    model = request.getfixturevalue(name)
    with pytest.raises(tw.TrainingRowsError, match="rows='heldout'"):
        tw.importance(model, X, y, rows="heldout")


def test_new_rows_in_the_same_leaves_are_taken_as_lists():
    """Halves of a table whose classes are far apart: each half has the counts and means of the other."""
    X, y = np.repeat([0.0, 1.0], 20)[:, np.newaxis], np.repeat([0, 1], 20)
    tree = DecisionTreeClassifier().fit(X[::2], y[::2])
    with pytest.raises(ValueError, match=r"^rows='heldout'.*DecisionTreeClassifier.*training data"):
        tw.importance(tree, X[1::2], y[1::2], rows="heldout")
    assert tw.importance(tree, X[1::2], y[1::2], rows=[range(20)]).values == [0.5]


def test_lists_are_checked_by_the_largest_suitable_tree():
    X, y = np.append(np.arange(20.0), np.arange(100.0, 120.0))[:, np.newaxis], np.repeat([0, 1], 20)
    forest = RandomForestClassifier(20, random_state=0).fit(X[::2], np.append(1, y[2::2]))
    n_nodes = [tree.tree_.node_count for tree in forest.estimators_]
    assert max(n_nodes) > min(n_nodes) == 3
    # The first tree was not trained on the odd row, and cannot distinguish the new rows from its own.
    forest.estimators_.insert(0, forest.estimators_.pop(int(np.argmin(n_nodes))))
    assert tw.importance(forest, X[1::2], y[1::2], rows=[range(20)] * 20).values > 0


def test_as_many_heldout_rows_as_training_rows_are_fine(rng, forest):
    other = rng.standard_normal((120, 3))
    assert tw.importance(forest, other, (other[:, 0] > 0).astype(int), rows="heldout").n_rows == 120


def test_trees_without_evaluation_rows_are_left_out(forest):
    lists = [np.setdiff1d(np.arange(120), bag) for bag in forest.estimators_samples_]
    lists[2], lists[7] = [], []
    with pytest.warns(UserWarning, match="2 of 10 trees"):
        result = tw.importance(forest, X, y, rows=lists)
    assert np.isnan(result.per_tree[[2, 7]]).all()
    kept = np.delete(result.per_tree, [2, 7], axis=0)
    np.testing.assert_allclose(result.values, kept.mean(axis=0), rtol=1e-12)
    whole = tw.importance(forest, X, y)
    np.testing.assert_array_equal(kept, np.delete(whole.per_tree, [2, 7], axis=0))
    np.testing.assert_array_equal(result.mdi, whole.mdi)


def test_rows_of_no_weight_are_no_rows(forest):
    weight = np.zeros(80)
    weight[:50] = 1.0
    weighted = tw.importance(forest, X_new, y_new, rows="heldout", sample_weight=weight)
    fewer = tw.importance(forest, X_new[:50], y_new[:50], rows="heldout")
    np.testing.assert_array_equal(weighted.per_tree, fewer.per_tree)
    assert weighted.skipped_weight == fewer.skipped_weight


def test_a_bagging_that_saw_everything_has_no_oob_rows():
    bagging = BaggingClassifier(n_estimators=3, bootstrap=False).fit(X, y)
    with pytest.raises(ValueError, match="rows='heldout'"):
        tw.importance(bagging, X, y)


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ("in-bag", ValueError, r"^rows\b.*'auto', 'oob', 'heldout'.*'in-bag'"),
        (3, TypeError, r"^rows\b.*\bint\b"),
        ([[0]], ValueError, r"^rows\b.*\b10\b.*\b1\b"),
        ([[0.5]] * 10, ValueError, r"rows\[0\].*mask.*\b120\b"),
        ([[0, 120]] * 10, ValueError, r"rows\[0\].*\b0\b.*\b119\b"),
        ([[-1]] * 10, ValueError, r"rows\[0\].*\b0\b.*\b119\b"),
        ([[True, False]] * 10, ValueError, r"rows\[0\].*mask"),
        ([[[0]]] * 10, ValueError, r"rows\[0\].*mask"),
    ],
)
def test_bad_rows_are_refused(forest, rows, error, message):
    with pytest.raises(error, match=message):
        tw.importance(forest, X, y, rows=rows)


def test_medians_give_way_to_means_only_with_bags(engine):
    target = X[:, 0] ** 3
    absolute = RandomForestRegressor(4, criterion="absolute_error", max_depth=3, random_state=0).fit(X, target)
    oob = tw.importance(absolute, X, target, measure="mdi")
    bag = absolute.estimators_samples_[0]
    path = absolute.estimators_[0].decision_path(X).toarray()[bag].astype(bool)
    inner = absolute.estimators_[0].tree_
    mean = np.array([target[bag][path[:, node]].mean() for node in range(inner.node_count)])
    expected = np.zeros(3)
    for m in np.flatnonzero(inner.children_left != -1):
        for child in (inner.children_left[m], inner.children_right[m]):
            expected[inner.feature[m]] += path[:, child].mean() * (mean[child] - mean[m]) ** 2
    np.testing.assert_allclose(oob.per_tree[0], expected, rtol=1e-10)

    # Without training rows, an inner node stands for the mean of its leaves' predictions.
    single = DecisionTreeRegressor(criterion="absolute_error", max_depth=2, random_state=0).fit(X, target)
    value, leaves = average_leaves(tw.to_ensemble(single)).value[:, 0], single.apply(X)
    assert value[0] == pytest.approx(single.tree_.value[leaves, 0, 0].mean())
    result = tw.importance(single, X_new, X_new[:, 0] ** 3, rows="heldout", measure="ufi_centered")
    assert result.share[0] == pytest.approx(result.values[0] / np.var(X_new[:, 0] ** 3))


def test_recomputed_means_want_the_weights_of_the_fit(rng):
    weight = rng.integers(1, 4, 120).astype(float)
    bagging = BaggingClassifier(
        DecisionTreeClassifier(monotonic_cst=[1, 0, 0], class_weight={0: 1.0, 1: 2.0}), 5, random_state=0
    ).fit(X, y, sample_weight=weight)
    tw.importance(bagging, X, y, sample_weight=weight)
    bagging.estimators_[2].class_weight = None
    with pytest.raises(ValueError, match=r"sample_weight.*weights"):
        tw.importance(bagging, X, y, sample_weight=weight)


@pytest.mark.parametrize("name", WITH_BAGS)
def test_the_right_rows_with_another_target_are_refused(name):
    built = build(name, seed=6)
    order = np.random.default_rng(2).permutation(len(built.y))
    with pytest.raises(ValueError, match="X and y"):
        tw.importance(built.model, built.X, built.y[order], sample_weight=built.sample_weight)


@pytest.mark.parametrize("target", [np.full(120, 0.1), np.full(120, 7.7), 1e9 + X[:, 0], 1e-9 * X[:, 0]])
def test_the_guard_knows_rounding_from_other_data(target):
    regressor = RandomForestRegressor(5, random_state=0).fit(X, target)
    assert np.isfinite(tw.importance(regressor, X, target).values).all()


@pytest.mark.parametrize(("X_spread", "least_gain"), [(0.0, 0.0), (1.0, 0.3)])
def test_a_forest_with_trees_of_one_leaf_knows_its_training_rows(X_spread, least_gain):
    """The mean of an only leaf may be next to zero, where the target is not."""
    n_leaves = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        data = X_spread * rng.standard_normal((int(rng.integers(30, 120)), 2))
        size = 10.0 ** rng.integers(-9, 10)
        target = size * (rng.standard_normal(len(data)) + data[:, 0] + rng.choice([0.0, 1.0, 1e3]))
        forest = RandomForestRegressor(2, random_state=seed, min_impurity_decrease=least_gain * target.var())
        forest.fit(data, target)
        n_leaves += sum(tree.tree_.node_count == 1 for tree in forest.estimators_)
        tw.importance(forest, data, target, inference=False)
        with pytest.raises(ValueError, match="X and y"):
            tw.importance(forest, data, target + 0.001 * size, inference=False)
    assert n_leaves > 25


def test_the_guard_looks_at_each_output_on_its_own_scale(rng):
    outputs = np.column_stack([1e9 * X[:, 0], X[:, 1]])
    forest = RandomForestRegressor(5, random_state=0).fit(X, outputs)
    assert np.isfinite(tw.importance(forest, X, outputs).values).all()
    with pytest.raises(ValueError, match="X and y"):
        tw.importance(forest, X, np.column_stack([outputs[:, 0], rng.permutation(outputs[:, 1])]))


def test_columns_that_few_trees_use_are_checked_too(rng):
    wide = rng.standard_normal((200, 30))
    shallow = RandomForestClassifier(100, max_depth=2, random_state=0).fit(wide, wide[:, 3] > 0)
    for other in range(4, 30):
        swapped = wide.copy()
        swapped[:, [3, other]] = wide[:, [other, 3]]
        with pytest.raises(ValueError, match="X and y"):
            tw.importance(shallow, swapped, wide[:, 3] > 0)


def test_a_balanced_forest_wants_all_its_rows(rng, engine):
    rare = (np.arange(400) % 20 == 0).astype(int)
    many = rng.standard_normal((400, 3)) + rare[:, np.newaxis]
    balanced = BalancedRandomForestClassifier(
        30, sampling_strategy="all", replacement=True, bootstrap=False, random_state=1
    ).fit(many, rare)
    assert tw.importance(balanced, many, rare).n_rows == 400
    with pytest.raises(ValueError, match=r"rows='oob'.*\b380\b"):
        tw.importance(balanced, many[:380], rare[:380])


def test_rows_of_no_weight_in_the_fit_do_not_hide_training_rows(rng):
    weight = rng.integers(0, 2, 120).astype(float)
    weighted = DecisionTreeClassifier(random_state=0).fit(X, y, sample_weight=weight)
    with pytest.raises(tw.TrainingRowsError, match="rows='heldout'"):
        tw.importance(weighted, X, y, rows="heldout", sample_weight=weight)


def test_equal_counts_alone_do_not_make_training_rows(rng):
    design = np.repeat([0.0, 1.0], 50)[:, np.newaxis]
    single = DecisionTreeClassifier(max_depth=1).fit(design, rng.random(100) < 0.3 + 0.4 * design[:, 0])
    fresh = rng.random(100) < 0.3 + 0.4 * design[:, 0]
    assert tw.importance(single, design, fresh, rows="heldout").n_rows == 100


def test_the_largest_tree_recognizes_training_rows():
    sparse_forest = RandomForestClassifier(20, random_state=9, min_impurity_decrease=0.05, max_features=1).fit(X, y)
    sizes = [tree.tree_.node_count for tree in sparse_forest.estimators_]
    assert min(sizes) == 1 < max(sizes)
    with pytest.raises(tw.TrainingRowsError, match="rows='heldout'"):
        tw.importance(sparse_forest, X, y, rows="heldout")


def test_copied_rows_with_class_weights():
    with sklearn.config_context(enable_metadata_routing=True):
        tree = DecisionTreeClassifier(class_weight="balanced", monotonic_cst=[1, 0, 0])
        bagging = BaggingClassifier(tree, 5, random_state=0).fit(X, y)
        assert tw.importance(bagging, X, y).values[0] > 0


def test_scores_leave_the_global_random_state_alone(forest):
    np.random.seed(0)  # noqa: NPY002
    tw.importance(forest, X, y)
    drawn = np.random.rand()  # noqa: NPY002
    np.random.seed(0)  # noqa: NPY002
    assert drawn == np.random.rand()  # noqa: NPY002


def test_lists_that_meet_the_bag_are_refused():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    forest = RandomForestClassifier(5, random_state=0).fit(X, X[:, 0] > 0)
    with pytest.raises(ValueError, match=r"rows\[0\].*tree 0\b"):
        tw.importance(forest, X, X[:, 0] > 0, rows=np.ones((5, 60), dtype=bool))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("objective", ["binary:logistic", "count:poisson", "reg:squarederror"])
def test_training_rows_of_boosted_trees_are_refused_as_held_out(objective, weighted):
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4))
    y = (X[:, 0] + rng.standard_normal(300) > 0).astype(int)
    weight = rng.integers(1, 5, 300).astype(float) if weighted else None
    data = xgboost.DMatrix(X, y, weight=weight)
    model = xgboost.train({"objective": objective, "max_depth": 4, "nthread": 1}, data, num_boost_round=5)
    with pytest.raises(tw.TrainingRowsError, match="rows='heldout'"):
        tw.importance(model, X, y, rows="heldout", sample_weight=weight)
    # Other rows, as many of them, and the same rows but one, are new.
    new = rng.standard_normal((300, 4))
    assert tw.importance(model, new, y, rows="heldout").n_rows == 300
    # New rows in the same leaves are taken as lists.
    assert tw.importance(model, X, y, rows=[range(300)] * 5).rows == "lists"
