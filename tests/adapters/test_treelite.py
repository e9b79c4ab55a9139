"""treelite's trees are read as its own prediction reads them, and score as those of the library they came from."""

from __future__ import annotations

from functools import cache

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import treelite
import xgboost as xgb
from scipy import sparse
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import NotFittedError
from treelite.model_builder import Metadata, ModelBuilder, PostProcessorFunc, TreeAnnotation

import truewood as tw
from helpers.contract import add_leaf_values, count_calls, draw_odd_rows, route
from truewood.adapters import open_model

N_FEATURES = 5
CATEGORICAL = 4


def make_rows(seed=0, n_rows=300):
    """Three numeric columns that matter, one that does not, and one of 12 categories."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, N_FEATURES))
    X[:, CATEGORICAL] = rng.integers(0, 12, n_rows)
    y = 2.0 * X[:, 0] + X[:, 1] + 2.0 * np.isin(X[:, CATEGORICAL], [1, 4, 5, 9]) + 0.3 * rng.standard_normal(n_rows)
    return X, y


def classify(y, n_classes):
    return np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))


def with_missing(X):
    X = X.copy()
    X[np.random.default_rng(9).random(X.shape) < 0.1] = np.nan
    return X


def from_sklearn(estimator, y=None, X=None):
    X_train, number = make_rows()
    X = X_train if X is None else X
    y = number if y is None else y(number)
    return treelite.sklearn.import_model(estimator.set_params(random_state=0).fit(X, y))


def from_xgboost(params=(), y=None, n_trees=4):
    X, number = make_rows()
    data = xgb.DMatrix(with_missing(X), number if y is None else y(number))
    booster = xgb.train({"max_depth": 3, "nthread": 1, **dict(params)}, data, n_trees)
    return treelite.frontend.from_xgboost(booster)


def from_lightgbm(params=(), y=None, **options):
    return treelite.frontend.from_lightgbm(train_lightgbm(params, y, **options))


def train_lightgbm(params=(), y=None, **options):
    X, number = make_rows()
    data = lgb.Dataset(X, number if y is None else y(number), **options)
    quiet = {"verbose": -1, "num_threads": 1, "num_leaves": 8, "min_data_per_group": 5, "cat_smooth": 1.0}
    return lgb.train({**quiet, **dict(params)}, data, 5)


def build_by_hand(order, kind="float64", counts=True, opname="<", postprocessor="identity"):
    """A tree of two splits, numeric then categorical, whose nodes are given in this order."""
    builder = ModelBuilder(
        threshold_type=kind,
        leaf_output_type=kind,
        metadata=Metadata(
            num_feature=N_FEATURES,
            task_type="kRegressor",
            average_tree_output=False,
            num_target=1,
            num_class=[1],
            leaf_vector_shape=(1, 1),
        ),
        tree_annotation=TreeAnnotation(num_tree=2, target_id=[0, 0], class_id=[0, 0]),
        postprocessor=PostProcessorFunc(name=postprocessor),
        base_scores=[0.5],
    )
    n_rows = {0: 100, 1: 40, 2: 60, 3: 25, 4: 35}
    for default_left in (True, False):
        builder.start_tree()
        for key in order:
            builder.start_node(key)
            if key == 0:
                builder.numerical_test(
                    0, 0.3, default_left=default_left, opname=opname, left_child_key=1, right_child_key=2
                )
            elif key == 2:
                builder.categorical_test(
                    CATEGORICAL,
                    default_left=not default_left,
                    category_list=[0, 3, 40],
                    category_list_right_child=default_left,
                    left_child_key=3,
                    right_child_key=4,
                )
            else:
                builder.leaf(key / 8)
            if counts:
                builder.data_count(n_rows[key])
            builder.end_node()
        builder.end_tree()
    return builder.commit()


def two(y):
    return classify(y, 2)


def three(y):
    return classify(y, 3)


def pair(y):
    return np.column_stack([y, -y * y])


def pair_of_classes(y):
    return np.column_stack([two(y), two(-y * y)])


CATEGORIES = {"categorical_feature": [CATEGORICAL]}
# Pruning leaves nodes behind that no split leads to.
PRUNED = {"tree_method": "exact", "gamma": 20.0, "max_depth": 6}
# Some trees are a single leaf, of which LightGBM stores no count.
LEAVES = {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5, "min_gain_to_split": 390}
MODELS = {
    "forest": lambda: from_sklearn(RandomForestRegressor(4, max_depth=4)),
    "forest-missing": lambda: from_sklearn(RandomForestRegressor(4, max_depth=4), X=with_missing(make_rows()[0])),
    "forest-two-targets": lambda: from_sklearn(RandomForestRegressor(4, max_depth=4), pair),
    "forest-two-classes": lambda: from_sklearn(RandomForestClassifier(4, max_depth=4), two),
    "forest-three-classes": lambda: from_sklearn(ExtraTreesClassifier(4, max_depth=4), three),
    "forest-two-targets-of-classes": lambda: from_sklearn(RandomForestClassifier(4, max_depth=4), pair_of_classes),
    "gradient-boosting": lambda: from_sklearn(GradientBoostingRegressor(n_estimators=4)),
    "gradient-boosting-binary": lambda: from_sklearn(GradientBoostingClassifier(n_estimators=4), two),
    "gradient-boosting-classes": lambda: from_sklearn(GradientBoostingClassifier(n_estimators=2), three),
    "histogram": lambda: from_sklearn(HistGradientBoostingRegressor(max_iter=4), X=with_missing(make_rows()[0])),
    "histogram-categories": lambda: from_sklearn(HistGradientBoostingRegressor(max_iter=4, categorical_features=[4])),
    "histogram-poisson": lambda: from_sklearn(HistGradientBoostingRegressor(max_iter=4, loss="poisson"), np.exp),
    "histogram-classes": lambda: from_sklearn(HistGradientBoostingClassifier(max_iter=2), three),
    "xgboost": from_xgboost,
    "xgboost-pruned": lambda: from_xgboost(PRUNED),
    "xgboost-lossguide": lambda: from_xgboost({"grow_policy": "lossguide", "tree_method": "hist", "max_leaves": 9}),
    "xgboost-binary": lambda: from_xgboost({"objective": "binary:logistic"}, two),
    "xgboost-classes": lambda: from_xgboost({"objective": "multi:softprob", "num_class": 3}, three),
    "xgboost-forest": lambda: from_xgboost({"num_parallel_tree": 3, "subsample": 0.5}),
    "xgboost-two-targets": lambda: from_xgboost({}, pair),
    "xgboost-vector-leaves": lambda: from_xgboost({"multi_strategy": "multi_output_tree"}, pair),
    "xgboost-labels": lambda: from_xgboost({"objective": "binary:logistic"}, pair_of_classes),
    "lightgbm": from_lightgbm,
    "lightgbm-forest": lambda: from_lightgbm({"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}),
    "lightgbm-forest-of-leaves": lambda: from_lightgbm(LEAVES),
    "lightgbm-classes": lambda: from_lightgbm({"objective": "multiclassova", "num_class": 3}, three),
    "lightgbm-categories": lambda: from_lightgbm(**CATEGORIES),
    "by-hand": lambda: build_by_hand([0, 1, 2, 3, 4]),
    "by-hand-float32": lambda: build_by_hand([0, 1, 2, 3, 4], "float32"),
    "by-hand-at-most": lambda: build_by_hand([0, 1, 2, 3, 4], opname="<="),
    "by-hand-above": lambda: build_by_hand([0, 1, 2, 3, 4], opname=">"),
    "by-hand-at-least": lambda: build_by_hand([0, 1, 2, 3, 4], "float32", opname=">="),
}


@cache
def build(name):
    return MODELS[name]()


def list_kept(model, tree):
    """treelite's numbers of the nodes that a split leads to, in order."""
    get = model.get_tree_accessor(tree).get_field
    children = np.concatenate([get("cleft"), get("cright")])
    return np.unique([0, *children[children > 0]])


