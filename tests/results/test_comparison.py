from __future__ import annotations

import json
import pickle
import re
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import same_color
from matplotlib.figure import Figure
from scipy.stats import norm
from sklearn.ensemble import (
    AdaBoostRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeRegressor

import truewood as tw
from helpers.messages import find_lacking
from truewood._plotting.style import BIASED, UNBIASED
from truewood._results.comparison_text import write_differences
from truewood._scoring import results

pytestmark = pytest.mark.any_engine

N_TRAIN, N_TEST = 150, 200


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N_TRAIN + 2 * N_TEST, 4))
    return X, X[:, 0] + 0.5 * X[:, 1] + 0.5 * rng.standard_normal(len(X))


def fit(rows, seed=0, **options):
    return RandomForestRegressor(20, min_samples_leaf=5, random_state=seed, **options).fit(
        rows[0][:N_TRAIN], rows[1][:N_TRAIN]
    )


def score(model, rows, part=0, **options):
    chosen = slice(N_TRAIN + part * N_TEST, N_TRAIN + (part + 1) * N_TEST)
    options = {"rows": "heldout", "contributions": options.get("inference", True)} | options
    return tw.importance(model, rows[0][chosen], rows[1][chosen], **options)


@pytest.fixture(scope="module")
def pair(rows):
    """A forest and one that sees a feature only, on the same held-out rows."""
    return score(fit(rows), rows), score(fit(rows, max_depth=2, max_features=1), rows)


def test_differences_of_the_same_rows_have_the_spread_of_their_rows(pair):
    a, b = pair
    comparison = tw.compare(a, b)
    rows = a.contributions - b.contributions
    np.testing.assert_allclose(comparison.difference, rows.sum(axis=0), atol=1e-12)
    np.testing.assert_allclose(comparison.std_error, np.sqrt(len(rows)) * rows.std(axis=0), rtol=1e-12)
    assert comparison.is_paired
    assert comparison.p_value[0] < 0.001
    assert "paired" in comparison.describe()
    # Rows that score high in one do so in the other: independence would be the wrong answer.
    assert comparison.std_error[0] < tw.compare(a, b, same_rows=False).std_error[0]


def test_variances_of_different_rows_add_up(rows):
    forest = fit(rows)
    a, b = (score(forest, rows, part, inference=True) for part in (0, 1))
    comparison = tw.compare(a, b, same_rows=False)
    np.testing.assert_array_equal(comparison.difference, a.values - b.values)
    np.testing.assert_allclose(comparison.std_error, np.hypot(a.std_error, b.std_error), rtol=1e-15)
    np.testing.assert_allclose(comparison.p_value, 2 * norm.sf(np.abs(comparison.difference / comparison.std_error)))
    assert "independent" in comparison.describe()
    # Pairing rows that have nothing to do with each other does no harm.
    paired = tw.compare(*(score(forest, rows, part) for part in (0, 1)))
    np.testing.assert_allclose(paired.std_error, comparison.std_error, rtol=0.25)


def test_other_numbers_of_rows_are_other_rows(rows):
    forest = fit(rows)
    X, y = rows
    a, b = (tw.importance(forest, X[k:], y[k:], rows="heldout") for k in (N_TRAIN, N_TRAIN + 100))
    assert not tw.compare(a, b).is_paired
    with pytest.raises(ValueError, match=r"same_rows=True.*\b400\b.*\b300\b"):
        tw.compare(a, b, same_rows=True)


def test_seeds_differ_by_forest_noise(rows):
    X, y = rows[0][:N_TRAIN], rows[1][:N_TRAIN]
    a, b = (tw.importance(fit(rows, seed), X, y, contributions=True) for seed in (1, 2))
    noise = [result.per_tree.var(axis=0, ddof=1) / result.n_trees for result in (a, b)]
    error = tw.compare(a, b).std_error
    assert (error >= np.sqrt(np.sum(noise, axis=0)) * (1 - 1e-12)).all()
    assert (error < np.hypot(a.std_error, b.std_error)).all()


