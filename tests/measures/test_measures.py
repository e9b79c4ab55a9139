"""What must hold whatever the data: invariants and closed forms."""

from __future__ import annotations

import dataclasses

import joblib
import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import truewood as tw
from helpers.sklearn_models import build, score_built
from truewood._scoring import trees

GINI_OR_SQUARED = [
    "rf",
    "rf-three-classes",
    "rf-string-labels",
    "rf-max-leaf-nodes",
    "rf-pruned",
    "rf-balanced-subsample",
    "rf-sample-weight",
    "rf-csr",
    "rfr",
    "rfr-friedman",
    "rfr-several-outputs",
    "et",
    "etr",
    "imblearn",
    "quantile-forest",
]
OF_ANY_ROWS = [
    measure for measure in tw.measures() if measure not in ("sobol_mda", "mdi_plus_oob")
]  # need the rows of the fit
ALL_BUT_PERMUTATION = [measure for measure in OF_ANY_ROWS if measure != "permutation"]


def make_data(seed, n_rows=150, n_features=5):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features))
    X[:, 1] = rng.integers(0, 3, n_rows)
    return X, X[:, 0] + X[:, 1] * X[:, 2] + rng.standard_normal(n_rows)


@pytest.fixture(params=["classification", "regression"])
def fitted(request):
    X, score = make_data(0)
    if request.param == "classification":
        y = np.digitize(score, [-0.5, 0.8])
        return RandomForestClassifier(12, random_state=0).fit(X, y), X, y
    return RandomForestRegressor(12, random_state=0).fit(X, score), X, score


