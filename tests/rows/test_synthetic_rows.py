"""Rows that lie between two others of their class, as SMOTE makes them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import truewood as tw

over_sampling = pytest.importorskip("imblearn.over_sampling")


def draw(seed=0, share=0.2):
    rng = np.random.default_rng(seed)
    return 3 * rng.standard_normal((300, 5)) + 10, (rng.random(300) < share).astype(int)


@pytest.mark.parametrize("kind", ["SMOTE", "ADASYN", "BorderlineSMOTE"])
def test_synthetic_rows_are_warned_about(kind):
    X, y = getattr(over_sampling, kind)(random_state=0).fit_resample(*draw())
    forest = RandomForestClassifier(20, random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="between two other rows.*SMOTE"):
        result = tw.importance(forest, X, y)
    assert any("SMOTE" in note for note in result.notes)


def test_other_rows_are_not_warned_about():
    X, y = draw()
    line = X[:, :1] * [1.0, 2.0, 3.0] + [0.0, 1.0, 2.0]
    plane = X[:, :2] @ [[1.0, 0.0, 1.0, 2.0], [0.0, 1.0, 1.0, -1.0]]
    for table in (X, X.round(1), line, plane, X[:, :2]):
        forest = RandomForestClassifier(5, random_state=0).fit(table, y)
        assert tw.importance(forest, table, y, inference=False).notes == ()


def test_levels_that_are_far_apart_are_not_warned_about():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(60), np.arange(60) % 2
    levels = [rng.choice([0.0, 1e-45, -1e-40, 1.0], 60), rng.choice([1.0, 1e30, -1e30, 2e30], 60)]
    X = np.column_stack([*levels, x, x])
    assert tw.importance(RandomForestClassifier(5, random_state=0).fit(X, y), X, y, inference=False).notes == ()
