"""Contributions of rows sum to the scores in both roles, and standard errors and p-values follow from them."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from imblearn.ensemble import BalancedRandomForestClassifier
from scipy import stats
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor

import truewood as tw
from helpers import oracle
from helpers.sklearn_models import build, supported_cases
from truewood._engines.selection import ENGINE_VARIABLE
from truewood._inference import standard_errors
from truewood._inference.p_values import adjust, janitza
from truewood._inference.standard_errors import average_tree_noise, count_trees_needed
from truewood._measures.registry import MEASURES as MEASURE_TABLE
from truewood._results.caveats import list_caveats
from truewood._scoring import influence, trees

MEASURES = ["ufi", "ufi_centered", "mdi_oob"]
rng = np.random.default_rng(0)
X = np.column_stack([rng.standard_normal((120, 3)), rng.integers(0, 2, 120)])
y = (X[:, 0] + rng.standard_normal(120) > 0).astype(int)


@pytest.fixture(scope="module")
def forest():
    return RandomForestClassifier(20, random_state=0).fit(X, y)


def contribute(monkeypatch, *arguments, **options):
    """Contributions of all rows to the columns in both roles, and the result."""
    seen = []

    def spy(*arguments, **options):
        for block in influence.allocate_influence(*arguments, **options):
            seen.append(block)
            yield block

    with monkeypatch.context() as patch:
        patch.setattr("truewood._scoring.importance.allocate_influence", spy)
        result = tw.importance(*arguments, contributions=True, **options)
    n_scored = 1 if result.is_additive else np.count_nonzero(~np.isnan(result.per_tree[:, 0]))
    found = seen[0].inbag_influence
    psi = None if found is None else found / n_scored
    return seen[0].eval_influence / n_scored, psi, result


@pytest.mark.filterwarnings("ignore:.*max_samples=")  # 60 rows leave few of a class out
@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("name", supported_cases())
def test_contributions_sum_to_the_scores_in_both_roles(name, measure, engine, monkeypatch):
    built = build(name, seed=3)
    options = {"rows": built.rows, "sample_weight": built.sample_weight, "measure": measure}
    evaluation, training, result = contribute(monkeypatch, built.model, built.X, built.y, **options)
    np.testing.assert_allclose(evaluation.sum(axis=0), result.values, rtol=1e-10, atol=1e-12)
    assert (training is None) == (built.rows == "heldout")
    if training is not None:
        np.testing.assert_allclose(training.sum(axis=0), result.values, rtol=1e-10, atol=1e-12)
    if measure != "ufi":
        return
    groups = {"both": [0, 2]}
    grouped = tw.importance(built.model, built.X, built.y, feature_groups=groups, contributions=True, **options)
    np.testing.assert_allclose(grouped.contributions[:, 0], evaluation[:, 0] + evaluation[:, 2], rtol=1e-10, atol=1e-12)
    assert_equal_results(grouped.expand(), result)


def assert_equal_results(one, other):
    for name in ("values", "std_error", "null_std_error", "per_tree", "contributions"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def expect_at_nodes(inner, in_bag, scored):
    """Expected target of evaluation rows at each node: their mean there, and a line through that at the root."""
    products = squares = 0
    for left, right in zip(inner.children_left, inner.children_right, strict=True):
        if left < 0 or scored[left] is None or scored[right] is None:
            continue
        w_l, w_r = in_bag[left].weight, in_bag[right].weight
        step = oracle.minus(in_bag[left].mean, in_bag[right].mean)
        other = oracle.minus(scored[left].mean, scored[right].mean)
        products += w_l * w_r / (w_l + w_r) * oracle.dot(step, other)
        squares += w_l * w_r / (w_l + w_r) * oracle.dot(step, step)
    slope, at_line = max(products / squares, 0) if squares else 0, scored[0].weight / 4
    expected = []
    for trained, evaluation in zip(in_bag, scored, strict=True):
        line = [
            mean + slope * (value - root)
            for mean, value, root in zip(scored[0].mean, trained.mean, in_bag[0].mean, strict=True)
        ]
        n_rows, means = (0, line) if evaluation is None else (evaluation.weight, evaluation.mean)
        expected.append([(n_rows * a + at_line * b) / (n_rows + at_line) for a, b in zip(means, line, strict=True)])
    return expected


def contributions_by_loops(built, n_features):
    """Both roles of each row for `ufi_centered` of a single output, from the definition."""
    n_rows = len(built.dense)
    phi, psi = np.zeros((n_rows, n_features)), np.zeros((n_rows, n_features))
    targets = oracle.vectors(built.codes, 0, built.n_classes)
    for tree in built.trees:
        inner = tree.tree
        in_bag = oracle.summarize(inner, tree.columns, built.dense, targets, tree.training)
        scored = oracle.summarize(inner, tree.columns, built.dense, targets, tree.evaluation)
        expected = expect_at_nodes(inner, in_bag, scored)
        for rows, out in ((tree.evaluation, phi), (tree.training, psi)):
            for row, weight in rows:
                path = oracle.walk(inner, tree.columns, built.dense[row])
                for m, c in pairwise(path):
                    left, right = int(inner.children_left[m]), int(inner.children_right[m])
                    if scored[left] is None or scored[right] is None:
                        continue
                    column = tree.columns[inner.feature[m]]
                    y_less = oracle.minus(targets[row], in_bag[m].mean)
                    if out is phi:
                        y_less = oracle.minus(targets[row], expected[m])
                        step = oracle.minus(in_bag[c].mean, in_bag[m].mean)
                        rate = in_bag[c].weight / in_bag[0].weight / scored[c].weight
                    else:
                        w_l, w_r = in_bag[left].weight, in_bag[right].weight
                        middle = [
                            (w_l * a + w_r * b) / (w_l + w_r)
                            for a, b in zip(scored[left].mean, scored[right].mean, strict=True)
                        ]
                        step, rate = oracle.minus(scored[c].mean, middle), 1.0 / in_bag[0].weight
                    out[row, column] += weight * rate * oracle.dot(step, y_less) / len(built.trees)
    return phi, psi


@pytest.mark.filterwarnings("ignore:.*max_samples=")  # 60 rows leave few of a class out
@pytest.mark.parametrize(
    "name", ["rf", "rf-three-classes", "rf-class-weight", "rf-sample-weight", "rfr", "bagging-columns"]
)
def test_contributions_are_those_of_the_definition(name, engine, monkeypatch):
    built = build(name, seed=5)
    options = {"rows": built.rows, "sample_weight": built.sample_weight, "measure": "ufi_centered"}
    evaluation, training, result = contribute(monkeypatch, built.model, built.X, built.y, **options)
    phi, psi = contributions_by_loops(built, evaluation.shape[1])
    np.testing.assert_allclose(evaluation, phi, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(training, psi, rtol=1e-9, atol=1e-12)
    phi, psi = phi - phi.mean(axis=0), psi - psi.mean(axis=0)
    biased = biased_by_loops(built, phi.shape[1])
    by_column = [(result.per_tree[:, j], phi[:, j], psi[:, j]) for j in range(phi.shape[1])]
    bags = bags_by_loops(built, len(phi))
    phi_a = oracle.estimate_phi_a(*bags, [own[:2] for own in by_column])
    by_column = [(*own, part) for own, part in zip(by_column, phi_a, strict=True)]
    # weights in bags are kept as float32
    close = {"rtol": 1e-6, "atol": 1e-12}
    tested = [error_by_loops(built, *own, mdi) for own, mdi in zip(by_column, biased, strict=True)]
    np.testing.assert_allclose(result.null_std_error, tested, **close)
    of_all = (result.per_tree.sum(axis=1), phi.sum(axis=1), psi.sum(axis=1))
    together = error_by_loops(built, *of_all, *oracle.estimate_phi_a(*bags, [of_all[:2]]), biased.sum())
    np.testing.assert_allclose(result.total_error, together, **close)
    np.testing.assert_allclose(result.std_error, [spread_by_loops(built, *own) for own in by_column], **close)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # these forests are small
        options["inference"] = "bags"
        from_bags = tw.importance(built.model, built.X, built.y, **options)
    np.testing.assert_allclose(from_bags.std_error, [spread_by_bags(built, *own) for own in by_column], **close)
    np.testing.assert_array_equal(from_bags.null_std_error, result.null_std_error)


def biased_by_loops(built, n_features):
    """For each column, the mean over trees of what its splits that count score on the in-bag rows."""
    biased, targets = np.zeros(n_features), oracle.vectors(built.codes, 0, built.n_classes)
    for tree in built.trees:
        inner = tree.tree
        in_bag = oracle.summarize(inner, tree.columns, built.dense, targets, tree.training)
        scored = oracle.summarize(inner, tree.columns, built.dense, targets, tree.evaluation)
        for m, children in enumerate(zip(inner.children_left, inner.children_right, strict=True)):
            if children[0] < 0 or any(scored[c] is None for c in children):
                continue
            for c in children:
                step = oracle.minus(in_bag[c].mean, in_bag[m].mean)
                share = in_bag[c].weight / in_bag[0].weight / len(built.trees)
                biased[tree.columns[inner.feature[m]]] += share * oracle.dot(step, step)
    return biased


def bags_by_loops(built, n_rows):
    """For each tree, how much more weight each row has in it than on average; rows in no bag are left at 0."""
    weight = np.zeros((len(built.trees), n_rows))
    for tree, own in zip(built.trees, weight, strict=True):
        for row, amount in tree.training:
            own[row] += amount
    in_bag = weight.any(axis=0)
    more = np.zeros_like(weight)
    more[:, in_bag] = weight[:, in_bag] / weight[:, in_bag].mean(axis=0) - 1
    return more, more[:, in_bag].var(axis=0).mean()


def variance_by_loops(phi, psi, phi_a):
    """Variance of the score of a useless feature."""
    return (phi**2).sum() + max(phi_a, (phi * psi).sum(), 0.0)


def common_by_loops(built, scores, phi, psi, phi_a, biased):
    """Variance, its part without forest noise, that part of the score, and the gain, of one feature."""
    variance, (_, r) = variance_by_loops(phi, psi, phi_a), bags_by_loops(built, len(phi))
    common = max(variance - scores.var(ddof=1) / len(scores), 0.0)
    explained = scores.mean() * common / variance if variance else 0.0
    return variance, common, explained, max((biased - scores.mean()) / (1 + r), 0.0)


def error_by_loops(built, scores, phi, psi, phi_a, biased):
    """Test error of one feature, from its definition in docs/theory/standard_errors.md."""
    variance, common, explained, gain = common_by_loops(built, scores, phi, psi, phi_a, biased)
    if variance == 0:
        return 0.0
    squares = gain + max(explained, -0.75 * gain)
    on_average = variance - common + common * (gain / squares if gain > 0 else 1.0)
    return (np.sqrt(variance) + np.sqrt(on_average)) / 2


@pytest.mark.parametrize("task", ["classes", "two outputs", "numbers"])
def test_few_informative_rows_are_noted_and_make_scores_skewed(task, monkeypatch):
    rng = np.random.default_rng(0)
    rows, rare = rng.standard_normal((600, 3)), np.arange(600) % 40 == 0
    even = rng.standard_normal(600)
    kind = RandomForestRegressor if task == "numbers" else RandomForestClassifier
    target = {"classes": rare, "numbers": rare.astype(float), "two outputs": np.column_stack([rare, rare])}[task]
    share = 1 / 40
    # Of ones and zeros, each with its squared distance from the mean.
    n_informative = 600 * (share * (1 - share)) ** 2 / (share * (1 - share) ** 4 + (1 - share) * share**4)
    result = tw.importance(kind(30, random_state=0).fit(rows, target), rows, target)
    (note,) = [note for note in result.notes if "conservative" in note]
    assert f"about {n_informative:.0f} of 600 rows" in note
    fitted = []
    monkeypatch.setattr(standard_errors, "_fit_share_of_gain", lambda *_: fitted.append(1) or 1.0)
    tw.importance(kind(30, random_state=0).fit(rows, target), rows, target, inference="residual")
    assert len(fitted) == 2
    if task == "classes":
        options = {"per_class": True, "inference": "residual"}
        tw.importance(kind(30, random_state=0).fit(rows, target), rows, target, **options)
        assert len(fitted) == 4  # not for single classes
        del fitted[2:]
    usual = even if task == "numbers" else even > 0
    forest = kind(30, random_state=0).fit(rows, usual)
    for options in ({}, {"inference": False}, {"rows": "heldout"}):
        new = rng.standard_normal((600, 3))
        notes = tw.importance(forest, new if options.get("rows") else rows, usual, **options).notes
        assert not [note for note in notes if "conservative" in note]
    if task != "two outputs":
        weighted = kind(30, random_state=0).fit(rows, target, sample_weight=np.full(600, 2.0))
        assert not tw.importance(weighted, rows, target, sample_weight=np.full(600, 2.0)).notes
    assert len(fitted) == 2


def make_skewed(share, n_features=12):
    """Variances that grow with the scores as if this share of the gains were D, and the arguments of the regression."""
    rng = np.random.default_rng(0)
    gain, explained = rng.uniform(1, 3, n_features), rng.uniform(-0.2, 0.4, n_features)
    return 0.7 * gain**2 * (1 + explained / (share * gain)), explained, gain, rng.uniform(0.5, 1, n_features)


@pytest.mark.parametrize("share", [0.3, 0.8])
def test_the_share_of_the_gain_is_found_if_variances_are_proportional(share):
    common, explained, gain, useless = make_skewed(share)
    find = standard_errors._fit_share_of_gain
    assert find(common, explained, gain, useless) == pytest.approx(share)
    # Features that no split uses, or hardly any, do not count.
    unused = [np.append(own, [0.0, extreme]) for own, extreme in zip((common, explained), (9.0, 7.0), strict=True)]
    assert find(*unused, np.append(gain, [0.0, 1e-6]), np.append(useless, [0.0, 1.0])) == pytest.approx(share)
    noisy = common * np.random.default_rng(1).uniform(0.7, 1.3, len(common))
    assert share < find(noisy, explained, gain, useless) <= 1.0


def test_without_evidence_of_a_smaller_share_all_of_the_gain_counts():
    common, explained, gain, useless = make_skewed(0.3)
    find = standard_errors._fit_share_of_gain
    assert find(common[:2], explained[:2], gain[:2], useless[:2]) == 1.0  # two features determine any line
    assert find(common, -explained, gain, useless) == 1.0  # variances that fall as scores rise
    assert find(0.7 * gain**2, explained, gain, useless) == 1.0
    assert find(common, explained, 0.0 * gain, useless) == 1.0
    assert find(common, explained, gain, 0.0 * useless) == 1.0


def test_the_share_of_the_gain_makes_large_scores_more_significant(monkeypatch):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((400, 12))
    rare = (rng.random(400) < 0.05 * np.exp(rows[:, 0])).astype(float)
    forest = RandomForestRegressor(60, max_features=1 / 3, random_state=0).fit(rows, rare)
    result = tw.importance(forest, rows, rare)
    monkeypatch.setattr(standard_errors, "_fit_share_of_gain", lambda *_: 1.0)
    plain = tw.importance(forest, rows, rare)
    is_positive = result.values > 0
    assert (result.null_std_error[is_positive] < plain.null_std_error[is_positive]).all()
    assert (result.null_std_error[~is_positive] >= plain.null_std_error[~is_positive]).all()
    assert result.total_error == plain.total_error
    shares = []

    def keep(*parts):
        shares.append([part.copy() for part in parts])
        return 0.5

    monkeypatch.setattr(standard_errors, "_fit_share_of_gain", keep)
    half = tw.importance(forest, rows, rare)
    common, explained, gain, useless = shares[0]
    assert ((useless > 0) & (useless <= 1)).all()
    assert (explained * result.values >= 0).all()
    squares = 0.5 * gain + np.maximum(explained, -0.375 * gain)
    noise = result.per_tree.var(axis=0, ddof=1) / 60
    expected = (np.sqrt(common + noise) + np.sqrt(noise + common * 0.5 * gain / squares)) / 2
    np.testing.assert_allclose(half.null_std_error, expected, rtol=1e-9)


def spread_by_bags(built, scores, phi, psi, phi_a):
    """Standard error of one feature with ``inference="bags"``, as defined in docs/theory/standard_errors.md."""
    n_trees, n_rows = len(built.trees), len(phi)
    more, r = bags_by_loops(built, n_rows)
    spread, noise = scores - scores.mean(), scores.var(ddof=1) / n_trees
    both = noise + (phi**2).sum()
    for i in range(n_rows):
        C = sum(more[k, i] * spread[k] for k in range(n_trees)) / n_trees
        own = sum((more[k, i] * spread[k]) ** 2 for k in range(n_trees)) / n_trees**2
        both += 2 * phi[i] * (C + phi[i]) / r + ((C + phi[i]) ** 2 - own) / r**2
    return np.sqrt(max(both + noise / r**2, spread_by_loops(built, scores, phi, psi, phi_a) ** 2))


def spread_by_loops(built, scores, phi, psi, phi_a):
    """Standard error of one feature, from its definition in docs/theory/standard_errors.md."""
    n_trees, n_rows = len(built.trees), len(phi)
    noise = scores.var(ddof=1) / n_trees
    least = variance_by_loops(phi, psi, phi_a)
    twice = 4 * ((phi**2).sum() - noise) + noise
    if not psi.any():
        return np.sqrt(max((phi**2).sum() + noise, twice, least))
    more, bags = bags_by_loops(built, n_rows)
    owed = [sum(more[k, i] * psi[i] for i in range(n_rows)) for k in range(n_trees)]
    slope = np.mean(np.array(owed) * (scores - scores.mean())) + (phi * psi).sum() - bags * noise
    excess = slope / (bags * (psi**2).sum()) - 1
    kept = max(0.0, 1 - noise / (bags * (psi**2).sum()) / excess**2)
    growth = 1 + max(excess, 0.0) * kept
    return np.sqrt(max(((phi + growth * psi) ** 2).sum() + noise, twice, least))


@pytest.mark.parametrize("measure", MEASURES)
def test_boosted_trees_have_contributions_of_held_out_rows(measure, engine, monkeypatch):
    model = GradientBoostingRegressor(n_estimators=20, random_state=0).fit(X, X[:, 0] + X[:, 1] * X[:, 2])
    new = np.random.default_rng(1).standard_normal((90, 4))
    evaluation, training, result = contribute(monkeypatch, model, new, new[:, 0], rows="heldout", measure=measure)
    assert training is None
    np.testing.assert_allclose(evaluation.sum(axis=0), result.values, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(result.std_error, result.null_std_error)
    np.testing.assert_allclose(result.std_error, evaluation.std(axis=0) * np.sqrt(90), rtol=1e-12)


@pytest.mark.parametrize("make", [RandomForestClassifier, RandomForestRegressor])
def test_engines_and_threads_change_nothing(make, engines, monkeypatch):
    model = make(15, random_state=0).fit(X, y)
    results = {}
    for engine in engines:
        monkeypatch.setenv(ENGINE_VARIABLE, engine)
        results |= {(engine, n_jobs): tw.importance(model, X, y, n_jobs=n_jobs) for n_jobs in (1, 2, 4)}
    expected = results["numpy", 1]
    assert (expected.std_error > 0).all()
    for how, result in results.items():
        for name in ("values", "std_error", "null_std_error", "total_error"):
            np.testing.assert_array_equal(getattr(result, name), getattr(expected, name), err_msg=f"{name}, {how}")


def test_a_failing_batch_keeps_nobody_waiting(forest, monkeypatch):
    monkeypatch.setenv(ENGINE_VARIABLE, "numpy")
    read = trees.read_with_means

    def fail_first(job, trees):
        if trees.start == 0:
            raise RuntimeError("no such tree")
        return read(job, trees)

    monkeypatch.setattr(trees, "read_with_means", fail_first)
    monkeypatch.setattr(trees, "_BATCH_NODES", 1)
    with pytest.raises(RuntimeError, match="no such tree"):
        tw.importance(forest, X, y, n_jobs=4)


def test_rows_that_score_nothing_do_not_count():
    model = GradientBoostingRegressor(n_estimators=20, random_state=0).fit(X, X[:, 0])
    new = np.random.default_rng(1).standard_normal((90, 4))
    weight = np.repeat([1.0, 0.0], 45)
    part = tw.importance(model, new[:45], new[:45, 0], rows="heldout")
    weighted = tw.importance(model, new, new[:, 0], rows="heldout", sample_weight=weight)
    listed = tw.importance(model, new, new[:, 0], rows=[np.arange(45)] * 20, sample_weight=weight)
    for other in (weighted, listed):
        np.testing.assert_allclose(other.std_error, part.std_error, rtol=1e-12)


def test_few_rows_give_no_errors():
    model = GradientBoostingRegressor(n_estimators=20, random_state=0).fit(X, X[:, 0])
    result = tw.importance(model, X[:12] + 0.01, X[:12, 0], rows="heldout", contributions=True)
    assert np.isnan(result.p_value).all()
    assert result.contributions.shape == (12, 4)
    with pytest.raises(ValueError, match=r"\b20\b.*\b12\b"):
        result.interval()


def test_bags_widen_intervals_and_ask_for_trees():
    data = np.random.default_rng(2).integers(0, 2, (300, 6)).astype(float)
    target = (data[:, 0] != data[:, 1]) + 0.5 * np.random.default_rng(3).standard_normal(300)
    few = RandomForestRegressor(100, random_state=0).fit(data, target)
    with pytest.warns(UserWarning, match=r"inference='bags'.*\d+ trees.*\b100\b"):
        from_bags = tw.importance(few, data, target, inference="bags")
    default = tw.importance(few, data, target)
    assert (from_bags.std_error >= default.std_error).all()
    assert (from_bags.std_error[:2] > 1.5 * default.std_error[:2]).all()
    np.testing.assert_array_equal(from_bags.p_value, default.p_value)


def test_bags_are_for_training_rows(forest):
    with pytest.raises(ValueError, match="inference='bags'"):
        tw.importance(forest, X + 0.01, y, rows="heldout", inference="bags")
    with pytest.raises(ValueError, match=r"inference='bags'.*measure='mdi'"):
        tw.importance(forest, X, y, measure="mdi", inference="bags")
    with pytest.raises(ValueError, match=r"inference.*True, False.*'bags'.*'all'"):
        tw.importance(forest, X, y, inference="all")


@pytest.mark.filterwarnings("ignore:inference='bags' needs")
@pytest.mark.parametrize("n_trees", [1, 2, 5])
def test_bags_of_few_trees_give_finite_errors(n_trees):
    model = RandomForestRegressor(n_trees, random_state=0).fit(X, X[:, 0])
    result = tw.importance(model, X, X[:, 0], inference="bags")
    assert np.isfinite([result.std_error, result.null_std_error, result.p_value]).all()


@pytest.mark.filterwarnings("ignore:inference='bags' needs")
def test_a_single_bag_of_odd_weights_has_no_bag_effect():
    options = {"class_weight": {0: 1, 1: 0.3}, "sampling_strategy": "all", "replacement": True, "bootstrap": False}
    model = BalancedRandomForestClassifier(1, random_state=0, **options).fit(X, y)
    for inference in (True, "bags"):
        result = tw.importance(model, X, y, inference=inference)
        assert (result.null_std_error < 1).all()
        assert (result.std_error < 1).all()


@pytest.mark.filterwarnings("ignore:inference='bags' needs")
def test_blocks_of_rows_give_the_errors_of_all_bags(monkeypatch):
    model = RandomForestRegressor(10, random_state=0).fit(X, X[:, 0])
    whole = tw.importance(model, X, X[:, 0], inference="bags")
    monkeypatch.setattr(influence, "_MOST_WEIGHTS", 300)
    blocks = tw.importance(model, X, X[:, 0], inference="bags")
    for name in ("std_error", "null_std_error", "total_error"):
        np.testing.assert_allclose(getattr(blocks, name), getattr(whole, name), rtol=1e-10)


@pytest.mark.parametrize("rows", ["oob", "heldout"])
def test_blocks_of_rows_give_the_errors_of_all(rows, monkeypatch):
    data = np.random.default_rng(2).standard_normal((300, 3))
    target = data[:, 0] + np.random.default_rng(3).standard_normal(300)
    model = RandomForestRegressor(10, random_state=0).fit(data, target)
    data, target = (data, target) if rows == "oob" else (data + 0.01, target)
    options = {"rows": rows, "feature_groups": {"both": [0, 1]}, "contributions": True}
    whole = tw.importance(model, data, target, **options)
    for most_values in (3, 300, 500):
        monkeypatch.setattr(influence, "MOST_INFLUENCE_VALUES", most_values)
        blocks = tw.importance(model, data, target, **options)
        for one, other in ((blocks, whole), (blocks.expand(), whole.expand())):
            np.testing.assert_array_equal(one.values, other.values)
            np.testing.assert_allclose(one.contributions, other.contributions, rtol=1e-12, atol=1e-15)
            for name in ("std_error", "null_std_error", "total_error"):
                np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-10)


def test_identical_rows_show_nothing(engine):
    data = np.random.default_rng(2).standard_normal((100, 3))
    model = RandomForestClassifier(10, random_state=0).fit(data, data[:, 0] > 1)
    result = tw.importance(model, data + 0.01, np.zeros(100, dtype=bool), rows="heldout")
    np.testing.assert_array_equal(result.p_value, 1.0)
    assert result.total_p_value == 1.0


def test_lists_of_out_of_bag_rows_have_both_roles(forest):
    lists = [np.setdiff1d(np.arange(len(X)), bag) for bag in forest.estimators_samples_]
    listed, expected = tw.importance(forest, X, y, rows=lists), tw.importance(forest, X, y)
    for name in ("values", "std_error", "null_std_error", "total_error"):
        np.testing.assert_array_equal(getattr(listed, name), getattr(expected, name))
    assert listed.rows == "lists"


def test_features_without_splits_have_p_value_one():
    wide = np.column_stack([X, np.zeros(len(X))])
    result = tw.importance(RandomForestClassifier(20, random_state=0).fit(wide, y), wide, y)
    assert result.p_value[4] == 1.0
    assert result.z_score[4] == 0.0
    assert not result.select(alpha=0.99, correction=None)[4]


def test_p_values_and_intervals_follow_from_the_errors(forest):
    result = tw.importance(forest, X, y)
    np.testing.assert_allclose(result.z_score, result.values / result.null_std_error)
    np.testing.assert_allclose(result.p_value, stats.norm.sf(result.z_score))
    check_interval(result, 0.9)
    table = result.frame().set_index("feature")
    assert table.loc["x0", "p_value"] == result.p_value[0]
    np.testing.assert_array_equal(result.select(0.05, None), result.p_value <= 0.05)
    with pytest.raises(ValueError, match=r"level.*\b0\b.*\b1\b.*\b95\b"):
        result.interval(95)
    with pytest.raises(ValueError, match=r"alpha.*\b0\b.*\b1\b.*\b5\b"):
        result.select(alpha=5)


def check_interval(result, level):
    """At the ends the score is z standard deviations away, where the variance grows along a line from zero."""
    z = stats.norm.ppf((1 + level) / 2)
    for score, at_zero, at_score, low, high in zip(
        result.values, result.null_std_error, result.std_error, *result.interval(level), strict=True
    ):
        assert low < score < high
        assert (low > 0) == (score > z * at_zero)
        reach = max(score, z * at_zero)
        slope = (at_score**2 - at_zero**2) * max(score, 0) / reach**2
        for end in (low, high):
            assert (score - end) ** 2 == pytest.approx(z**2 * (at_zero**2 + slope * max(end, 0)), rel=1e-9)


def test_intervals_of_all_sizes(forest):
    result = tw.importance(forest, X, y)
    sizes = np.array([-5.0, -1.0, 0.0, 0.5, 1.5, 1.7, 3.0, 40.0])
    shown = replace(
        result,
        values=sizes,
        null_std_error=np.ones(8),
        std_error=np.array([1.5, 1.0, 2.0, 1.2, 1.4, 2.0, 3.0, 5.0]),
        feature_names=np.array(list("abcdefgh")),
    )
    check_interval(shown, 0.9)
    low, high = shown.interval(0.9)
    # far from zero the interval is the usual one, moved up a little
    assert high[-1] - low[-1] == pytest.approx(2 * 1.645 * 5.0, rel=0.01)
    held_out = replace(shown, std_error=np.ones(8))
    low, high = held_out.interval(0.9)
    np.testing.assert_allclose(high - sizes, stats.norm.ppf(0.95))
    np.testing.assert_allclose(sizes - low, stats.norm.ppf(0.95))


@pytest.mark.parametrize(
    ("measure", "reason"),
    [
        ("mdi", "rows"),
        ("loss_oob", "zero"),
        ("permutation", "rows"),
    ],
)
def test_other_measures_give_the_reason(forest, measure, reason):
    result = tw.importance(forest, X, y, measure=measure, random_state=0)
    assert np.isnan(result.std_error).all()
    for ask in (result.interval, result.adjusted_p_value, result.select):
        with pytest.raises(ValueError, match=f"measure='{measure}'.*{reason}"):
            ask()
    with pytest.raises(ValueError, match="inference=False"):
        tw.importance(forest, X, y, inference=False).select()


def test_a_measure_has_terms_or_a_reason():
    for name, measure in MEASURE_TABLE.items():
        has_terms = any((measure.row_terms, measure.forest_loss, measure.part_score))
        assert has_terms == (measure.why_no_inference is None), name


def test_adjusted_p_values():
    p = np.array([0.01, 0.04, 0.03, 0.5])
    np.testing.assert_allclose(adjust(p, "bh"), [0.04, 0.04 * 4 / 3, 0.04 * 4 / 3, 0.5])
    np.testing.assert_allclose(adjust(p, "by"), np.minimum(adjust(p, "bh") * (1 + 1 / 2 + 1 / 3 + 1 / 4), 1))
    np.testing.assert_allclose(adjust(p, "holm"), [0.04, 0.09, 0.09, 0.5])
    np.testing.assert_array_equal(adjust(p, None), p)
    with pytest.raises(ValueError, match=r"correction.*'bh', 'by', 'holm'.*None.*'bonferroni'"):
        adjust(p, "bonferroni")


def test_mirrored_p_values(forest):
    negative = -np.arange(1.0, 26.0)
    values = np.concatenate([negative, [0.0, 0.5, 25.5, 10.5]])
    p = janitza(values)
    assert p[25] == pytest.approx(27 / 52)  # zero: half of the null and itself are as large
    assert p[-2] == pytest.approx(1 / 52)
    assert p[-1] == pytest.approx(16 / 52)
    with pytest.raises(ValueError, match=r"\b20\b.*\b2\b"):
        janitza(np.array([1.0, -1.0, 0.0]))
    result = tw.importance(forest, X, y)
    spread = np.linspace(0.5, 2.0, len(values))
    wide = replace(result, values=values * spread, null_std_error=spread)
    np.testing.assert_allclose(wide.janitza_p_value(), p, rtol=1e-12)
    without = replace(wide, values=values, inference_unavailable="none was asked for")
    np.testing.assert_array_equal(without.janitza_p_value(), p)


@pytest.mark.statistical
def test_noise_is_rejected_as_often_as_it_should():
    # 60 data sets of 4 noise features: 240 tests at 5 %; 99.9 % of binomial counts lie within these bounds.
    rejected = 0
    for seed in range(60):
        own = np.random.default_rng(seed)
        table = np.column_stack([own.standard_normal((100, 2)), own.integers(0, 2, (100, 2))])
        target = own.integers(0, 2, 100)
        result = tw.importance(RandomForestClassifier(50, random_state=seed).fit(table, target), table, target)
        rejected += int((result.p_value <= 0.05).sum())
    assert 1 <= rejected <= stats.binom.ppf(0.999, 240, 0.07)


@pytest.mark.statistical
def test_a_model_of_noise_is_rejected_no_more_often_than_it_should():
    generator = np.random.default_rng(5)
    blind = []
    for _ in range(200):
        noise = generator.integers(0, 2, 120)
        model = RandomForestClassifier(20, max_depth=4, random_state=0).fit(X, noise)
        blind.append(tw.importance(model, X, noise).total_p_value)
    # 5 % of 200, with three standard errors above; too careful is no harm
    assert np.mean(np.array(blind) <= 0.05) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)


def test_all_features_together_test_the_model(forest):
    result = tw.importance(forest, X, y)
    assert result.total_p_value < 1e-4
    assert tw.importance(forest, X, y, feature_groups=["all"] * 4).p_value[0] == pytest.approx(
        result.total_p_value, rel=1e-9
    )
    assert np.isnan(tw.importance(forest, X, y, inference=False).total_p_value)


def test_expand_gives_single_columns_back(forest):
    result = tw.importance(forest, X, y)
    grouped = tw.importance(forest, X, y, feature_groups={"pair": [1, 3]})
    np.testing.assert_array_equal(grouped.expand().values, result.values)
    np.testing.assert_array_equal(grouped.expand().std_error, result.std_error)
    assert grouped.expand().feature_names.tolist() == result.feature_names.tolist()
    with pytest.raises(ValueError, match="expand"):
        result.expand()


def test_lists_without_any_row_are_refused():
    X = np.random.default_rng(0).standard_normal((60, 2))
    forest = RandomForestClassifier(3, random_state=0).fit(X, X[:, 0] > 0)
    with pytest.raises(ValueError, match="rows='heldout'"):
        tw.importance(forest, X, X[:, 0] > 0, rows=[[], [], []])


def test_a_single_tree_has_nothing_to_compare_its_bag_with(monkeypatch):
    model = RandomForestClassifier(1, random_state=0).fit(X, y)
    evaluation, training, result = contribute(monkeypatch, model, X, y)
    both = evaluation + training - 2 * result.values / len(X)
    np.testing.assert_allclose(result.std_error, np.sqrt((both**2).sum(axis=0)), rtol=1e-9)


def test_features_that_few_trees_use_or_that_matter_do_not_determine_the_average_noise():
    noise, error = np.array([0.1, 0.1, 1.0, 0.0, 0.0]), np.array([1.0, 1.0, 1e-3, 2.0, 0.0])
    assert average_tree_noise(noise, error, np.array([0.5, -0.5, 0.0, 1000.0, 0.0])) == pytest.approx(0.1, abs=1e-4)
    assert average_tree_noise(noise, 1e-200 * error, np.zeros(5)) == pytest.approx(
        1 - np.sqrt((2 * 0.81 + 4) / 6), rel=1e-4
    )
    assert np.isnan(average_tree_noise(np.zeros(2), np.zeros(2), np.zeros(2)))
    assert count_trees_needed(1 - np.sqrt(0.5), 100) == np.ceil(100 / (1 / 0.95**2 - 1))
    assert count_trees_needed(np.nan, 100) is None
    assert count_trees_needed(1.0, 100) is None


def test_more_trees_remove_the_noise_of_trees():
    few, many = (
        tw.importance(RandomForestClassifier(n_trees, random_state=0).fit(X, y), X, y) for n_trees in (25, 400)
    )
    noise = few.per_tree.var(axis=0, ddof=1) / 25
    assert (few.tree_noise > many.tree_noise).all()
    assert (few.tree_noise >= 1 - np.sqrt(1 - noise / few.std_error**2)).all()  # null errors are at most as large
    # Noise is inversely proportional to the number of trees: both forests ask for about as many.
    assert 0.4 < few.n_trees_needed / many.n_trees_needed < 2.5
    (caveat,) = [caveat for caveat in list_caveats(few, None) if caveat.heading == "Few trees"]
    assert "25" in caveat.text
    assert not [caveat for caveat in list_caveats(many, None) if caveat.heading == "Few trees"]
    held_out = tw.importance(RandomForestClassifier(25, random_state=0).fit(X, y), X + 0.01, y, rows="heldout")
    assert np.isnan(held_out.tree_noise).all()
    assert held_out.n_trees_needed is None