@pytest.fixture(scope="module")
def weighted(rows):
    """AdaBoost, whose trees count by weights of their own, scored by row lists; the last tree has none."""
    X, y = rows
    model = AdaBoostRegressor(DecisionTreeRegressor(max_depth=3), n_estimators=8, random_state=0).fit(
        X[:N_TRAIN], y[:N_TRAIN]
    )
    lists = [np.arange(N_TRAIN, len(X))[k::3] for k in range(7)] + [np.array([], dtype=int)]
    with pytest.warns(UserWarning, match="1 of 8 trees"):
        return model, tw.importance(model, X, y, rows=lists, contributions=True)


def test_forest_noise_goes_by_the_weights_of_the_trees(weighted):
    model, result = weighted
    weight = model.estimator_weights_[:7] / model.estimator_weights_[:7].sum()
    assert weight.max() > 1.2 * weight.min()
    np.testing.assert_allclose(weight @ result.per_tree[:7], result.values, rtol=1e-12)
    squares = (weight**2) @ (result.per_tree[:7] - result.values) ** 2
    # Rows of a result are the same as its own, so that forest noise is all that is left, once for either side.
    np.testing.assert_allclose(
        tw.compare(result, result).std_error ** 2, 2 * squares / (1 - (weight**2).sum()), rtol=1e-10
    )


def test_errors_and_comparisons_take_the_same_forest_noise(rows, monkeypatch):
    X, y = rows[0][:N_TRAIN], rows[1][:N_TRAIN]
    taken, measure = [], results.measure_errors

    def measure_errors(moments, scores, *args, **options):
        taken.append(scores)
        return measure(moments, scores, *args, **options)

    monkeypatch.setattr(results, "measure_errors", measure_errors)
    result = tw.importance(fit(rows), X, y, contributions=True)
    np.testing.assert_array_equal(tw.compare(result, result).std_error, np.sqrt(2 * taken[0].forest_noise[0]))


def test_weights_of_trees_are_saved(weighted, tmp_path):
    _, result = weighted
    result.save(tmp_path / "result.json")
    loaded = tw.load(tmp_path / "result.json")
    np.testing.assert_array_equal(loaded.tree_weight, result.tree_weight)
    np.testing.assert_array_equal(tw.compare(loaded, loaded).std_error, tw.compare(result, result).std_error)
    content = json.loads((tmp_path / "result.json").read_text())
    for broken in ([1.0] * 7, [-1.0] + [1.0] * 7, [0.0] * 8, "many"):
        (tmp_path / "broken.json").write_text(json.dumps(content | {"tree_weight": broken}))
        with pytest.raises(ValueError, match="tree_weight"):
            tw.load(tmp_path / "broken.json")


def test_trees_that_add_up_have_no_forest_noise(rows):
    X, y = rows
    model = GradientBoostingRegressor(n_estimators=6, random_state=0).fit(X[:N_TRAIN], y[:N_TRAIN])
    result = tw.importance(model, X, y, rows=[np.arange(N_TRAIN, len(X))] * 6, contributions=True)
    assert result.tree_weight is None
    np.testing.assert_array_equal(tw.compare(result, result).std_error, 0.0)


def test_a_result_does_not_differ_from_itself(pair):
    comparison = tw.compare(pair[0], pair[0])
    assert (comparison.difference == 0).all()
    assert (comparison.p_value == 1).all()
    forest = pair[0]
    swapped = tw.compare(*pair), tw.compare(*pair[::-1])
    np.testing.assert_array_equal(swapped[0].difference, -swapped[1].difference)
    np.testing.assert_array_equal(swapped[0].p_value, swapped[1].p_value)
    np.testing.assert_array_equal(tw.compare(*pair).values_a, forest.values)


