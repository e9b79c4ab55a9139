"""Models of XGBoost that cannot be read, and rows that cannot score them."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from sklearn.exceptions import NotFittedError

import truewood as tw
from helpers.xgboost_models import BASE, VECTOR, C, R, build, draw, make_target


@pytest.mark.parametrize("wrap", [lambda model: model, lambda model: model.get_booster()])
def test_a_linear_model_is_refused(wrap):
    X, score, rng = draw()
    model = R(booster="gblinear", n_estimators=2).fit(X, make_target("number", score, rng))
    with pytest.raises(TypeError, match=r"booster='gbtree'.*'dart'.*booster='gblinear'"):
        tw.to_ensemble(wrap(model))


def test_models_without_trees_are_refused():
    for model in (R(), C(), xgb.XGBRFRegressor(), xgb.Booster()):
        with pytest.raises(NotFittedError):
            tw.to_ensemble(model)
    X, score, _ = draw()
    with pytest.raises(ValueError, match=r"XGBRegressor.*tree"):
        tw.to_ensemble(R(n_estimators=0).fit(X, score))


def test_vector_leaves_without_weights_are_refused(monkeypatch):
    X, score, rng = draw()
    model = R(**BASE, **VECTOR).fit(X, make_target("numbers", score, rng))
    # As XGBoost before 3.2 exports it.
    export = json.loads(model.get_booster().save_raw("json"))
    for tree in export["learner"]["gradient_booster"]["model"]["trees"]:
        del tree["sum_hessian"]
    monkeypatch.setattr("truewood.adapters._xgboost.read_ubjson", lambda _content: export)
    with pytest.raises(ValueError, match=r"vector leaves.*3\.2"):
        tw.to_ensemble(model)


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e300])
@pytest.mark.parametrize("missing", [np.nan, -1.0])
def test_infinite_values_are_refused_as_in_a_fit(value, missing):
    X, score, rng = draw()
    y = make_target("number", score, rng)
    model = R(**BASE, missing=missing).fit(X, y)
    X[3, 1] = value
    with pytest.raises(xgb.core.XGBoostError, match="contains `inf`"):
        model.apply(X)
    with pytest.raises(ValueError, match=r"infinite|contains `inf`") as caught:
        tw.importance(model, X, y, rows="heldout")
    assert "\n" not in str(caught.value)


def test_rows_have_to_be_held_out():
    X, score, rng = draw()
    y = make_target("number", score, rng)
    model = build("regressor")
    with pytest.raises(ValueError, match=r"rows='auto'.*XGBRegressor"):
        tw.importance(model, X, y)
    with pytest.raises(tw.TrainingRowsError, match="rows='heldout'"):
        tw.importance(model, X, y, rows="heldout")
    with pytest.raises(tw.TrainingRowsError, match=r"rows='heldout'.*Booster"):
        tw.importance(model.get_booster(), X, y, rows="heldout")


def test_rows_of_a_fit_are_known_by_vector_leaves():
    X, score, rng = draw()
    with pytest.raises(tw.TrainingRowsError, match="rows='heldout'"):
        tw.importance(build("vectors"), X, make_target("numbers", score, rng), rows="heldout")


def test_names_are_the_models():
    X, score, rng = draw()
    y = make_target("number", score, rng)
    table = pd.DataFrame(X, columns=list("abcde"))
    model = R(**BASE).fit(table, y)
    test, test_score, _ = draw(seed=1)
    for other in (model, model.get_booster()):
        assert tw.importance(other, test, test_score, rows="heldout").feature_names.tolist() == list("abcde")
        with pytest.raises(ValueError, match=r"\b0\b.*'a'.*'b'"):
            tw.importance(other, table[list("bacde")], y, rows="heldout")
        with pytest.raises(ValueError, match=r"\b5\b.*columns"):
            tw.importance(other, X[:, :4], y, rows="heldout")
