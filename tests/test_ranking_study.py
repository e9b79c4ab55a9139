"""The study of rankings: MDI+ against refits without each row, and the lines that it writes."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge

FOLDER = Path(__file__).parents[1] / "experiments" / "ranking"
pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="the experiments are not in a source distribution")
NAMES = ("designs", "peers", "study")


@pytest.fixture
def modules(monkeypatch):
    """The modules of the study, which other studies have by the same names."""
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in NAMES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield {name: importlib.import_module(name) for name in NAMES}
    for name in NAMES:
        sys.modules.pop(name, None)


def test_mdi_plus_is_that_of_refits_without_each_row(modules, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    y = X[:, 0] + rng.standard_normal(40)
    tree = RandomForestRegressor(1, max_leaf_nodes=5, random_state=0).fit(X, y).estimators_[0]
    monkeypatch.setattr(modules["peers"], "PENALTIES", np.array([3.0]))
    found = modules["peers"].score_tree(tree, X, y)
    nodes = tree.tree_
    columns, of_feature = [], []
    for m in np.flatnonzero(nodes.children_left >= 0):
        left, right = nodes.children_left[m], nodes.children_right[m]
        w_left, w_right = nodes.weighted_n_node_samples[[left, right]]
        paths = tree.decision_path(X).toarray()
        columns.append(np.sqrt(w_left / w_right) * paths[:, right] - np.sqrt(w_right / w_left) * paths[:, left])
        of_feature.append(nodes.feature[m])
    spread, of_stumps = np.std(columns, axis=1), np.array(of_feature)
    for j in np.unique(of_stumps):
        largest = spread[of_stumps == j].max()
        columns.append(X[:, j] * largest / X[:, j].std())
        of_feature.append(j)
    design = np.array(columns).T - np.mean(columns, axis=1)
    expected, of_feature = np.zeros(3), np.array(of_feature)
    for j in set(of_feature.tolist()):
        parts = []
        for row in range(40):
            rest = np.arange(40) != row
            ridge = Ridge(alpha=3.0).fit(design[rest], y[rest])
            # The intercept is that of the columns as they were centered, on all rows.
            parts.append(ridge.intercept_ + design[row, of_feature == j] @ ridge.coef_[of_feature == j])
        expected[j] = 1 - ((y - parts) ** 2).sum() / ((y - y.mean()) ** 2).sum()
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_run_that_was_stopped_continues(modules, tmp_path, monkeypatch):
    study, designs = modules["study"], modules["designs"]
    few = [designs.Design("independent", response, 60, 0.4, has_classes=False) for response in ("linear", "none")]
    monkeypatch.setattr(study, "DESIGNS", few)
    results = tmp_path / "results.csv"
    study.run(results, 1, 1000, 1, np.inf)
    whole = results.read_text()
    assert whole.count("\n") == 1 + 2 * 5
    results.write_text(whole[: whole.rfind("\n", 0, -1) - 5])  # a line was cut off, and one is gone
    study.run(results, 1, 1000, 1, np.inf)
    assert results.read_text().splitlines()[0] == whole.splitlines()[0]
    lines = pd.read_csv(results)
    assert set(lines["response"]) == {"linear", "none"}
    assert lines.loc[lines["response"] == "linear", "auroc"].between(0, 1).all()
    assert {"MDI+", "minus MDI+"} <= set(study.compare(lines).columns)
    assert study.count_rejections(lines)["noise"].between(0, 1).all()