def test_cases_are_what_they_say():
    pruned = build("xgboost-pruned")
    assert any(pruned.get_tree_accessor(t).get_field("num_nodes") > len(list_kept(pruned, t)) for t in range(4))
    forest = build("lightgbm-forest-of-leaves")
    counts = [forest.get_tree_accessor(t).get_field("data_count")[0] for t in range(5)]
    assert 0 in counts
    assert {len(list_kept(forest, t)) == 1 for t in range(5)} == {True, False}


def draw_rows(model, seed=0):
    ensemble = tw.to_ensemble(model)
    has_categories = ensemble.categories is not None
    rows = draw_odd_rows(ensemble, N_FEATURES, seed, categorical=(CATEGORICAL,) if has_categories else ())
    if has_categories:
        rows[:20, CATEGORICAL] = [*range(12), -1.0, -0.5, 0.5, 3.9, 40.0, 41.0, np.inf, 1e20]
    return rows


@pytest.mark.parametrize("name", MODELS)
def test_leaves_and_sums_are_treelites_own(name, engine):
    model = build(name)
    rows = draw_rows(model)
    with np.errstate(over="ignore"):
        single = rows.astype(np.float32)
    for X in (rows, single):
        own = treelite.gtil.predict_leaf(model, X, nthread=1)
        found = route(model, X)
        for tree in range(model.num_tree):
            np.testing.assert_array_equal(list_kept(model, tree)[found[:, tree]], own[:, tree])
        raw = treelite.gtil.predict(model, X, nthread=1, pred_margin=True).reshape(len(X), -1)
        base = model.get_header_accessor().get_field("base_scores")
        # Models in float32 add up in float32.
        tolerance = 1e-12 if model.input_type == "float64" else 1e-5
        np.testing.assert_allclose(add_leaf_values(model, X) + base, raw, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["histogram", "xgboost", "lightgbm", "by-hand"])
