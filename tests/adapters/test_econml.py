"""econml's generalised random forests: the rows that did not choose an honest tree's splits score it."""

from __future__ import annotations

import numpy as np
import pytest

import truewood as tw
from helpers.contract import draw_odd_rows, route
from truewood._inputs.tables import RowData, read_features
from truewood._inputs.target import TargetKind, encode_target
from truewood._rows.evaluation_rows import choose_evaluation_rows
from truewood._scoring.node_means import recompute_means
from truewood.adapters import open_model

pytest.importorskip("econml")

from econml.dml import CausalForestDML
from econml.grf import CausalForest, CausalIVForest, RegressionForest
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_predict

N_FEATURES = 4
SIGNAL = 1
FORESTS = {
    "honest": {},
    "not-honest": {"honest": False},
    "no-groups": {"inference": False, "max_samples": 0.7},
    "odd": {"max_samples": 0.333, "max_depth": 3, "max_features": 2},
    "all-rows": {"inference": False, "max_samples": 1.0},
    "balanced": {"min_balancedness_tol": 0.3, "min_samples_leaf": 2},
}


def draw_data(seed=0, n_rows=300):
    """Column SIGNAL moves the outcome and the effect of the treatment; column 0 moves the outcome alone."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, N_FEATURES))
    X[:, -1] = rng.integers(0, 3, n_rows)
    treatment = rng.integers(0, 2, n_rows).astype(float)
    noise = rng.standard_normal(n_rows)
    return X, treatment, 2.0 * X[:, SIGNAL] + noise, X[:, 0] + 3.0 * treatment * (X[:, SIGNAL] > 0) + noise


def fit_regression(name, X, y, **fit_options):
    options = {"n_estimators": 8, "n_jobs": 1, "random_state": 0, **FORESTS[name]}
    return RegressionForest(**options).fit(X, y, **fit_options)


def fit_causal(name, X, treatment, outcome, **fit_options):
    options = {"n_estimators": 8, "n_jobs": 1, "random_state": 0, **FORESTS[name]}
    return CausalForest(**options).fit(X, treatment, outcome, **fit_options)


def find_halves(forest, tree):
    """Rows that chose the splits and rows that gave the values, from the library's public functions."""
    subsample = forest.get_subsample_inds()[tree]
    return [subsample[half] for half in forest[tree].get_train_test_split_inds()]


@pytest.mark.parametrize("name", FORESTS)
def test_leaves_and_values_are_the_librarys_own(name, engine):
    X, treatment, y, outcome = draw_data()
    regression, causal = fit_regression(name, X, y), fit_causal(name, X, treatment, outcome)
    for forest in (regression, causal):
        ensemble = tw.to_ensemble(forest)
        rows = draw_odd_rows(ensemble, N_FEATURES, seed=1, missing=False, infinite=False)
        for given in (rows, rows.astype(np.float32)):
            for read in (forest, ensemble):
                np.testing.assert_array_equal(route(read, given), forest.apply(given))
        inner = [tree.tree_ for tree in forest]
        np.testing.assert_array_equal(ensemble.weight, np.concatenate([tree.weighted_n_node_samples for tree in inner]))
    ensemble = tw.to_ensemble(regression)
    rows = draw_odd_rows(ensemble, N_FEATURES, seed=1, missing=False, infinite=False)
    values = ensemble.value[route(regression, rows) + ensemble.offset[:-1]]
    np.testing.assert_allclose(values.mean(axis=1), regression.predict_tree_average(rows), atol=1e-12)


@pytest.mark.parametrize("name", FORESTS)
def test_bags_hold_the_rows_that_chose_the_splits(name):
    X, treatment, y, outcome = draw_data()
    for forest in (fit_regression(name, X, y), fit_causal(name, X, treatment, outcome)):
        view = open_model(forest)
        for t, tree in enumerate(forest):
            growth, values = find_halves(forest, t)
            np.testing.assert_array_equal(np.sort(view.training.list_bag(t, len(X))), np.sort(growth))
            # The counts of each half show that these are the tree's rows.
            for rows, counts in ((growth, tree.tree_.n_node_samples_train), (values, tree.tree_.n_node_samples)):
                counted = np.asarray(tree.decision_path(X[rows]).sum(axis=0)).ravel()
                np.testing.assert_array_equal(counted, counts)
            assert forest.honest == (not set(growth) & set(values))


