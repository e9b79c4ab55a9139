"""Models of CatBoost that cannot be read, and tables that cannot score them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from catboost import CatBoost, CatBoostClassifier, CatBoostRegressor
from sklearn.exceptions import NotFittedError

import truewood as tw
from helpers.catboost_models import (
    CATEGORICAL,
    POLICIES,
    QUIET,
    draw,
    draw_heldout_mixed,
    draw_mixed,
    fit_mixed,
    fit_numbers,
)
from helpers.contract import route


def test_tables_that_do_not_fit_are_refused():
    model, (X, y) = fit_mixed("default"), draw_heldout_mixed()
    with pytest.raises(ValueError, match=r"\bX\b.*CatBoostRegressor.*must be integer or string"):
        tw.importance(model, X.assign(a=1.5), y, rows="heldout")
    with pytest.raises(ValueError, match=r"\bX\b.*CatBoostRegressor.*Invalid cat_features"):
        tw.importance(model, X.to_numpy(dtype=object)[:, :3], y, rows="heldout")
    with pytest.raises(ValueError, match=r"\bX\b.*\b5\b.*CatBoostRegressor.*\b6\b"):
        tw.importance(model, np.column_stack([X.to_numpy(dtype=object), y]), y, rows="heldout")
    with pytest.raises(ValueError, match=r"\b0\b.*'f0'.*'c'"):
        tw.importance(model, X[["c", "a", "b", "f1", "f0"]], y, rows="heldout")


@pytest.mark.parametrize("policy", POLICIES)
def test_training_rows_are_not_held_out(policy):
    X, y = draw(missing=True)
    model = fit_numbers("squared error", policy)
    with pytest.raises(tw.TrainingRowsError, match=r"rows='heldout'.*CatBoost"):
        tw.importance(model, X, y, rows="heldout")
    with pytest.raises(ValueError, match="rows='auto'"):
        tw.importance(model, X, y)
    mixed, y = draw_mixed()
    mixed.loc[::7, "f1"] = np.nan
    with pytest.raises(tw.TrainingRowsError, match="rows='heldout'"):
        tw.importance(fit_mixed("one hot", policy), mixed, y, rows="heldout")


def test_forbidden_missing_values_are_refused():
    X, y = draw(seed=1, missing=True)
    model = CatBoostRegressor(iterations=5, depth=2, nan_mode="Forbidden", **QUIET).fit(*draw())
    with pytest.raises(ValueError, match=r"NaN.*CatBoostRegressor.*nan_mode='Forbidden'"):
        tw.importance(model, X, y, rows="heldout")
    frame, z = draw_mixed()
    mixed = CatBoostRegressor(iterations=5, depth=2, nan_mode="Forbidden", cat_features=CATEGORICAL, **QUIET)
    mixed.fit(frame, z)
    X, y = draw_heldout_mixed()
    with pytest.raises(ValueError, match=r"NaN.*CatBoostRegressor.*nan_mode='Forbidden'"):
        tw.importance(mixed, X, y, rows="heldout")
    assert len(route(mixed, X.fillna(0.0))) == len(X)


def test_models_that_cannot_be_read_are_refused(tmp_path):
    X, y = draw(200)
    with pytest.raises(NotFittedError, match=r"CatBoostRegressor.*fit"):
        tw.importance(CatBoostRegressor(), X, y, rows="heldout")
    small = {"iterations": 3, "depth": 2, **QUIET}
    words = pd.DataFrame({"x": X[:, 0], "text": np.where(y > 0, "good day to you", "bad night for me")})
    model = CatBoostClassifier(**small, text_features=["text"]).fit(words, y > 0)
    with pytest.raises(ValueError, match=r"CatBoostClassifier.*text"):
        tw.importance(model, words, y > 0, rows="heldout")
    points = pd.DataFrame({"x": X[:, 0], "point": list(X)})
    model = CatBoostClassifier(**small, embedding_features=["point"]).fit(points, y > 0)
    with pytest.raises(ValueError, match=r"CatBoostClassifier.*text"):
        tw.to_ensemble(model)
    model = CatBoostRegressor(**small).fit(X, y)
    model.save_model(str(tmp_path / "model"), format="coreml")
    with pytest.raises(ValueError, match=r"CatBoost.*weights"):
        tw.to_ensemble(CatBoost().load_model(str(tmp_path / "model"), format="coreml"))
    model.shrink(0)
    with pytest.raises(ValueError, match=r"CatBoostRegressor.*no trees"):
        tw.to_ensemble(model)
