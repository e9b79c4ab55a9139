"""scikit-survival: forests by out-of-bag residuals of the hazards of their nodes, boosted trees on held-out rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import truewood as tw
from helpers.contract import add_leaf_values, draw_odd_rows, route
from truewood.adapters import open_model

pytest.importorskip("sksurv")

from sksurv.ensemble import (
    ExtraSurvivalTrees,
    GradientBoostingSurvivalAnalysis,
    RandomSurvivalForest,
)
from sksurv.util import Surv

N_FEATURES = 4
SIGNAL = 1
FORESTS = {
    "rsf": (RandomSurvivalForest, {}),
    "rsf-low-memory": (RandomSurvivalForest, {"low_memory": True}),
    "rsf-small-bags": (RandomSurvivalForest, {"max_samples": 0.5, "max_features": 2, "max_depth": 4}),
    "extra": (ExtraSurvivalTrees, {}),
}


def draw_data(seed=0, n_rows=150):
    """Column SIGNAL shortens life; the last column has few values."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, N_FEATURES))
    X[:, -1] = rng.integers(0, 3, n_rows)
    life, study = rng.exponential(np.exp(-1.5 * X[:, SIGNAL])), rng.exponential(3.0, n_rows)
    # Of loss "ipcwls" the library takes the logarithm, which must not be negative.
    return X, Surv.from_arrays(life <= study, 1.0 + np.minimum(life, study))


def fit_forest(name, X, y, **fit_options):
    make, options = FORESTS[name]
    return make(**{"n_estimators": 6, "n_jobs": 1, "random_state": 0, **options}).fit(X, y, **fit_options)


@pytest.mark.parametrize("has_missing", [False, True])
@pytest.mark.parametrize("name", FORESTS)
def test_leaves_weights_and_bags_are_the_librarys_own(name, has_missing, engine):
    X, y = draw_data()
    if has_missing:
        X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    forest = fit_forest(name, X, y)
    view, ensemble = open_model(forest), tw.to_ensemble(forest)
    rows = draw_odd_rows(ensemble, N_FEATURES, seed=1, missing=has_missing, infinite=False)
    leaves = np.column_stack([tree.tree_.apply(rows.astype(np.float32)) for tree in forest.estimators_])
    for given in (rows, rows.astype(np.float32)):
        np.testing.assert_array_equal(route(forest, given), leaves)
    trees = [tree.tree_ for tree in forest.estimators_]
    np.testing.assert_array_equal(ensemble.weight, np.concatenate([tree.weighted_n_node_samples for tree in trees]))
    for tree, bag in enumerate(forest.estimators_samples_):
        np.testing.assert_array_equal(view.training.list_bag(tree, len(X)), bag)


def test_sparse_rows(engine):
    X, y = draw_data()
    X[np.abs(X) < 0.5] = 0.0
    forest = fit_forest("rsf", sparse.csc_array(X), y)
    np.testing.assert_array_equal(
        route(forest, sparse.csr_array(X)), np.column_stack([tree.tree_.apply(X.astype(np.float32)) for tree in forest])
    )
    assert tw.importance(forest, sparse.csr_array(X), y).values.argmax() == SIGNAL