def test_features_are_matched_by_name(pair):
    a, b = pair
    turned = [3, 1, 0, 2]
    moved = replace(
        b,
        **{name: getattr(b, name)[turned] for name in ("values", "share", "mdi", "std_error", "feature_names")},
        **{name: getattr(b, name)[:, turned] for name in ("per_tree", "per_output", "contributions")},
    )
    np.testing.assert_array_equal(tw.compare(a, moved).difference, tw.compare(a, b).difference)
    np.testing.assert_array_equal(tw.compare(a, moved).std_error, tw.compare(a, b).std_error)


def test_a_forest_and_boosted_numbers_are_on_one_scale(rows, pair):
    boosted = GradientBoostingRegressor(n_estimators=20, random_state=0).fit(rows[0][:N_TRAIN], rows[1][:N_TRAIN])
    comparison = tw.compare(pair[0], score(boosted, rows))
    assert comparison.is_paired
    assert not comparison.is_additive


def test_what_cannot_be_compared_is_refused_with_the_reason(rows, pair):
    a, b = pair
    X, y = rows
    boosted = GradientBoostingClassifier(n_estimators=5, random_state=0).fit(X[:N_TRAIN], y[:N_TRAIN] > 0)
    wrong = [
        (replace(b, contributions=None), ["200 rows"]),
        (score(fit(rows), rows, measure="ufi"), ["measure", "'ufi_centered' and 'ufi'"]),
        (score(boosted, (X, y > 0)), ["task", "'regression' and 'classification'"]),
        (replace(b, share=np.full(4, np.nan), is_additive=True), ["scales"]),
        (tw.importance(fit(rows), X[:N_TRAIN], y[:N_TRAIN], contributions=True), ["rows", "'heldout' and 'oob'"]),
        (
            score(fit(rows), rows, feature_groups={"both": ["x0", "x1"]}),
            ["4", "3", "'x0'", "the same feature_groups="],
        ),
        (replace(b, feature_names=np.array(["x0", "x1", "x2", "x2"])), ["'x3'"]),
        (score(fit(rows), rows, inference=False), ["b", "inference=False"]),
    ]
    for other, words in wrong:
        with pytest.raises(ValueError, match="a") as refused:
            tw.compare(a, other)
        assert not find_lacking(str(refused.value), *words)
        assert "\n" not in str(refused.value)
        with pytest.raises(ValueError, match=r"\bJune\b") as refused:
            tw.compare(a, other, names=("May", "June"))
        assert not re.search(r"\ba and b\b", str(refused.value))
    with pytest.raises(TypeError, match="b must be an ImportanceResult, got dict"):
        tw.compare(a, {})
    with pytest.raises(ValueError, match=r"^names\b.*'ab'"):
        tw.compare(a, b, names="ab")
    with pytest.raises(ValueError, match=r"^same_rows\b.*'x'"):
        tw.compare(a, b, same_rows="x")


def test_table_and_text_have_the_largest_differences_first(pair):
    comparison = tw.compare(*pair, names=("deep", "flat\n"))
    table = comparison.frame()
    assert list(table) == [
        "feature", "difference", "std_error", "ci_low", "ci_high", "p_value", "adjusted_p_value", "importance_a",
        "importance_b",
    ]  # fmt: skip
    assert (np.diff(np.abs(table["difference"])) <= 0).all()
    np.testing.assert_allclose(table["importance_a"] - table["importance_b"], table["difference"], atol=1e-15)
    np.testing.assert_array_equal(table["adjusted_p_value"], comparison.adjusted_p_value("bh")[comparison.order])
    assert re.match(r"Comparison: deep \w+ flat\\n, ufi_centered .*200 ", repr(comparison))
    heading, first = repr(comparison).splitlines()[1:3]
    assert heading.split() == ["feature", "difference", "95%", "CI", "adjusted", "p", "in", "deep", "in", "flat\\n"]
    values = [
        f"{table[name][0]:{sign}.3f}" for name, sign in (("difference", "+"), ("importance_a", ""), ("ci_low", ""))
    ]
    assert not find_lacking(first, table["feature"][0], *values)
    assert ("*" in first) == (table["adjusted_p_value"][0] <= 0.05)
    low, high = comparison.interval(0.9)
    np.testing.assert_allclose((high - low) / comparison.std_error, 2 * norm.isf(0.05))
    with pytest.raises(ValueError, match=r"level.*\b0\b.*\b1\b"):
        comparison.interval(1)


