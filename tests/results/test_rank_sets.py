"""Rank sets: exact for known differences, valid for all features at once, and sharper with contributions."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

import truewood as tw
from helpers.messages import find_lacking
from truewood._inference.p_values import adjust, find_rank_sets
from truewood._results.importance_text import write_certain_top

pytestmark = pytest.mark.any_engine


def make_data(seed, n_rows=300, correlation=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 6))
    X[:, 1] = correlation * X[:, 0] + np.sqrt(1 - correlation**2) * X[:, 1]
    return X, X @ [1.5, 1.0, 1.0, 0.6, 0.0, 0.0] + rng.normal(size=n_rows)


def fit_forest(seed, correlation=0.0):
    X, y = make_data(seed, correlation=correlation)
    forest = RandomForestRegressor(40, min_samples_leaf=5, max_features=0.5, random_state=seed).fit(X, y)
    return tw.importance(forest, X, y, contributions=True)


def find_by_definition(z_score, alpha):
    """Holm's p-values of all ordered pairs, counted one by one."""
    n_features = len(z_score)
    pairs = [pair for a, b in combinations(range(n_features), 2) for pair in ((a, b), (b, a))]
    adjusted = adjust(np.array([norm.sf(z_score[pair]) for pair in pairs]), "holm")
    rejected = [pair for pair, p_value in zip(pairs, adjusted, strict=True) if p_value < alpha]
    best = [1 + sum(b == k for _, b in rejected) for k in range(n_features)]
    worst = [n_features - sum(a == k for a, _ in rejected) for k in range(n_features)]
    return best, worst


@pytest.mark.parametrize("seed", range(20))
def test_pairs_counted_one_by_one(seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(scale=4, size=7)
    z_score = values[:, np.newaxis] - values
    best, worst = find_rank_sets(z_score, 0.1)
    assert (best.tolist(), worst.tolist()) == find_by_definition(z_score, 0.1)


def test_ranks_of_certain_and_equal_scores():
    X, y = make_data(0, n_rows=2000)
    forest = RandomForestRegressor(40, min_samples_leaf=5, random_state=0).fit(X, y)
    best, worst = tw.importance(forest, X, y, contributions=True).rank_sets()
    assert (best[0], worst[0]) == (1, 1)
    assert best[1] == best[2] == 2  # of equal importance
    assert worst[1] == worst[2] == 3
    assert (best[3], worst[3]) == (4, 4)
    assert (best[4:] == 5).all()
    assert (worst[4:] == 6).all()


def test_the_largest_certain_top_is_named():
    names = np.array(["a", "b", "c", "d"])
    result = replace(fit_forest(0), contributions=None)

    def write(values, alpha=0.05):
        scores = np.array(values)
        ones = np.ones(len(scores))
        known = replace(result, values=scores, std_error=ones, rows="heldout", feature_names=names)
        return write_certain_top(known, alpha)

    assert not find_lacking(write([20.0, 60.0, 0.0, 1.0]), "95% simultaneous", "top 2", "b and a")
    assert not find_lacking(write([0.0, 60.0, 0.0, 1.0], 0.1), "90%", "top feature", "b")
    assert not find_lacking(write([0.0, 9.0, 5.0, 5.0]), "95%", "b is among the top 3")
    assert not find_lacking(write([0.0, 9.0, 8.5, 5.0]), "95%", "b and c are among the top 3")
    assert "no feature" in write([0.0, 1.0, 0.0, 1.0])


def test_unused_features_share_their_ranks():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=300), np.zeros((300, 3))])
    forest = RandomForestRegressor(20, min_samples_leaf=5, random_state=0).fit(X, X[:, 0])
    best, worst = tw.importance(forest, X, X[:, 0]).rank_sets()
    assert best.tolist() == [1, 2, 2, 2]
    assert worst.tolist() == [1, 4, 4, 4]


def test_ranks_are_closer_with_contributions_and_with_larger_alpha():
    result = fit_forest(0)
    best, worst = result.rank_sets()
    for other, alpha in ((replace(result, contributions=None), 0.05), (result, 0.0001)):
        wider = other.rank_sets(alpha)
        assert (wider[0] <= best).all()
        assert (wider[1] >= worst).all()
        assert (wider[1] - wider[0]).sum() > (worst - best).sum()


def test_variance_of_differences_on_held_out_rows():
    """Errors of differences are those of the rows' differences."""
    X, y = make_data(0, n_rows=600)
    model = HistGradientBoostingRegressor(max_iter=20).fit(X[:300], y[:300])
    result = tw.importance(model, X[300:], y[300:], rows="heldout", contributions=True)
    difference = result.contributions[:, 1] - result.contributions[:, 2]
    z_score = difference.sum() / np.sqrt(((difference - difference.mean()) ** 2).sum())
    for alpha, is_sure in ((1.001, True), (0.999, False)):
        two = replace(
            result,
            **{name: getattr(result, name)[1:3] for name in ("values", "std_error", "null_std_error", "mdi", "share")},
            per_tree=result.per_tree[:, 1:3],
            contributions=result.contributions[:, 1:3],
        )
        best, _ = two.rank_sets(2 * norm.sf(abs(z_score)) * alpha)
        assert (sorted(best) == [1, 2]) == is_sure


@pytest.mark.statistical
@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_sets_contain_all_ranks_of_expected_scores(correlation):
    """In at least 95% of data sets; of 60, 53 or fewer are unlikely (p = 0.005)."""
    results = [fit_forest(seed, correlation) for seed in range(60)]
    expected = np.mean([result.values for result in results], axis=0)
    rank = 1 + np.argsort(np.argsort(-expected))
    for keep in (True, False):
        n_right = 0
        for result in results:
            best, worst = (result if keep else replace(result, contributions=None)).rank_sets()
            n_right += bool(((best <= rank) & (rank <= worst)).all())
        assert n_right > 53


def test_what_rank_sets_need():
    X, y = make_data(0)
    forest = RandomForestRegressor(10, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="no standard errors"):
        tw.importance(forest, X, y, inference=False).rank_sets()
    with pytest.raises(ValueError, match=r"alpha.*5"):
        tw.importance(forest, X, y).rank_sets(5)
