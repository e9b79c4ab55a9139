"""CatBoost's models are scored by what their losses pull at."""

from __future__ import annotations

import numpy as np
import pytest
from catboost import CatBoost, CatBoostClassifier, CatBoostRanker, CatBoostRegressor

import truewood as tw
from helpers.catboost_models import N_FEATURES, QUIET, draw
from truewood._inputs.target import LARGEST
from truewood.adapters import open_model


def times(score):
    return np.exp(score)


LOSSES = {
    "RMSE": lambda score: score,
    "MAE": lambda score: score,
    "MAPE": lambda score: 10 * score,
    "Quantile:alpha=0.7": lambda score: score,
    "LogLinQuantile:alpha=0.3": times,
    "MultiQuantile:alpha=0.1,0.9": lambda score: score,
    "Expectile:alpha=0.3": lambda score: score,
    "Huber:delta=0.5": lambda score: score,
    "LogCosh": lambda score: score,
    "Poisson": lambda score: np.round(times(score)),
    "Tweedie:variance_power=1.3": lambda score: np.round(times(score)),
    "Logloss": lambda score: (score > 0).astype(int),
    "Focal:focal_alpha=0.3;focal_gamma=2.0": lambda score: (score > 0).astype(int),
    "CrossEntropy": lambda score: 1 / (1 + np.exp(-score)),
    "MultiLogloss": lambda score: np.column_stack([score > 0, score > 1]).astype(int),
    "MultiCrossEntropy": lambda score: np.column_stack([score > 0, score > 1]) * 0.9,
    "MultiClass": lambda score: np.digitize(score, [-0.5, 0.5]),
    "MultiClassOneVsAll": lambda score: np.digitize(score, [-0.5, 0.5]),
    "MultiRMSE": lambda score: np.column_stack([score, -score]),
    "MultiRMSEWithMissingValues": lambda score: np.column_stack([score, -score]),
    "Cox": lambda score: np.where(np.arange(len(score)) % 4 == 0, -1, 1) * times(score),
    "SurvivalAft:dist=Logistic;scale=1.2": lambda score: bound(score),
    "SurvivalAft:dist=Extreme": lambda score: bound(score),
    "SurvivalAft": lambda score: bound(score),
}