@pytest.mark.parametrize("name", FORESTS)
def test_means_are_those_of_the_rows_that_chose_the_splits(name, engine):
    X, _, y, _ = draw_data()
    forest = fit_regression(name, X, y)
    view = open_model(forest)
    data = RowData(read_features(X, view.table), encode_target(y, TargetKind(), np.zeros(1)), None)
    choice = choose_evaluation_rows("oob", view, data)
    trees = range(view.n_trees)
    ensemble = recompute_means(view.read(trees), trees, view, data)
    for t in trees:
        growth, _ = find_halves(forest, t)
        own, is_at = slice(*ensemble.offset[t : t + 2]), forest[t].decision_path(X[growth]).toarray().astype(bool)
        np.testing.assert_allclose(ensemble.value[own, 0], [y[growth][at].mean() for at in is_at.T])
        np.testing.assert_array_equal(ensemble.weight[own], forest[t].tree_.weighted_n_node_samples_train)
        np.testing.assert_array_equal(choice.of_tree(t), np.setdiff1d(np.arange(len(X)), growth))


def score_by_hand(forest, X, target):
    """Shift-free scores of each tree from the definitions: splitting half against all other rows."""
    scores = np.zeros((len(forest), N_FEATURES))
    for t, tree in enumerate(forest):
        is_growth = np.isin(np.arange(len(X)), find_halves(forest, t)[0])
        is_at, inner = tree.decision_path(X).toarray().astype(bool), tree.tree_
        for m in np.flatnonzero(inner.children_left >= 0):
            children = [is_at[:, side[m]] for side in (inner.children_left, inner.children_right)]
            if not all((child & ~is_growth).any() for child in children):
                continue
            mean = target[is_at[:, m] & is_growth].mean()
            for child in children:
                own, evaluation = target[child & is_growth], target[child & ~is_growth].mean()
                scores[t, inner.feature[m]] += len(own) / is_growth.sum() * (own.mean() - mean) * (evaluation - mean)
    return scores


@pytest.mark.parametrize("name", ["honest", "not-honest", "no-groups"])
def test_scores_follow_from_the_definitions(name, engine):
    X, treatment, y, outcome = draw_data()
    regression, causal = fit_regression(name, X, y), fit_causal(name, X, treatment, outcome)
    result = tw.importance(regression, X, y, measure="ufi_centered")
    np.testing.assert_allclose(result.per_tree, score_by_hand(regression, X, y), atol=1e-12)
    assert result.rows == "oob"

    t, r = treatment - treatment.mean(), outcome - outcome.mean()
    pseudo = t * (r - t * (t @ r) / (t @ t)) / (t @ t / len(t))
    result = tw.importance(causal, X, np.column_stack([outcome, treatment]), measure="ufi_centered")
    np.testing.assert_allclose(result.per_tree, score_by_hand(causal, X, pseudo), atol=1e-12)


@pytest.mark.parametrize("measure", ["ufi", "mdi_oob", "permutation"])
def test_every_measure_finds_the_signal(measure):
    X, treatment, y, outcome = draw_data(n_rows=600)
    for model, target in (
        (fit_regression("honest", X, y), y),
        (fit_causal("honest", X, treatment, outcome), np.column_stack([outcome, treatment])),
    ):
        result = tw.importance(model, X, target, measure=measure, random_state=0)
        assert result.values.argmax() == SIGNAL
        assert result.values[SIGNAL] > 5 * np.abs(np.delete(result.values, SIGNAL)).max()


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["honest", "not-honest"])
@pytest.mark.parametrize("kind", ["regression", "causal"])
def test_noise_scores_zero_on_average(kind, name):
    """Over 20 data sets each noise feature is within 4 standard errors of zero, where mdi is far above."""
    results = []
    for seed in range(20):
        X, treatment, y, outcome = draw_data(seed, n_rows=250)
        if kind == "regression":
            results.append(tw.importance(fit_regression(name, X, y), X, y))
        else:
            forest = fit_causal(name, X, treatment, outcome)
            results.append(tw.importance(forest, X, np.column_stack([outcome, treatment])))
    values, biased = (np.array([getattr(result, part) for result in results]) for part in ("values", "mdi"))
    assert (values.argmax(axis=1) == SIGNAL).all()
    # Column 0 moves the outcome of a causal forest, but not the effect.
    noise = np.arange(N_FEATURES) != SIGNAL
    assert (measure_distance(values[:, noise]) < 4).all()
    assert (measure_distance(biased[:, noise].sum(axis=1)) > 10).all()