def test_what_a_sparse_matrix_does_not_store_is_missing(name, engine):
    model = build(name)
    rows = np.nan_to_num(draw_rows(model, seed=1), nan=0.0, posinf=9.0, neginf=-9.0)
    X = sparse.csr_matrix(rows)
    np.testing.assert_array_equal(route(model, X), treelite.gtil.predict_leaf(model, X, nthread=1))


@pytest.mark.parametrize("order", [[0, 2, 4, 3, 1], [0, 4, 2, 1, 3], [0, 3, 4, 1, 2]])
def test_nodes_may_come_in_any_order(order, engine):
    model, ordered = build_by_hand(order), build("by-hand")
    rows = draw_rows(ordered)
    raw = treelite.gtil.predict(model, rows, nthread=1, pred_margin=True).reshape(-1, 1)
    np.testing.assert_allclose(add_leaf_values(model, rows) + 0.5, raw, rtol=1e-12)
    result = tw.importance(model, *make_rows(), rows="heldout")
    np.testing.assert_allclose(result.values, tw.importance(ordered, *make_rows(), rows="heldout").values)


@pytest.mark.parametrize(
    ("name", "field"),
    [("forest", "sum_hess"), ("histogram", "data_count"), ("xgboost", "sum_hess"), ("lightgbm", "data_count")],
)
def test_weights_are_treelites(name, field):
    model = build(name)
    stored = [model.get_tree_accessor(tree).get_field(field) for tree in range(model.num_tree)]
    np.testing.assert_array_equal(tw.to_ensemble(model).weight, np.concatenate(stored))


def test_a_run_of_trees_is_read_as_in_the_whole():
    view = open_model(build("lightgbm-categories"))
    part, whole = view.read(range(2, 4)), view.read(range(view.n_trees))[2:4]
    for field in ("feature", "threshold", "left", "right", "missing_left", "weight", "value", "offset", "column"):
        np.testing.assert_array_equal(getattr(part, field), getattr(whole, field), err_msg=field)


# Scores