def make_table_by_hand(y):
    """Events and parts of intervals at risk of each row, from the definitions, shape (n_rows, 16) each."""
    event, time = (y[name] for name in y.dtype.names)
    times = sorted(time[event])
    ends = [times[-(-k * len(times) // 16) - 1] for k in range(1, 17)]
    events, at_risk = np.zeros((len(y), 16)), np.zeros((len(y), 16))
    for i in range(len(y)):
        for k, (start, end) in enumerate(zip([-np.inf, *ends], ends, strict=False)):
            inside = [t for t in times if start < t <= end]
            events[i, k] = event[i] and time[i] in inside
            at_risk[i, k] = 1.0 if events[i, k] else np.mean([t <= time[i] for t in inside])
    return events, at_risk


def score_by_hand(forest, X, y):
    """Scores of each tree from the definitions, and variances at the roots.

    Mean residuals of in-bag rows against those of out-of-bag rows, by the in-bag hazard of the node that is split.
    """
    events, at_risk = make_table_by_hand(y)
    scores, variances = np.zeros((len(forest.estimators_), N_FEATURES)), []
    for score, tree, bag in zip(scores, forest.estimators_, forest.estimators_samples_, strict=True):
        inner = tree.tree_
        is_at = tree.tree_.decision_path(X.astype(np.float32)).toarray().astype(bool)
        draws = np.bincount(bag, minlength=len(X))
        variances.append(sum(d / len(bag) * (1 - d / n) for d, n in zip(draws @ events, draws @ at_risk, strict=True)))
        for m in np.flatnonzero(inner.children_left >= 0):
            children = [is_at[:, side[m]] for side in (inner.children_left, inner.children_right)]
            if not all((draws[child] == 0).any() for child in children):
                continue
            own_draws = draws * is_at[:, m]
            at_node = own_draws @ at_risk
            hazard = np.divide(own_draws @ events, at_node, out=np.zeros(16), where=at_node > 0)
            residual = (events - hazard * at_risk).sum(axis=1)
            for child in children:
                own = np.average(residual[child], weights=draws[child])
                evaluation = residual[child & (draws == 0)].mean()
                score[inner.feature[m]] += draws[child].sum() / len(bag) * own * evaluation
    return scores, np.array(variances)


@pytest.mark.parametrize("name", FORESTS)
def test_scores_follow_from_the_definitions(name, engine):
    X, y = draw_data(n_rows=80)
    forest = fit_forest(name, X, y)
    result = tw.importance(forest, X, y, contributions=True)
    scores, variances = score_by_hand(forest, X, y)
    np.testing.assert_allclose(result.per_tree, scores, atol=1e-12)
    np.testing.assert_allclose(result.share, scores.mean(axis=0) / variances.mean(), atol=1e-12)
    np.testing.assert_allclose(result.contributions.sum(axis=0), result.values, atol=1e-12)
    assert (result.measure, result.per_output.shape) == ("ufi_centered", (1, N_FEATURES))
    assert result.values.argmax() == SIGNAL


@pytest.mark.parametrize("measure", ["ufi", "mdi_oob", "mdi"])
def test_every_measure_finds_the_signal(measure):
    X, y = draw_data(n_rows=300)
    result = tw.importance(fit_forest("rsf", X, y), X, y, measure=measure, inference=False)
    assert result.values.argmax() == SIGNAL
    if measure != "mdi":
        assert result.values[SIGNAL] > 5 * np.abs(np.delete(result.values, SIGNAL)).max()


def test_contributions_of_sums_add_up_to_the_score():
    X, y = draw_data()
    result = tw.importance(fit_forest("rsf", X, y), X, y, measure="mdi_oob", contributions=True)
    np.testing.assert_allclose(result.contributions.sum(axis=0), result.values, atol=1e-12)


@pytest.mark.parametrize("measure", ["permutation", "loss_oob"])
def test_measures_that_are_not_linear_are_refused(measure):
    X, y = draw_data()
    with pytest.raises(ValueError, match=r"survival.*RandomSurvivalForest"):
        tw.importance(fit_forest("rsf", X, y), X, y, measure=measure)


def draw_censored(seed, n_rows):
    """Column SIGNAL moves the time of the event, column 0 and the last one, which is binary, only that of censoring."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, N_FEATURES))
    X[:, -1] = X[:, -1] > 0
    life = np.exp(X[:, SIGNAL] + 0.5 * rng.standard_normal(n_rows))
    study = rng.exponential(np.exp(-1.2 * (X[:, 0] + 2.0 * X[:, -1] - 1.0)))
    return X, Surv.from_arrays(life <= study, np.minimum(life, study))


def test_what_only_moves_censoring_is_not_found_beside_a_real_feature():
    """By residuals of the root's hazard the binary column had z = 3.1 here, and p = 0.0008."""
    X, y = draw_censored(seed=2, n_rows=600)
    forest = RandomSurvivalForest(30, min_samples_leaf=5, n_jobs=1, random_state=0, low_memory=True).fit(X, y)
    p_value = tw.importance(forest, X, y).p_value
    assert p_value[SIGNAL] < 1e-6
    assert np.delete(p_value, SIGNAL).min() > 0.05


@pytest.mark.statistical
def test_what_only_moves_censoring_scores_zero_on_average():
    """Over 25 data sets each useless feature is within 4 standard errors of zero; by the root's hazard it was 7."""
    values = []
    for seed in range(25):
        X, y = draw_censored(seed, n_rows=200)
        forest = RandomSurvivalForest(20, min_samples_leaf=5, n_jobs=1, random_state=seed, low_memory=True).fit(X, y)
        values.append(tw.importance(forest, X, y, inference=False).values)
    values = np.array(values)
    assert (values.argmax(axis=1) == SIGNAL).all()
    useless = np.delete(values, SIGNAL, axis=1)
    assert (np.abs(useless.mean(axis=0)) < 4 * useless.std(axis=0, ddof=1) / np.sqrt(len(useless))).all()


@pytest.mark.statistical
def test_noise_scores_zero_on_average():
    """Over 25 data sets each noise feature is within 4 standard errors of zero, where mdi is far above."""
    results = []
    for seed in range(25):
        X, y = draw_data(seed, n_rows=100)
        results.append(tw.importance(fit_forest("rsf", X, y), X, y))
    values, biased = (np.array([getattr(result, name) for result in results]) for name in ("values", "mdi"))
    assert (values.argmax(axis=1) == SIGNAL).all()
    noise = np.arange(N_FEATURES) != SIGNAL
    for scores, is_zero in ((values, True), (biased, False)):
        error = scores[:, noise].std(axis=0, ddof=1) / np.sqrt(len(scores))
        assert ((np.abs(scores[:, noise].mean(axis=0)) < 4 * error) == is_zero).all()


@pytest.mark.parametrize("name", ["rsf", "rsf-low-memory"])
def test_other_data_is_refused(name):
    X, y = draw_data()
    forest = fit_forest(name, X, y)
    order = np.random.default_rng(0).permutation(len(X))
    with pytest.raises(ValueError, match=r"rows='oob'.*X and y"):
        tw.importance(forest, X[order], y)
    for other in (y[order], draw_data(seed=1)[1]):
        with pytest.raises(ValueError, match=r"rows='oob'.*\by\b"):
            tw.importance(forest, X, other)
    with pytest.raises(ValueError, match=r"\b150\b.*\b100\b"):
        tw.importance(forest, X[:100], y[:100])


def test_weights_of_the_fit():
    X, y = draw_data()
    weight = np.random.default_rng(0).integers(1, 4, len(X)).astype(float)
    forest = fit_forest("rsf", X, y, sample_weight=weight)
    assert tw.importance(forest, X, y, sample_weight=weight).values.argmax() == SIGNAL


def test_only_out_of_bag_rows_score_a_survival_forest():
    X, y = draw_data()
    forest = fit_forest("rsf", X, y)
    for rows in ("heldout", [[0, 1]] * 6):
        with pytest.raises(ValueError, match=r"'oob'.*RandomSurvivalForest"):
            tw.importance(forest, X[:50], y[:50], rows=rows)
    extra = ExtraSurvivalTrees(3, bootstrap=False, n_jobs=1).fit(X, y)
    with pytest.raises(ValueError, match=r"ExtraSurvivalTrees.*bootstrap=False.*bootstrap=True"):
        tw.importance(extra, X, y)


def test_y_must_be_events_and_times():
    X, y = draw_data()
    with pytest.raises(ValueError, match=r"\by\b.*structured array"):
        tw.importance(fit_forest("rsf", X, y), X, y["time"])


def test_a_warm_started_forest():
    X, y = draw_data()
    forest = RandomSurvivalForest(3, warm_start=True, random_state=0, n_jobs=1).fit(X, y)
    forest.set_params(n_estimators=6).fit(X, y)
    assert tw.importance(forest, X, y).values.argmax() == SIGNAL


# --- boosted trees ------------------------------------------------------------------------------------------------

BOOSTED = {
    "cox": {},
    "dropout": {"dropout_rate": 0.4},
    "subsample": {"subsample": 0.5, "max_features": 2},
    "early-stopping": {"n_iter_no_change": 2, "learning_rate": 1.0},
    "squared": {"loss": "squared"},
    "ipcwls": {"loss": "ipcwls"},
}


def fit_boosted(name):
    options = {"n_estimators": 12, "random_state": 0, **BOOSTED[name]}
    return GradientBoostingSurvivalAnalysis(**options).fit(*draw_data(n_rows=200))


@pytest.mark.parametrize("name", BOOSTED)
def test_boosted_trees_keep_the_contract(name, engine):
    model = fit_boosted(name)
    ensemble = tw.to_ensemble(model)
    rows = draw_odd_rows(ensemble, N_FEATURES, seed=1, missing=False, infinite=False)
    rows = rows[np.abs(rows).max(axis=1) < 100]
    np.testing.assert_array_equal(route(model, rows), model.apply(rows)[:, :, 0])
    narrow = rows.astype(np.float32)
    raw = model._raw_predict(narrow) - model._raw_predict_init(narrow)
    np.testing.assert_allclose(add_leaf_values(model, rows), raw, atol=1e-9)
    trees = [tree.tree_ for tree in model.estimators_.ravel()]
    np.testing.assert_array_equal(ensemble.weight, np.concatenate([tree.weighted_n_node_samples for tree in trees]))
    assert (name == "early-stopping") == (ensemble.n_trees < 12)


@pytest.mark.parametrize("name", ["cox", "dropout", "subsample", "early-stopping"])
def test_boosted_trees_find_the_signal(name):
    X, y = draw_data(seed=1, n_rows=300)
    result = tw.importance(fit_boosted(name), X, y, rows="heldout")
    assert result.values.argmax() == SIGNAL
    assert result.values[SIGNAL] > 5 * np.abs(np.delete(result.values, SIGNAL)).max()


@pytest.mark.parametrize("name", ["squared", "ipcwls"])
def test_other_losses_need_a_target(name):
    X, y = draw_data(seed=1, n_rows=300)
    model = fit_boosted(name)
    with pytest.raises(ValueError, match=rf"loss='{name}'.*GradientBoostingSurvivalAnalysis.*target="):
        tw.importance(model, X, y, rows="heldout")
    result = tw.importance(model, X, y, rows="heldout", target=lambda y: np.log(y["time"]))
    assert result.values.argmax() == SIGNAL


def test_an_own_target_takes_the_place_of_hazards():
    X, y = draw_data(seed=1, n_rows=300)
    model = fit_boosted("cox")
    early = tw.importance(model, X, y, rows="heldout", target=lambda y: -np.log(y["time"]))
    assert early.values.argmax() == SIGNAL
    assert early.values[SIGNAL] != tw.importance(model, X, y, rows="heldout").values[SIGNAL]


def test_boosted_trees_refuse_their_training_rows():
    X, y = draw_data(n_rows=200)
    model = fit_boosted("cox")
    with pytest.raises(tw.TrainingRowsError, match="rows='heldout'"):
        tw.importance(model, X, y, rows="heldout")
    with pytest.raises(ValueError, match=r"rows='auto'.*rows='heldout'"):
        tw.importance(model, X, y)
    with pytest.raises(ValueError, match=r"\by\b.*structured array"):
        tw.importance(model, X[:50], y["time"][:50], rows="heldout")


@pytest.mark.parametrize("name", ["cox", "dropout"])
def test_scores_of_boosted_trees_follow_from_the_definitions(name, engine):
    """Raw scores of the children against mean residuals by the hazard of the held-out rows at the node."""
    X, y = draw_data(seed=1, n_rows=80)
    model = fit_boosted(name)
    events, at_risk = make_table_by_hand(y)
    ensemble, narrow, expected = tw.to_ensemble(model), X.astype(np.float32), np.zeros(N_FEATURES)
    for t, tree in enumerate(model.estimators_.ravel()):
        inner, start = tree.tree_, ensemble.offset[t]
        is_at, weight = inner.decision_path(narrow).toarray().astype(bool), inner.weighted_n_node_samples
        value = ensemble.value[start : ensemble.offset[t + 1], 0].copy()
        for m in reversed(np.flatnonzero(inner.children_left >= 0)):
            children = [inner.children_left[m], inner.children_right[m]]
            value[m] = np.average(value[children], weights=weight[children])
            if not all(is_at[:, child].any() for child in children):
                continue
            at_node = is_at[:, m] @ at_risk
            hazard = np.divide(is_at[:, m] @ events, at_node, out=np.zeros(16), where=at_node > 0)
            residual = (events - hazard * at_risk).sum(axis=1)
            for child in children:
                step = weight[child] / weight[0] * (value[child] - value[m])
                expected[inner.feature[m]] += step * residual[is_at[:, child]].mean()
    result = tw.importance(model, X, y, rows="heldout", contributions=True)
    np.testing.assert_allclose(result.values, expected, atol=1e-12)
    np.testing.assert_allclose(result.contributions.sum(axis=0), result.values, atol=1e-12)
    d, n = events.mean(axis=0), at_risk.mean(axis=0)
    np.testing.assert_allclose(result.impurity, (d * (1 - d / n)).sum())
    assert np.isnan(result.share).all()


def test_what_only_moves_censoring_is_not_found_in_boosted_trees():
    """By residuals of one hazard for all rows both columns were found, with z-scores of 4 and 6."""
    (X, y), (X_test, y_test) = draw_censored(seed=0, n_rows=400), draw_censored(seed=1, n_rows=400)
    model = GradientBoostingSurvivalAnalysis(n_estimators=50, random_state=0).fit(X, y)
    p_value = tw.importance(model, X_test, y_test, rows="heldout").p_value
    assert p_value[SIGNAL] < 1e-6
    assert np.delete(p_value, SIGNAL).min() > 0.05


def test_data_frames_keep_their_names():
    X, y = draw_data()
    frame = pd.DataFrame(X, columns=["a", "risk", "c", "d"])
    forest = fit_forest("rsf", frame, y)
    assert tw.importance(forest, frame, y).frame()["feature"][0] == "risk"
