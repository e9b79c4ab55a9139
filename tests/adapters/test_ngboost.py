"""NGBoost: leaves and distribution parameters are the library's own; targets are the gradients of its scoring rules."""

from __future__ import annotations

import ngboost
import numpy as np
import pandas as pd
import pytest
from ngboost import distns
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor

import truewood as tw
from helpers.contract import add_leaf_values, draw_odd_rows, route
from truewood._sklearn_compat import MISSING_IS_TRUSTED
from truewood._trees.ensemble import TreeEnsemble
from truewood.adapters import open_model
from truewood.testing import check_adapter

rng = np.random.default_rng(0)
X = rng.standard_normal((200, 4))
Y = X[:, 0] + np.exp(0.5 * X[:, 1]) * rng.standard_normal(200)
CLASSES = np.digitize(X[:, 0] + 0.3 * rng.standard_normal(200), [-0.5, 0.5])
QUIET = {"n_estimators": 8, "verbose": False, "random_state": 0}

MODELS = {
    "normal": lambda: ngboost.NGBRegressor(**QUIET).fit(X, Y),
    "crps": lambda: ngboost.NGBRegressor(Score=ngboost.scores.CRPScore, **QUIET).fit(X, Y),
    "plain gradient": lambda: ngboost.NGBRegressor(natural_gradient=False, **QUIET).fit(X, Y),
    "some rows and columns": lambda: ngboost.NGBRegressor(minibatch_frac=0.5, col_sample=0.5, **QUIET).fit(X, Y),
    "trees per parameter": lambda: ngboost.NGBRegressor(
        Base=[DecisionTreeRegressor(max_depth=4), ExtraTreeRegressor(max_depth=2)], **QUIET
    ).fit(X, Y),
    "log-normal": lambda: ngboost.NGBRegressor(Dist=distns.LogNormal, **QUIET).fit(X, np.exp(Y)),
    "one parameter": lambda: ngboost.NGBRegressor(Dist=distns.Poisson, **QUIET).fit(X, np.abs(Y).round()),
    "three parameters": lambda: ngboost.NGBRegressor(Dist=distns.T, **QUIET).fit(X, Y),
    "two outputs": lambda: ngboost.NGBRegressor(Dist=distns.MultivariateNormal(2), **QUIET).fit(
        X, np.column_stack([Y, X[:, 2]])
    ),
    "two classes": lambda: ngboost.NGBClassifier(**QUIET).fit(X, CLASSES // 2),
    "three classes": lambda: ngboost.NGBClassifier(Dist=distns.k_categorical(3), **QUIET).fit(X, CLASSES),
    "continued": lambda: ngboost.NGBRegressor(**QUIET).fit(X, Y).partial_fit(X, Y),
    "sparse": lambda: ngboost.NGBRegressor(**QUIET).fit(sparse.csr_array(X), Y),
}


@pytest.mark.parametrize("name", MODELS)
def test_leaves_and_parameters_are_those_of_the_library(name):
    model = MODELS[name]()
    check_adapter(model, X)
    ensemble = tw.to_ensemble(model)
    rows = draw_odd_rows(ensemble, 4, seed=1, missing=False, infinite=False).astype(np.float32)
    n_params = model.Manifold.n_params
    leaves = [
        tree.tree_.apply(np.ascontiguousarray(rows[:, columns]))
        for stage, columns in zip(model.base_models, model.col_idxs, strict=True)
        for tree in stage
    ]
    np.testing.assert_array_equal(route(model, rows), np.column_stack(leaves))
    start = np.asarray(model.init_params)
    with np.errstate(all="ignore"):  # scikit-learn adds up the rows, some of which have the largest float32
        params = model.pred_param(rows)
    np.testing.assert_allclose(add_leaf_values(model, rows) + start, params, rtol=1e-9, atol=1e-12)
    assert open_model(model).target.n_scores == n_params
    weights = [tree.tree_.weighted_n_node_samples for stage in model.base_models for tree in stage]
    np.testing.assert_array_equal(ensemble.weight, np.concatenate(weights))


def test_the_target_is_the_negative_gradient_of_the_log_likelihood():
    model = MODELS["normal"]()
    mean, deviation = model.init_params[0], np.exp(model.init_params[1])
    z = (Y - mean) / deviation
    target = open_model(model).target.loss.make_target(Y[:, np.newaxis], np.ones(len(Y)))
    np.testing.assert_allclose(target, np.column_stack([z / deviation, z**2 - 1.0]), rtol=1e-9)
    classifier = MODELS["three classes"]()
    target = open_model(classifier).target.loss.make_target(CLASSES[:, np.newaxis].astype(float), np.ones(len(Y)))
    prior = np.bincount(CLASSES) / len(CLASSES)
    np.testing.assert_allclose(target, (np.eye(3)[CLASSES] - prior)[:, 1:], atol=1e-9)


def test_scores_add_up_over_parameters():
    model = MODELS["normal"]()
    new_X = np.random.default_rng(1).standard_normal((150, 4))
    new_y = new_X[:, 0] + np.exp(0.5 * new_X[:, 1]) * np.random.default_rng(2).standard_normal(150)
    result = tw.importance(model, new_X, new_y, rows="heldout")
    target = open_model(model).target.loss.make_target(new_y[:, np.newaxis], np.ones(150))
    by_hand = tw.importance(tw.to_ensemble(model), new_X, new_y, rows="heldout", target=target)
    np.testing.assert_allclose(result.values, by_hand.values, rtol=1e-9)
    assert set(result.order[:2]) == {0, 1}  # one moves the mean, the other the deviation
    assert np.isnan(result.share).all()


def test_units_of_y_do_not_change_the_ranking():
    new_X = np.random.default_rng(1).standard_normal((150, 4))
    new_y = new_X[:, 0] + np.exp(0.5 * new_X[:, 1]) * np.random.default_rng(2).standard_normal(150)
    scores = []
    for unit in (1.0, 1024.0):
        base = DecisionTreeRegressor(max_depth=3, random_state=0)  # breaks ties in the same way
        model = ngboost.NGBRegressor(Base=base, **QUIET).fit(X, unit * Y)
        scores.append(tw.importance(model, new_X, unit * new_y, rows="heldout").values)
    np.testing.assert_allclose(scores[1], scores[0], rtol=1e-6)


def test_training_rows_are_not_held_out():
    with pytest.raises(tw.TrainingRowsError, match="rows='heldout'"):
        tw.importance(MODELS["normal"](), X, Y, rows="heldout")
    with pytest.raises(ValueError, match="rows='oob'"):
        tw.importance(MODELS["normal"](), X, Y, rows="oob")


def test_folds_and_frames():
    table = pd.DataFrame(X, columns=list("abcd"))
    result = tw.cross_importance(ngboost.NGBRegressor(**QUIET), table, Y, cv=3, progress=False)
    assert result.feature_names.tolist() == list("abcd")
    assert result.order[0] == 0


@pytest.mark.skipif(not MISSING_IS_TRUSTED, reason="trees route missing values in two ways")
def test_missing_values_go_where_trees_send_them():
    holes = X.copy()
    holes[::5, 0] = np.nan
    model = ngboost.NGBRegressor(**QUIET).fit(holes, Y)
    check_adapter(model, holes)


def test_a_model_that_stopped_early_is_reported(capsys):
    model = ngboost.NGBRegressor(early_stopping_rounds=2, **QUIET).fit(X, Y)
    capsys.readouterr()
    assert open_model(model).is_stopped_early
    assert not open_model(MODELS["normal"]()).is_stopped_early


def test_what_is_rejected():
    with pytest.raises(NotFittedError, match="NGBRegressor"):
        tw.to_ensemble(ngboost.NGBRegressor())
    with pytest.raises(TypeError, match=r"NGBRegressor.*Ridge"):
        tw.to_ensemble(ngboost.NGBRegressor(Base=Ridge(), **QUIET).fit(X, Y))
    survival = ngboost.NGBSurvival(**QUIET).fit(X, np.exp(Y), rng.integers(0, 2, 200))
    with pytest.raises(ValueError, match=r"NGBSurvival.*censor"):
        tw.to_ensemble(survival)
    model = MODELS["log-normal"]()
    with pytest.raises(ValueError, match=r"^y\b.*distribution.*NGBRegressor"):
        tw.importance(model, X[:50] + 1, -np.ones(50), rows="heldout")


@pytest.mark.parametrize("part", ["value", "threshold"])
def test_what_is_read_otherwise_is_refused(part, monkeypatch):
    def misread(**parts):
        changed = 1.2 * parts["value"] if part == "value" else parts["threshold"] + 0.7
        return TreeEnsemble(**{**parts, part: changed})

    monkeypatch.setattr("truewood.adapters._ngboost.TreeEnsemble", misread)
    with pytest.raises(tw.AdapterError, match=r"NGBRegressor.*NGBoost \d"):
        tw.importance(MODELS["normal"](), X + 0.1, Y, rows="heldout")


@pytest.mark.statistical
def test_noise_scores_zero_where_the_library_ranks_it_first():
    scores, n_first = [], 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        table = np.column_stack([rng.integers(0, 2, 400), rng.standard_normal(400)])
        y = 0.6 * table[:, 0] + rng.standard_normal(400)
        model = ngboost.NGBRegressor(n_estimators=20, learning_rate=0.1, verbose=False, random_state=seed)
        model.fit(table[:200], y[:200])
        n_first += int(model.feature_importances_[0].argmax() == 1)  # of the mean
        scores.append(tw.importance(model, table[200:], y[200:], rows="heldout").values)
    signal, noise = np.array(scores).T
    assert n_first > 20
    assert abs(noise.mean()) < 4 * noise.std(ddof=1) / np.sqrt(30)
    assert signal.mean() > 6 * signal.std(ddof=1) / np.sqrt(30)