@pytest.mark.parametrize(
    ("params", "y", "options"),
    [
        ({}, None, {}),
        ({}, None, CATEGORIES),
        ({"boosting": "dart"}, None, {}),
        ({"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}, None, {}),
        (LEAVES, None, {}),
        ({"objective": "binary"}, two, {}),
        ({"objective": "multiclass", "num_class": 3}, three, {}),
        ({"objective": "multiclassova", "num_class": 3}, three, CATEGORIES),
        ({"objective": "poisson"}, np.exp, {}),
    ],
)
def test_scores_are_those_of_the_lightgbm_model(params, y, options):
    booster = train_lightgbm(params, y, **options)
    model = treelite.frontend.from_lightgbm(booster)
    X, number = make_rows(1)
    y_test = number if y is None else y(number)
    theirs = tw.importance(booster, X, y_test, rows="heldout")
    ours = tw.importance(model, X, y_test, rows="heldout")
    np.testing.assert_allclose(ours.values, theirs.values, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(ours.mdi, theirs.mdi, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(ours.per_tree, theirs.per_tree, rtol=1e-6, atol=1e-12)
    assert ours.values.argmax() == 0


def test_scores_are_those_of_the_pruned_xgboost_model():
    X, y = make_rows()
    booster = xgb.train({"nthread": 1, **PRUNED}, xgb.DMatrix(X, y), 4)
    X, y = make_rows(1)
    ours = tw.importance(treelite.frontend.from_xgboost(booster), X, y, rows="heldout")
    theirs = tw.importance(booster, X, y, rows="heldout")
    np.testing.assert_allclose(ours.per_tree, theirs.per_tree, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "y"), [(RandomForestRegressor, None), (RandomForestClassifier, two), (ExtraTreesClassifier, three)]
)
def test_scores_are_those_of_the_forest(make, y):
    X_train, number = make_rows()
    # A forest of scikit-learn compares in float32 what treelite compares in float64.
    X_train = X_train.astype(np.float32)
    forest = make(10, max_depth=5, random_state=0).fit(X_train, number if y is None else y(number))
    X, number = make_rows(1)
    y_test = number if y is None else y(number)
    X = X.astype(np.float32)
    theirs = tw.importance(forest, X, y_test, rows="heldout", measure="ufi_centered")
    ours = tw.importance(treelite.sklearn.import_model(forest), X, y_test, rows="heldout")
    np.testing.assert_allclose(ours.values, theirs.values, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "y"),
    [
        ("forest", None),
        ("forest-two-classes", two),
        ("forest-three-classes", three),
        ("forest-two-targets", pair),
        ("gradient-boosting", None),
        ("gradient-boosting-binary", two),
        ("gradient-boosting-classes", three),
        ("histogram-categories", None),
        ("histogram-poisson", np.exp),
        ("xgboost", None),
        ("xgboost-binary", two),
        ("xgboost-classes", three),
        ("xgboost-two-targets", pair),
        ("xgboost-vector-leaves", pair),
        ("xgboost-labels", pair_of_classes),
        ("lightgbm", None),
        ("lightgbm-classes", three),
    ],
)
def test_the_signal_scores_first(name, y):
    X, number = make_rows(1, 1000)
    result = tw.importance(build(name), X, number if y is None else y(number), rows="heldout")
    assert result.values.argmax() == 0
    assert result.values[0] > 10 * np.abs(result.values[2:4]).max()
    assert result.feature_names[0] == "x0"


def test_frames_give_the_names():
    X, y = make_rows(1)
    frame = pd.DataFrame(X, columns=list("abcde"))
    assert tw.importance(build("lightgbm"), frame, y, rows="heldout").feature_names[0] == "a"


# What is refused


def test_models_without_weights_are_refused():
    with pytest.raises(ValueError, match=r"data_count.*sum_hess"):
        tw.to_ensemble(build_by_hand([0, 1, 2, 3, 4], counts=False))


def test_equality_splits_are_refused():
    with pytest.raises(ValueError, match=r"<.*<=.*>.*>="):
        tw.to_ensemble(build_by_hand([0, 1, 2, 3, 4], opname="=="))


def test_an_empty_model_is_refused():
    with pytest.raises(NotFittedError, match=r"treelite\.Model.*no trees"):
        tw.to_ensemble(treelite.Model())


def test_isolation_forests_are_refused():
    forest = IsolationForest(n_estimators=2, random_state=0).fit(make_rows()[0])
    with pytest.raises(TypeError, match=r"isolation forest.*target"):
        tw.to_ensemble(treelite.sklearn.import_model(forest))


def test_ranking_needs_a_target():
    X, y = make_rows()
    data = xgb.DMatrix(X, two(y), group=[30] * 10)
    booster = xgb.train({"objective": "rank:pairwise", "max_depth": 2, "nthread": 1}, data, 5)
    model = treelite.frontend.from_xgboost(booster)
    X, y = make_rows(1)
    with pytest.raises(ValueError, match=r"rank.*target="):
        tw.importance(model, X, two(y), rows="heldout")
    assert tw.importance(model, X, two(y), rows="heldout", target=two(y)).values.argmax() == 0


@pytest.mark.parametrize("postprocessor", ["hinge", "signed_square", "logarithm_one_plus_exp"])
def test_an_unknown_loss_needs_a_target(postprocessor):
    model = build_by_hand([0, 1, 2, 3, 4], postprocessor=postprocessor)
    with pytest.raises(ValueError, match=rf"'{postprocessor}'.*treelite\.Model"):
        tw.importance(model, *make_rows(), rows="heldout")


def test_several_targets_of_classes_need_a_target():
    X, y = make_rows(1)
    with pytest.raises(ValueError, match=r"\b2\b.*target="):
        tw.importance(build("forest-two-targets-of-classes"), X, pair_of_classes(y), rows="heldout")


def test_rows_have_to_be_held_out():
    X, y = make_rows()
    with pytest.raises(ValueError, match=r"rows='auto'.*rows='heldout'"):
        tw.importance(build("lightgbm"), X, y)
    for name in ("lightgbm", "gradient-boosting", "histogram-categories"):
        with pytest.raises(tw.TrainingRowsError, match="rows='heldout'"):
            tw.importance(build(name), X, y, rows="heldout")


def test_other_tables_are_refused():
    X, y = make_rows()
    with pytest.raises(ValueError, match=r"\b5\b.*treelite\.Model.*\b4\b"):
        tw.importance(build("lightgbm"), X[:, :4], y, rows="heldout")
    with pytest.raises(ValueError, match=r"\by\b.*\b5\b.*\b0\b.*\b1\b"):
        tw.importance(build("xgboost-binary"), X, np.full(300, 5), rows="heldout")


def test_reading_does_not_go_node_by_node():
    """Whole arrays are read, so that trees of ten times as many leaves take no more calls."""
    small, large = (from_lightgbm({"num_leaves": n, "min_data_in_leaf": 1}) for n in (8, 80))
    assert len(tw.to_ensemble(large).left) > 9 * len(tw.to_ensemble(small).left)
    assert count_calls(lambda: tw.to_ensemble(large)) <= 1.1 * count_calls(lambda: tw.to_ensemble(small))


class BaseRandomForestModel:
    """Hands over its trees as a forest of cuML does, which needs a GPU and is not run here."""

    __module__ = "cuml.ensemble.randomforest_common"

    def __init__(self, trees=None):
        self._trees = trees

    def as_treelite(self):
        if self._trees is None:
            raise AttributeError("no trees")
        return self._trees


def test_forests_of_cuml_are_read_as_what_they_hand_over():
    trees = from_sklearn(RandomForestRegressor(4))
    X, y = make_rows(1)
    own = tw.importance(BaseRandomForestModel(trees), X, y, rows="heldout")
    np.testing.assert_array_equal(own.per_tree, tw.importance(trees, X, y, rows="heldout").per_tree)
    with pytest.raises(NotFittedError, match=r"BaseRandomForestModel.*fit"):
        tw.to_ensemble(BaseRandomForestModel())