def measure_distance(scores):
    """Of the mean from zero, in standard errors."""
    return np.abs(scores.mean(axis=0)) / (scores.std(axis=0, ddof=1) / np.sqrt(len(scores)))


@pytest.mark.statistical
def test_permutation_of_noise_is_not_favoured_by_rows_that_gave_the_values():
    """The half that fills the leaves is predicted by the half that chose the splits, not by itself."""
    scores = []
    for seed in range(20):
        X, _, y, _ = draw_data(seed, n_rows=250)
        result = tw.importance(fit_regression("honest", X, y), X, y, measure="permutation", random_state=0)
        scores.append(np.delete(result.values, SIGNAL).sum())
    # Noise that was split on makes predictions worse, and permuted noise no better: zero on average.
    assert measure_distance(np.array(scores)) < 4


def test_weights_of_the_fit(engine):
    X, treatment, y, outcome = draw_data()
    weight = np.random.default_rng(0).integers(0, 3, len(X)).astype(float)
    for model, target in (
        (fit_regression("honest", X, y, sample_weight=weight), y),
        (fit_causal("honest", X, treatment, outcome, sample_weight=weight), np.column_stack([outcome, treatment])),
    ):
        assert tw.importance(model, X, target, sample_weight=weight).values.argmax() == SIGNAL
        with pytest.raises(ValueError, match="sample_weight"):
            tw.importance(model, X, target)


@pytest.mark.parametrize("name", ["honest", "not-honest"])
def test_other_data_is_refused(name):
    X, treatment, y, outcome = draw_data()
    regression, causal = fit_regression(name, X, y), fit_causal(name, X, treatment, outcome)
    both = np.column_stack([outcome, treatment])
    order = np.random.default_rng(0).permutation(len(X))
    for model, target, other_y in (
        (regression, y, r"rows='oob'.*X and y"),
        (causal, both, r"rows='oob'.*\by\b.*outcome.*treatment"),
    ):
        with pytest.raises(ValueError, match=r"rows='oob'.*X and y"):
            tw.importance(model, X[order], target)
        with pytest.raises(ValueError, match=other_y):
            tw.importance(model, X, target[order])
        with pytest.raises(ValueError, match=r"\b300\b.*\b100\b"):
            tw.importance(model, X[:100], target[:100])
    with pytest.raises(ValueError, match=r"outcome.*treatment"):
        tw.importance(causal, X, both[:, ::-1])


def test_held_out_rows_of_a_regression_forest():
    X, _, y, _ = draw_data()
    X_test, _, y_test, _ = draw_data(seed=1)
    for name in ("honest", "not-honest"):
        forest = fit_regression(name, X, y)
        assert tw.importance(forest, X_test, y_test, rows="heldout").values.argmax() == SIGNAL
        with pytest.raises(tw.TrainingRowsError, match="rows='heldout'"):
            tw.importance(forest, X, y, rows="heldout")


def test_several_outputs(engine):
    X, _, y, outcome = draw_data()
    both = np.column_stack([y, outcome])
    forest = fit_regression("honest", X, both)
    result = tw.importance(forest, X, both)
    assert result.per_output.shape == (2, N_FEATURES)
    assert result.values.argmax() == SIGNAL


def test_only_out_of_bag_rows_score_a_causal_forest():
    X, treatment, _, outcome = draw_data()
    forest, both = fit_causal("honest", X, treatment, outcome), np.column_stack([outcome, treatment])
    for rows in ("heldout", [[0, 1]] * 8):
        with pytest.raises(ValueError, match=r"'oob'.*CausalForest"):
            tw.importance(forest, X[:50], both[:50], rows=rows)


def test_without_intercept_and_with_the_other_criterion():
    X, treatment, _, outcome = draw_data()
    forest = CausalForest(n_estimators=8, n_jobs=1, random_state=0, fit_intercept=False, criterion="het")
    residual = treatment - treatment.mean()
    forest.fit(X, residual, outcome)
    result = tw.importance(forest, X, np.column_stack([outcome, residual]), measure="ufi_centered")
    pseudo = residual * (outcome - residual * (residual @ outcome) / (residual @ residual)) / residual.var()
    np.testing.assert_allclose(result.per_tree, score_by_hand(forest, X, pseudo), atol=1e-12)


