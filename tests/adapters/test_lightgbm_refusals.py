"""Models of LightGBM that cannot be read, and rows that cannot score them."""

from __future__ import annotations

import lightgbm as lgb
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import truewood as tw
from helpers.lightgbm_models import CATEGORIES, QUIET, WITH_CATEGORIES, build, make_rows, train, train_on


def test_linear_trees_are_refused():
    booster = lgb.train({**QUIET, "linear_tree": True}, lgb.Dataset(*make_rows()), 2)
    with pytest.raises(ValueError, match="linear_tree=False"):
        tw.to_ensemble(booster)


def test_unfitted_models_are_refused():
    for make in (lgb.LGBMClassifier, lgb.LGBMRegressor, lgb.LGBMRanker):
        with pytest.raises(NotFittedError, match=make.__name__):
            tw.importance(make(), *make_rows(), rows="heldout")
    with pytest.raises(NotFittedError, match=r"Booster.*no trees"):
        tw.to_ensemble(lgb.Booster(QUIET, lgb.Dataset(*make_rows(), params=QUIET)))


@pytest.mark.parametrize(
    ("params", "options"),
    [({"zero_as_missing": True}, {}), ({**WITH_CATEGORIES}, CATEGORIES)],
    ids=["zero", "category"],
)
def test_columns_that_are_read_in_two_ways_are_refused(params, options):
    with pytest.raises(ValueError, match=r"'Column_\d'"):
        tw.to_ensemble(train_on(train(params, **options), missing=0.1))


def test_rows_have_to_be_held_out():
    X, y = make_rows()
    for model in (train(), lgb.LGBMRegressor(n_estimators=3, verbose=-1, n_jobs=1).fit(X, y)):
        with pytest.raises(ValueError, match=r"rows='auto'.*rows='heldout'"):
            tw.importance(model, X, y)
        with pytest.raises(tw.TrainingRowsError, match="rows='heldout'"):
            tw.importance(model, X, y, rows="heldout")


@pytest.mark.parametrize("name", ["nan", "zero-as-missing", "categories", "class-never-seen"])
def test_training_rows_are_known_by_their_counts(name):
    X, y = make_rows(missing=0.1 if name == "nan" else 0.0)
    y = np.digitize(y, [0, 1]) if name == "class-never-seen" else y
    with pytest.raises(tw.TrainingRowsError, match="rows='heldout'"):
        tw.importance(build(name), X, y, rows="heldout")
