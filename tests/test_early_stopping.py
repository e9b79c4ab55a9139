"""Early stopping in `cross_importance()`: validation rows are training rows of a fold, never those it scores."""

from __future__ import annotations

import catboost
import lightgbm
import numpy as np
import pandas as pd
import pytest
import sklearn
import xgboost
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import truewood as tw

pytestmark = pytest.mark.any_engine

N_ROWS = 150
X = np.random.default_rng(0).standard_normal((N_ROWS, 3))
X[:, 2] = np.arange(N_ROWS)  # identifies the rows that a model sees
Y = X[:, 0] + np.random.default_rng(1).standard_normal(N_ROWS)
XGB = {"n_estimators": 200, "n_jobs": 1, "early_stopping_rounds": 3}
LGB = {"n_estimators": 200, "n_jobs": 1, "verbose": -1}
CAT = {"iterations": 200, "thread_count": 1, "verbose": 0, "allow_writing_files": False}
STOPPING = {
    "xgboost": (lambda: xgboost.XGBRegressor(**XGB), {}),
    "xgboost callback": (
        lambda: xgboost.XGBRegressor(**XGB | {"early_stopping_rounds": None}, callbacks=[stop_xgboost()]),
        {},
    ),
    "lightgbm": (lambda: lightgbm.LGBMRegressor(**LGB, early_stopping_rounds=3), {}),
    "lightgbm callback": (
        lambda: lightgbm.LGBMRegressor(**LGB),
        {"callbacks": [lightgbm.early_stopping(3, verbose=False)]},
    ),
    "catboost": (lambda: catboost.CatBoostRegressor(**CAT, early_stopping_rounds=3), {}),
}


def stop_xgboost():
    return xgboost.callback.EarlyStopping(rounds=3)


@pytest.mark.parametrize("name", STOPPING)
def test_models_stop_early_in_one_line(name, capfd):
    make, params = STOPPING[name]
    result = tw.cross_importance(make(), X, Y, cv=3, params=params, progress=False)
    assert 3 <= result.n_trees < 300
    assert result.order[0] == 0
    assert "10%" in " ".join(result.notes)
    captured = capfd.readouterr()
    assert captured.out + captured.err == ""  # no score of each round


def test_validation_rows_are_training_rows_of_the_fold():
    seen = []

    class Watched(xgboost.XGBRegressor):
        def fit(self, X, y, *, sample_weight=None, eval_set=None, verbose=True, sample_weight_eval_set=None):
            seen.append((X[:, 2], eval_set[0][0][:, 2], sample_weight_eval_set[0]))
            weights = {"sample_weight": sample_weight, "sample_weight_eval_set": sample_weight_eval_set}
            return super().fit(X, y, eval_set=eval_set, verbose=verbose, **weights)

    weight, groups = np.arange(1.0, N_ROWS + 1), np.arange(N_ROWS) // 5
    folds = list(KFold(3, shuffle=True, random_state=1).split(np.arange(30)))
    splits = [tuple(np.flatnonzero(np.isin(groups, part)) for part in fold) for fold in folds]
    options = {"sample_weight": weight, "groups": groups, "validation_fraction": 0.2}
    tw.cross_importance(Watched(**XGB), X, Y, cv=splits, **options, progress=False)
    assert len(seen) == 3
    for (train, test), (fitted, validation, validation_weight) in zip(splits, seen, strict=True):
        assert not set(validation) & set(test)
        assert set(validation) | set(fitted) == set(train)
        assert not set(validation) & set(fitted)
        assert len(validation) == 0.2 * len(train)
        assert not set(groups[validation.astype(int)]) & set(groups[fitted.astype(int)])
        np.testing.assert_array_equal(validation_weight, weight[validation.astype(int)])


def test_pipelines_encode_validation_rows():
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    table["level"] = np.random.default_rng(2).choice(["u", "v"], N_ROWS)
    encoder = make_column_transformer((OneHotEncoder(sparse_output=False), ["level"]), remainder="passthrough")
    pipeline = make_pipeline(encoder, xgboost.XGBRegressor(**XGB))
    result = tw.cross_importance(pipeline, table, Y, cv=3, progress=False)
    assert result.feature_names.tolist() == ["a", "b", "c", "level"]
    assert result.n_trees < 300
    search = GridSearchCV(xgboost.XGBRegressor(**XGB), {"max_depth": [2]}, cv=2)
    assert tw.cross_importance(search, X, Y, cv=3, progress=False).n_trees < 300
    with pytest.raises(ValueError, match=r"^estimator\b.*GridSearchCV.*Pipeline"):
        tw.cross_importance(GridSearchCV(pipeline, {"xgbregressor__max_depth": [2]}), table, Y, cv=3)


def test_pairs_of_features_in_folds():
    result = tw.cross_interactions(xgboost.XGBRegressor(**XGB), X, Y, cv=3, progress=False)
    assert result.n_trees < 300
    assert any("validation rows" in note for note in result.notes)
    rest = X[1::2], Y[1::2]
    model = xgboost.XGBRegressor(**XGB).fit(X[::2], Y[::2], eval_set=[rest], verbose=False)
    assert any("early" in note for note in tw.interactions(model, *rest, rows="heldout").notes)


def test_classes_are_stratified_if_possible():
    labels = np.digitize(X[:, 0], [-0.5, 0.5])
    model = xgboost.XGBClassifier(**XGB)
    assert tw.cross_importance(model, X, labels, cv=3, progress=False).order[0] == 0
    assert tw.cross_importance(model, X, labels, cv=3, validation_fraction=0.02, progress=False).order[0] == 0


def test_models_that_do_not_stop_early_train_on_all_rows():
    for model in (
        lightgbm.LGBMRegressor(**LGB | {"n_estimators": 5}),
        HistGradientBoostingRegressor(max_iter=5, early_stopping=True),
    ):
        assert not tw.cross_importance(model, X, Y, cv=3, progress=False).notes


def test_validation_rows_are_routed_to_a_model_that_requests_them():
    options = {"cv": 3, "sample_weight": np.arange(1.0, N_ROWS + 1), "progress": False}
    expected = tw.cross_importance(make_pipeline(StandardScaler(), xgboost.XGBRegressor(**XGB)), X, Y, **options)
    with sklearn.config_context(enable_metadata_routing=True):
        model = xgboost.XGBRegressor(**XGB)
        model.set_fit_request(sample_weight=True, eval_set=True, sample_weight_eval_set=True, verbose=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        result = tw.cross_importance(make_pipeline(scaler, model), X, Y, **options)
    assert result.n_trees < 300
    np.testing.assert_array_equal(result.values, expected.values)