def test_the_smallest_significant_difference_and_its_interval_have_digits(pair, tmp_path):
    # If 2,500 set the decimals, the significant 0.43 would print as 0, with an interval from 0 to 1.
    comparison = replace(
        tw.compare(*pair),
        difference=np.array([2500.0, -800.0, 0.43, 0.02]),
        std_error=np.array([10.0, 10.0, 0.1, 1.0]),
    )
    assert (comparison.adjusted_p_value() <= 0.05).tolist() == [True, True, True, False]
    line = next(line for line in repr(comparison).splitlines() if "+0.4" in line)
    assert not find_lacking(line, "+0.430", "0.234 to 0.626", "*")
    assert not find_lacking(comparison._repr_html_(), "+2,500.000", "+0.430", "0.234 to 0.626")
    # At a lower level, the small difference is not significant and needs no digits.
    cells = write_differences(comparison, 1e-6)
    assert cells["difference"] == ["+2,500", "-800", "0", "0"]
    # Rounding errors that count as significant do not widen the table without limit.
    noise = replace(comparison, difference=np.array([2500.0, 1e-13, 0, 0]), std_error=np.array([1.0, 1e-15, 1, 1]))
    assert write_differences(noise, 0.05)["difference"][:2] == ["+2,500.00000", "0"]


def test_arrays_cannot_be_written_into(pair):
    for comparison in (tw.compare(*pair), pickle.loads(pickle.dumps(tw.compare(*pair)))):
        with pytest.raises(ValueError, match="read-only"):
            comparison.difference[0] = 1.0


def test_picture_shows_what_differs_and_which_way(pair):
    comparison = tw.compare(*pair, names=("deep", "flat"))
    ax = Figure().subplots()
    assert comparison.plot(ax=ax, top=3) is ax
    is_found = comparison.adjusted_p_value() <= 0.05
    n_found = np.count_nonzero(is_found)
    assert n_found > 0
    assert not find_lacking(ax.get_title(), f"{n_found} of 4 features")
    assert re.search(r"\b3\b.* of 4\b", ax.get_title())
    assert not find_lacking(ax.get_xlabel(), "importance, deep minus flat", "(centered UFI)")
    order = comparison.order[:3]
    np.testing.assert_array_equal(ax.collections[1].get_offsets()[:, 0], comparison.difference[order])
    for j, color in zip(order, ax.collections[1].get_edgecolors(), strict=True):
        if is_found[j]:
            assert same_color(color, UNBIASED if comparison.difference[j] > 0 else BIASED)
    assert [text.get_text().split()[-1] for text in ax.get_legend().get_texts()][:2] == ["deep", "flat"]
    with pytest.raises(ValueError, match=r"top.*\b1\b"):
        comparison.plot(top=0)


def test_report_names_what_differs(pair, tmp_path):
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    comparison = tw.compare(*pair, names=("<b>deep</b>", "flat"))
    comparison.report(tmp_path / "report.html", notes=["A note."])
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert re.search("&lt;b&gt;deep&lt;/b&gt; .*flat", page)
    assert re.search("&lt;b&gt;deep&lt;/b&gt;: x", page)
    assert "<b>deep</b>" not in page
    assert "A note." in page
    with pytest.raises(TypeError, match="notes"):
        comparison.report(tmp_path / "report.html", notes="A note.")