def bound(score):
    """Bounds of time: seen, right-censored, left-censored and in an interval, in turn."""
    lower = upper = times(score)
    kind = np.arange(len(score)) % 4
    return np.column_stack(
        [np.where(kind == 2, -1, lower), np.choose(kind, [upper, np.full(len(upper), -1.0), upper, 1.5 * upper])]
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_finds_the_signal(loss):
    X, score = draw(600)
    model = CatBoost({"iterations": 30, "depth": 3, "loss_function": loss, **QUIET}).fit(X, LOSSES[loss](score))
    X_new, score = draw(600, seed=1)
    result = tw.importance(model, X_new, LOSSES[loss](score), rows="heldout")
    assert result.values[0] > 10 * np.abs(result.values[1:]).max()
    assert np.isfinite(result.mdi).all()
    n_scores = np.reshape(model.predict(X_new, prediction_type="RawFormulaVal"), (len(X_new), -1)).shape[1]
    assert result.per_output.shape == (n_scores, N_FEATURES)


def test_a_target_border_turns_numbers_into_classes():
    X, score = draw(600)
    options = {"iterations": 20, "depth": 3, "loss_function": "Logloss", **QUIET}
    model = CatBoost({**options, "target_border": 0.3}).fit(X, score)
    same = CatBoost(options).fit(X, (score > 0.3).astype(int))
    X_new, score = draw(600, seed=1)
    values = tw.importance(model, X_new, score, rows="heldout").values
    np.testing.assert_allclose(values, tw.importance(same, X_new, score > 0.3, rows="heldout").values, rtol=1e-9)


@pytest.mark.parametrize("labels", [["no", "yes"], [False, True], [3, 5], [0.5, 1.5]])
def test_labels_of_two_classes(labels):
    X, score = draw(400)
    model = CatBoostClassifier(iterations=20, depth=3, **QUIET).fit(X, np.array(labels)[(score > 0).astype(int)])
    X_new, score = draw(400, seed=1)
    coded = CatBoostClassifier(iterations=20, depth=3, **QUIET).fit(X, (draw(400)[1] > 0).astype(int))
    values = tw.importance(model, X_new, np.array(labels)[(score > 0).astype(int)], rows="heldout").values
    np.testing.assert_allclose(values, tw.importance(coded, X_new, score > 0, rows="heldout").values, rtol=1e-9)
    with pytest.raises(ValueError, match=r"\by\b.*(labels|classes)"):
        tw.importance(model, X_new, np.full(400, "maybe"), rows="heldout")


def test_labels_of_several_classes_in_any_order():
    X, score = draw(600)
    X_new, new = draw(600, seed=1)
    options = {"iterations": 20, "depth": 3, "loss_function": "MultiClass", **QUIET}
    label, new_label = np.digitize(score, [-0.5, 0.5]), np.digitize(new, [-0.5, 0.5])
    names = np.array(["low", "mid", "high"])
    model = CatBoostClassifier(**options).fit(X, names[label])
    assert model.classes_.tolist() == ["high", "low", "mid"]
    per_output = tw.importance(model, X_new, names[new_label], rows="heldout").per_output
    turned = CatBoostClassifier(**options, class_names=[2, 1, 0]).fit(X, label)
    expected = tw.importance(turned, X_new, new_label, rows="heldout").per_output
    np.testing.assert_allclose(per_output, expected[[0, 2, 1]], rtol=1e-6)
    assert (per_output[:, 0] > 0).all()


def test_classes_that_were_never_met_have_no_score():
    X, score = draw(600)
    label = np.array([0, 2, 3])[np.digitize(score, [-0.5, 0.5])]
    model = CatBoostClassifier(iterations=5, classes_count=5, **QUIET).fit(X, label)
    assert open_model(model).target.kind.classes[0].tolist() == [0, 2, 3]
    X_new, score = draw(600, seed=1)
    label = np.array([0, 2, 3])[np.digitize(score, [-0.5, 0.5])]
    assert tw.importance(model, X_new, label, rows="heldout").values.argmax() == 0


@pytest.mark.parametrize(
    "loss", ["YetiRank", "QueryRMSE", "PairLogit", "QuerySoftMax", "LambdaMart", "StochasticRank:metric=NDCG"]
)
def test_a_ranking_loss_needs_a_target(loss):
    X, score = draw(600)
    relevance = np.digitize(score, [-0.5, 0.5])
    model = CatBoostRanker(iterations=20, depth=3, loss_function=loss, **QUIET)
    model.fit(X, relevance, group_id=np.repeat(np.arange(60), 10))
    X_new, score = draw(600, seed=1)
    with pytest.raises(ValueError, match=r"CatBoostRanker.*target="):
        tw.importance(model, X_new, score, rows="heldout")
    assert tw.importance(model, X_new, score, rows="heldout", target=lambda y: y).values.argmax() == 0


class OwnLoss:
    no_jit = True  # CatBoost would compile the method

    def calc_ders_range(self, approxes, targets, weights):  # noqa: ARG002 (CatBoost passes it)
        return [(y - score, -1.0) for score, y in zip(approxes, targets, strict=True)]


@pytest.mark.parametrize(
    ("loss", "why", "n_scores"),
    [
        (OwnLoss(), "loss", 1),
        ("Lq:q=3", r"\bLq\b.*CatBoostRegressor", 1),
        ("RMSEWithUncertainty", "RMSEWithUncertainty", 2),
    ],
)
def test_a_loss_without_a_target_of_its_own(loss, why, n_scores):
    X, y = draw(300)
    model = CatBoostRegressor(iterations=10, depth=2, loss_function=loss, eval_metric="RMSE", **QUIET).fit(X, y)
    X_new, y_new = draw(300, seed=1)
    with pytest.raises(ValueError, match=f"{why}.*target="):
        tw.importance(model, X_new, y_new, rows="heldout")
    target = np.column_stack([y_new] * n_scores)
    assert tw.importance(model, X_new, y_new, rows="heldout", target=target).values.argmax() == 0


def test_times_and_bounds_are_read_as_catboost_means_them():
    X, score = draw(100)
    options = {"iterations": 2, "depth": 2, **QUIET}
    cox = open_model(CatBoost({**options, "loss_function": "Cox"}).fit(X, times(score)))
    np.testing.assert_array_equal(cox.target.read_y(np.array([2.0, -3.0])), [[2.0, 1.0], [3.0, 0.0]])
    aft = open_model(CatBoost({**options, "loss_function": "SurvivalAft"}).fit(X, bound(score)))
    endless = LARGEST
    np.testing.assert_array_equal(aft.target.read_y([[2, 2], [3, -1], [-1, 4]]), [[2, 2], [3, endless], [0, 4]])


def test_contributions_by_hazards_add_up_to_the_score():
    X, score = draw(200)
    X_new, new = draw(200, seed=1)
    y_new = np.where(np.arange(200) % 4 == 0, -1, 1) * times(new)
    cox = CatBoost({"iterations": 5, "depth": 2, "loss_function": "Cox", **QUIET}).fit(X, times(score))
    result = tw.importance(cox, X_new, y_new, rows="heldout", contributions=True)
    np.testing.assert_allclose(result.contributions.sum(axis=0), result.values, atol=1e-12)
    assert (np.abs(result.contributions).sum(axis=0) > 0).any()


def test_times_that_cannot_be_read_are_refused():
    X, score = draw(200)
    X_new, new = draw(200, seed=1)
    options = {"iterations": 3, "depth": 2, **QUIET}
    cox = CatBoost({**options, "loss_function": "Cox"}).fit(X, times(score))
    with pytest.raises(ValueError, match=r"\by\b.*time.*censored"):
        tw.importance(cox, X_new, bound(new), rows="heldout")
    aft = CatBoost({**options, "loss_function": "SurvivalAft"}).fit(X, bound(score))
    with pytest.raises(ValueError, match=r"\by\b.*lower.*upper.*-1"):
        tw.importance(aft, X_new, times(new), rows="heldout")
