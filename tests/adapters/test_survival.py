"""scikit-survival: forests by their out-of-bag martingale residuals, boosted trees on held-out rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import truewood as tw
from contract import add_leaf_values, draw_odd_rows, route
from truewood.adapters import open_model
from truewood.data import losses

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


def score_by_hand(forest, X, y):
    """Shift-free scores of each tree from the definitions: residual means of in-bag rows against out-of-bag rows."""
    event, time = (y[name].astype(float) for name in y.dtype.names)
    hazard = np.array(
        [sum(e / (time >= t).sum() for t, e in zip(time, event, strict=True) if t <= own) for own in time]
    )
    residual = event - hazard
    scores = np.zeros((len(forest.estimators_), N_FEATURES))
    for score, tree, bag in zip(scores, forest.estimators_, forest.estimators_samples_, strict=True):
        inner = tree.tree_
        is_at = tree.tree_.decision_path(X.astype(np.float32)).toarray().astype(bool)
        draws = np.bincount(bag, minlength=len(X))
        for m in np.flatnonzero(inner.children_left >= 0):
            children = [is_at[:, side[m]] for side in (inner.children_left, inner.children_right)]
            if not all((draws[child] == 0).any() for child in children):
                continue
            mean = np.average(residual[is_at[:, m]], weights=draws[is_at[:, m]])
            for child in children:
                own = np.average(residual[child], weights=draws[child])
                unseen = residual[child & (draws == 0)].mean()
                score[inner.feature[m]] += draws[child].sum() / len(bag) * (own - mean) * (unseen - mean)
    return scores


@pytest.mark.parametrize("name", FORESTS)
def test_scores_follow_from_the_definitions(name, engine):
    X, y = draw_data(n_rows=80)
    forest = fit_forest(name, X, y)
    result = tw.importance(forest, X, y, measure="ufi_centered")
    np.testing.assert_allclose(result.per_tree, score_by_hand(forest, X, y), atol=1e-12)
    assert result.values.argmax() == SIGNAL


@pytest.mark.parametrize("measure", ["ufi", "mdi_oob", "permutation"])
def test_every_measure_finds_the_signal(measure):
    X, y = draw_data(n_rows=300)
    result = tw.importance(fit_forest("rsf", X, y), X, y, measure=measure, random_state=0)
    assert result.values.argmax() == SIGNAL
    assert result.values[SIGNAL] > 5 * np.abs(np.delete(result.values, SIGNAL)).max()


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
    with pytest.raises(ValueError, match="rows='oob' needs X and y as this forest was fit on"):
        tw.importance(forest, X[order], y)
    for other in (y[order], draw_data(seed=1)[1]):
        with pytest.raises(ValueError, match="rows='oob' needs y as this forest was fit on, in the same order"):
            tw.importance(forest, X, other)
    with pytest.raises(ValueError, match="needs the 150 rows this forest was fit on, got 100"):
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
        with pytest.raises(ValueError, match="rows must be 'oob' for RandomSurvivalForest, which has no node means"):
            tw.importance(forest, X[:50], y[:50], rows=rows)
    extra = ExtraSurvivalTrees(3, bootstrap=False, n_jobs=1).fit(X, y)
    with pytest.raises(ValueError, match=r"ExtraSurvivalTrees was fit with bootstrap=False.*fit with bootstrap=True"):
        tw.importance(extra, X, y)


def test_y_must_be_events_and_times():
    X, y = draw_data()
    with pytest.raises(ValueError, match="y must be a structured array"):
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
    with pytest.raises(ValueError, match=rf"for loss='{name}' of GradientBoostingSurvivalAnalysis no target is known"):
        tw.importance(model, X, y, rows="heldout")
    result = tw.importance(model, X, y, rows="heldout", target=lambda y: np.log(y["time"]))
    assert result.values.argmax() == SIGNAL


def test_boosted_trees_refuse_their_training_rows():
    X, y = draw_data(n_rows=200)
    model = fit_boosted("cox")
    with pytest.raises(ValueError, match="got the rows it was fit on"):
        tw.importance(model, X, y, rows="heldout")
    with pytest.raises(ValueError, match=r"rows='auto' needs recorded out-of-bag rows.*rows='heldout'"):
        tw.importance(model, X, y)
    with pytest.raises(ValueError, match="y must be a structured array"):
        tw.importance(model, X[:50], y["time"][:50], rows="heldout")


def test_the_target_of_boosted_trees_is_the_null_gradient():
    """The library's own negative gradient at zero, of the Breslow kind, is the null martingale residual."""
    from sksurv.ensemble._coxph_loss import coxph_negative_gradient

    _, y = draw_data()
    pulled = losses.cox().negative_gradient(np.column_stack([y["time"], y["event"]]), np.ones(len(y)))[:, 0]
    gradient = coxph_negative_gradient(y["event"].astype(np.uint8), y["time"], np.zeros(len(y)))
    np.testing.assert_allclose(pulled, gradient, atol=1e-12)


def test_data_frames_keep_their_names():
    X, y = draw_data()
    frame = pd.DataFrame(X, columns=["a", "risk", "c", "d"])
    forest = fit_forest("rsf", frame, y)
    assert tw.importance(forest, frame, y).frame()["feature"][0] == "risk"
