"""The pseudo-data correction, also against R's ranger."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import spearmanr
from sklearn.ensemble import ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor

import truewood as tw
from truewood._paper.data import draw_five, draw_ten
from truewood._paper.methods import score_in_r

pytestmark = pytest.mark.any_engine

rng = np.random.default_rng(0)
X = np.column_stack([rng.standard_normal((200, 3)), rng.integers(0, 2, 200)])
y = X[:, 0] + X[:, 3] + 0.5 * rng.standard_normal(200)


def test_it_is_the_difference_between_columns_and_their_copies():
    result = tw.corrected_importance(RandomForestRegressor(20, random_state=0), X, y, random_state=1)
    order = np.random.RandomState(1).permutation(200)
    joined = np.hstack([X, X[order]]).astype(np.float32)
    forest = RandomForestRegressor(20, random_state=0).fit(joined, y)
    both = np.array([tree.tree_.compute_feature_importances(normalize=False) for tree in forest.estimators_])
    np.testing.assert_allclose(result.per_tree, both[:, :4] - both[:, 4:], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(result.values, result.per_tree.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(result.mdi, both[:, :4].mean(axis=0), rtol=1e-9)
    assert result.measure == "corrected"
    assert result.rows == "training"
    assert "training rows" in repr(result)


def test_containers_groups_and_files(tmp_path):
    estimator = ExtraTreesRegressor(10, random_state=0)
    dense = tw.corrected_importance(estimator, X, y, random_state=0)
    thin = tw.corrected_importance(estimator, sparse.csr_matrix(X), y, random_state=0, n_jobs=2)
    assert thin.values.argmax() == dense.values.argmax() == 0
    grouped = tw.corrected_importance(estimator, X, y, random_state=0, feature_groups=["a", "b", "b", "c"])
    np.testing.assert_allclose(grouped.values[1], dense.values[1:3].sum(), rtol=1e-12)
    dense.save(tmp_path / "result.json")
    np.testing.assert_array_equal(tw.load(tmp_path / "result.json").values, dense.values)
    assert dense.plot("compare").get_title()


def test_the_estimator_stays_unfitted():
    estimator = RandomForestClassifier(3)
    tw.corrected_importance(estimator, X, y > 0)
    assert not hasattr(estimator, "estimators_")


@pytest.mark.statistical
def test_noise_scores_zero_on_average():
    scores = []
    for seed in range(1000, 1300):
        problem = draw_five(np.random.default_rng(seed), task="classification", encoding="ordinal")
        forest = RandomForestClassifier(10, max_depth=5, random_state=seed)
        scores.append(tw.corrected_importance(forest, problem.X[:200], problem.y[:200], random_state=seed).values)
    z = np.mean(scores, axis=0) / (np.std(scores, axis=0, ddof=1) / np.sqrt(300))
    assert (np.abs(z) < 3).all(), z


@pytest.mark.statistical
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_ranks_agree_with_ranger(task, peers):
    """On the same data, with signals of falling strength in ten features, both orders agree."""
    if not peers["ranger"]:
        pytest.skip("R with ranger is not installed")
    problem = draw_ten(np.random.default_rng(0), task=task)
    strengths = np.linspace(2.0, 0.0, 10)
    standard = (problem.X - problem.X.mean()) / problem.X.std()
    signal = standard.to_numpy() @ strengths
    noise = np.random.default_rng(1).standard_normal(len(signal))
    target = signal + noise if task == "regression" else signal + noise > 0
    make = RandomForestRegressor if task == "regression" else RandomForestClassifier
    ours = tw.corrected_importance(make(300, max_features="sqrt", random_state=0), problem.X, target, random_state=0)
    given = type(problem)(problem.X, np.asarray(target))
    theirs = score_in_r("ranger", [given], trees=300, depth=None, mincriterion=1.28, seeds=[1])[0]
    assert spearmanr(ours.values, theirs).statistic > 0.9