def draw_confounded(seed=0, n_rows=500):
    """Column 0 moves outcome and treatment, column SIGNAL the effect."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, N_FEATURES))
    treatment = (rng.random(n_rows) < 1 / (1 + np.exp(-X[:, 0]))).astype(float)
    return X, treatment, 2.0 * X[:, 0] + (1.0 + X[:, SIGNAL]) * treatment + rng.standard_normal(n_rows)


def test_a_confounder_is_found_in_raw_data_with_a_warning_and_not_in_residuals():
    X, treatment, outcome = draw_confounded()
    options = {"n_estimators": 100, "n_jobs": 1, "random_state": 0}
    raw = CausalForest(**options).fit(X, treatment, outcome)
    with pytest.warns(UserWarning, match=r"'x0'.*0\.4\d") as caught:
        result = tw.importance(raw, X, np.column_stack([outcome, treatment]))
    assert result.notes == (str(caught[0].message),)
    assert result.p_value[0] < 1e-6

    model = RandomForestRegressor(50, min_samples_leaf=5, random_state=0)
    t, r = (column - cross_val_predict(model, X, column) for column in (treatment, outcome))
    forest = CausalForest(**options).fit(X, t, r)
    result = tw.importance(forest, X, np.column_stack([r, t]))
    assert result.p_value[SIGNAL] < 1e-6
    assert result.p_value[0] > 0.05
    assert result.notes == ()


def test_the_forest_inside_of_double_machine_learning():
    X, treatment, outcome = draw_confounded()
    model = RandomForestRegressor(20, min_samples_leaf=5, random_state=0)
    learner = CausalForestDML(model_y=model, model_t=model, n_estimators=100, n_jobs=1, random_state=0)
    learner.fit(outcome, treatment, X=X, cache_values=True)
    r, t, *_ = learner.residuals_
    result = tw.importance(learner.model_cate.estimators_[0], X, np.column_stack([r, t]))
    assert result.p_value[SIGNAL] < 1e-6
    assert result.p_value[0] > 0.05


def test_a_constraint_on_the_other_half_makes_it_seen():
    X, treatment, _, outcome = draw_data()
    forest = CausalForest(
        n_estimators=8, n_jobs=1, random_state=0, min_var_fraction_leaf=0.5, min_var_leaf_on_val=True
    ).fit(X, treatment, outcome)
    bag = open_model(forest).training.list_bag(0, len(X))
    np.testing.assert_array_equal(np.sort(bag), np.sort(forest.get_subsample_inds()[0]))
    assert tw.importance(forest, X, np.column_stack([outcome, treatment])).values.argmax() == SIGNAL


def test_a_warm_started_forest():
    X, _, y, _ = draw_data()
    forest = RegressionForest(n_estimators=4, n_jobs=1, random_state=0, warm_start=True).fit(X, y)
    forest.set_params(n_estimators=8).fit(X, y)
    assert tw.importance(forest, X, y).values.argmax() == SIGNAL
    forest.set_params(n_estimators=12).fit(X[:200], y[:200])
    with pytest.raises(ValueError, match="warm_start=True"):
        tw.importance(forest, X, y)


def test_what_cannot_be_read_is_refused():
    X, treatment, y, outcome = draw_data()
    both = np.column_stack([outcome, treatment])
    instrument = CausalIVForest(n_estimators=4, n_jobs=1).fit(X, treatment, outcome, Z=treatment)
    with pytest.raises(TypeError, match=r"RegressionForest.*CausalForest.*CausalIVForest"):
        tw.importance(instrument, X, both)
    two = CausalForest(n_estimators=4, n_jobs=1).fit(X, np.column_stack([treatment, X[:, 0]]), outcome)
    with pytest.raises(ValueError, match=r"treatment.*outcome.*\b2\b.*\b1\b"):
        tw.importance(two, X, both)
    with pytest.raises(NotFittedError):
        tw.importance(RegressionForest(), X, y)
    causal = fit_causal("honest", X, treatment, outcome)
    with pytest.raises(ValueError, match=r"\by\b.*outcome.*treatment.*\(300,\)"):
        tw.importance(causal, X, outcome)
    with pytest.raises(ValueError, match=r"\by\b.*outcome.*treatment.*list"):
        tw.importance(causal, X, [["a", "b"]] * 300)
    odd = X.copy()
    odd[0, 0] = np.nan
    with pytest.raises(ValueError, match=r"CausalForest.*missing|NaN.*CausalForest"):
        tw.importance(causal, odd, both)