@pytest.mark.parametrize("name", GINI_OR_SQUARED)
def test_mdi_is_what_scikit_learn_computes(name, engine):
    built = build(name, seed=3)
    result = score_built(built, "mdi")
    theirs = [tree.tree_.compute_feature_importances(normalize=False) for tree in built.model.estimators_]
    np.testing.assert_allclose(result.per_tree, theirs, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(result.mdi, np.mean(theirs, axis=0), rtol=1e-9, atol=1e-12)


def test_ufi_on_the_bags_is_mdi(fitted, engine):
    forest, X, y = fitted
    trees = tw.to_ensemble(forest)  # which knows no bags, and so does not refuse their rows
    result = tw.importance(trees, X, y, rows=forest.estimators_samples_, measure="ufi")
    scale = 1.0 if isinstance(forest, RandomForestClassifier) else 2.0
    np.testing.assert_allclose(result.values, scale * result.mdi, rtol=1e-10)
    centered = tw.importance(trees, X, y, rows=forest.estimators_samples_, measure="ufi_centered")
    np.testing.assert_allclose(centered.values, result.mdi, rtol=1e-10)
    assert result.skipped_weight == 0.0


@pytest.mark.parametrize("measure", [name for name in ALL_BUT_PERMUTATION if name != "auto"])  # which goes by weights
def test_an_integer_weight_is_a_repeated_row(fitted, measure, engine):
    forest, _, _ = fitted
    X, score = make_data(1)
    y = np.digitize(score, [-0.5, 0.8]) if isinstance(forest, RandomForestClassifier) else score
    weight = np.random.default_rng(0).integers(0, 4, len(X))
    weighted = tw.importance(forest, X, y, rows="heldout", measure=measure, sample_weight=weight)
    again = np.repeat(np.arange(len(X)), weight)
    repeated = tw.importance(forest, X[again], y[again], rows="heldout", measure=measure)
    np.testing.assert_allclose(weighted.values, repeated.values, rtol=1e-11, atol=1e-13)
    listed = tw.importance(forest, X, y, rows=[again] * 12, measure=measure)
    np.testing.assert_allclose(weighted.values, listed.values, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("measure", OF_ANY_ROWS)
def test_the_order_of_columns_does_not_matter(fitted, measure, engine):
    forest, X, y = fitted
    ensemble = tw.to_ensemble(forest)
    order = np.array([3, 0, 4, 2, 1])  # new column k is old column order[k]
    moved = np.argsort(order)[np.maximum(ensemble.feature, 0)]
    permuted = dataclasses.replace(ensemble, feature=moved)
    options = {"rows": forest.estimators_samples_, "measure": measure, "random_state": 0}
    before = tw.importance(ensemble, X, y, **options).values
    after = tw.importance(permuted, X[:, order], y, **options).values
    np.testing.assert_array_equal(after, before[order])


@pytest.mark.parametrize("measure", ALL_BUT_PERMUTATION)
def test_the_order_of_rows_does_not_matter(fitted, measure, engine):
    forest, _, _ = fitted
    X, score = make_data(2)
    y = np.digitize(score, [-0.5, 0.8]) if isinstance(forest, RandomForestClassifier) else score
    order = np.random.default_rng(0).permutation(len(X))
    before = tw.importance(forest, X, y, rows="heldout", measure=measure).values
    after = tw.importance(forest, X[order], y[order], rows="heldout", measure=measure).values
    np.testing.assert_allclose(after, before, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("measure", OF_ANY_ROWS)
def test_the_number_of_threads_changes_no_bit(fitted, measure, engine):
    forest, X, y = fitted
    one = tw.importance(forest, X, y, measure=measure, n_jobs=1, random_state=3)
    for n_jobs in (None, 2, 5, -1):
        other = tw.importance(forest, X, y, measure=measure, n_jobs=n_jobs, random_state=3)
        np.testing.assert_array_equal(other.per_tree, one.per_tree)
    with joblib.parallel_config(n_jobs=2):
        np.testing.assert_array_equal(
            tw.importance(forest, X, y, measure=measure, random_state=3).per_tree, one.per_tree
        )


def test_the_size_of_batches_changes_no_bit(fitted, monkeypatch, engine):

    forest, X, y = fitted
    whole = tw.importance(forest, X, y).per_tree
    for n_nodes, n_rows in ((1, 1 << 20), (1 << 17, 1), (200, 300)):
        monkeypatch.setattr(trees, "_BATCH_NODES", n_nodes)
        monkeypatch.setattr(trees, "_BATCH_ROWS", n_rows)
        np.testing.assert_array_equal(tw.importance(forest, X, y).per_tree, whole)


@pytest.mark.parametrize("measure", OF_ANY_ROWS)
def test_a_shift_of_the_target_changes_nothing(measure, engine):
    X, y = make_data(4)
    X_test, y_test = make_data(5)
    forest = RandomForestRegressor(10, random_state=0).fit(X, y)
    ensemble = tw.to_ensemble(forest)
    far = dataclasses.replace(ensemble, value=ensemble.value + 1e6)
    options = {"rows": "heldout", "measure": measure, "random_state": 0}
    near = tw.importance(ensemble, X_test, y_test, **options).values
    np.testing.assert_allclose(tw.importance(far, X_test, y_test + 1e6, **options).values, near, atol=1e-8)


def test_a_stump_by_hand(engine):
    # Training rows: 2 go left with mean 0, 2 go right with mean 4. Unseen: left 1 and 3, right 6.
    tree = DecisionTreeRegressor(max_depth=1).fit([[0.0], [0.0], [1.0], [1.0]], [0.0, 0.0, 4.0, 4.0])
    X, y = [[0.0], [0.0], [1.0]], [1.0, 3.0, 6.0]

    def score(measure):
        return tw.importance(tree, X, y, rows="heldout", measure=measure).values[0]

    around_m, around_l, around_r = (1 + 1 + 16) / 3, (1 + 9) / 2, 4.0
    assert score("mdi") == pytest.approx(4.0)
    assert score("loss_oob") == pytest.approx(around_m - 0.5 * around_l - 0.5 * around_r)
    assert score("ufi") == pytest.approx(4.0 + around_m - 0.5 * around_l - 0.5 * around_r)
    assert score("ufi_centered") == pytest.approx(0.5 * (0 - 2) * (2 - 2) + 0.5 * (4 - 2) * (6 - 2))
    root = (1 + 3 + 6) / 3
    assert score("mdi_oob") == pytest.approx(2 / 3 * (0 - 2) * (2 - root) + 1 / 3 * (4 - 2) * (6 - root))
    for measure, scale in (("ufi", 2.0), ("auto", 1.0)):
        result = tw.importance(tree, X, y, rows="heldout", measure=measure)
        assert result.share[0] == pytest.approx(result.values[0] / (scale * 4.0))
    assert score("auto") == score("ufi_centered")


def test_share_of_a_perfect_split_is_one(engine):
    X = np.repeat([0.0, 1.0], 20)[:, np.newaxis]
    X_test = np.repeat([0.0, 1.0], 15)[:, np.newaxis]
    for make, y in ((DecisionTreeClassifier, X[:, 0]), (DecisionTreeRegressor, 10 * X[:, 0])):
        tree = make().fit(X, y)
        for measure in ("ufi", "ufi_centered", "mdi_oob", "loss_oob", "mdi"):
            result = tw.importance(tree, X_test, X_test[:, 0] * y.max(), rows="heldout", measure=measure)
            assert result.share[0] == pytest.approx(1.0), (make, measure)


@pytest.mark.filterwarnings("ignore:.* of \\d+ rows")
def test_a_feature_no_tree_splits_on_scores_zero(fitted, engine):
    forest, X, y = fitted
    constant = type(forest)(5, random_state=0).fit(np.column_stack([X, np.ones(len(X))]), y)
    for measure in tw.measures():
        result = tw.importance(constant, np.column_stack([X, np.ones(len(X))]), y, measure=measure)
        assert result.values[-1] == 0.0


def test_a_tree_that_never_splits_counts_in_the_mean(engine):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((100, 2)), rng.standard_normal(100)
    forest = RandomForestRegressor(8, min_impurity_decrease=0.07, max_depth=1, random_state=1).fit(X, y)
    n_stumps = sum(tree.tree_.node_count == 1 for tree in forest.estimators_)
    assert 0 < n_stumps < 8
    result = tw.importance(forest, X, y)
    np.testing.assert_allclose(result.values, result.per_tree.sum(axis=0) / 8, rtol=1e-12)


def test_several_outputs_are_averaged(engine):
    X, score = make_data(6)
    y = np.column_stack([score, 3 * X[:, 3]])
    forest = RandomForestRegressor(6, random_state=0).fit(X, y)
    result = tw.importance(forest, X, y)
    assert result.per_output.shape == (2, 5)
    np.testing.assert_allclose(result.per_output.mean(axis=0), result.values, rtol=1e-12)
    assert result.per_output[1].argmax() == 3


def test_an_error_rate_is_no_share_of_impurity():
    X = np.random.default_rng(0).standard_normal((200, 2))
    options = {"measure": "permutation", "random_state": 0}
    labels, forest = X[:, 0] > 0, RandomForestClassifier(5, random_state=0)
    assert np.isnan(tw.importance(forest.fit(X, labels), X, labels, **options).share).all()
    result = tw.importance(RandomForestRegressor(5, random_state=0).fit(X, X[:, 0]), X, X[:, 0], **options)
    np.testing.assert_allclose(result.share, result.values / result.impurity)
