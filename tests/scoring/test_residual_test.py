"""The residual test: scores with what other features predict taken out of y, against plain loops and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor

import truewood as tw
from helpers import oracle
from helpers.sklearn_models import build
from truewood._engines.selection import ENGINE_VARIABLE
from truewood._inference.p_values import find_p_value
from truewood._results.caveats import explain_intervals
from truewood._scoring import residual_test

pytestmark = pytest.mark.filterwarnings("ignore:.*max_samples=")


def draw(seed=0, n_rows=150):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, 5))
    return X, X[:, :3] @ [2.0, 1.0, 0.4] + rng.standard_normal(n_rows)


@pytest.fixture(scope="module")
def fitted():
    X, y = draw()
    return RandomForestRegressor(25, min_samples_leaf=3, max_features=0.5, random_state=0).fit(X, y), X, y


@pytest.mark.parametrize("name", ["rf", "rf-three-classes", "rfr", "rf-missing", "rf-csr"])
@pytest.mark.parametrize("groups", [[[0], [1], [2], [3]], [[0, 2], [1], [3]]])
def test_scores_of_residuals_are_those_of_plain_loops(name, groups, engine):
    del engine
    built = build(name, seed=5)
    feature_groups = {f"group {g}": group for g, group in enumerate(groups)}
    options = {"rows": built.rows, "measure": "ufi_centered"}
    result = tw.importance(
        built.model, built.X, built.y, feature_groups=feature_groups, inference="residual", **options
    )
    weight = dict(pair for tree in built.trees for pair in tree.evaluation)
    data = (built.dense, built.codes, built.n_classes)
    for g, group in enumerate(groups):
        residuals = oracle.leave_residuals(built.trees, *data, weight, group)
        per_tree = [oracle.score_residuals(tree, *data, residuals, group)[0] for tree in built.trees]
        assert result.residual_values[g] == pytest.approx(np.mean(per_tree), rel=1e-9, abs=1e-13)
    plain = tw.importance(built.model, built.X, built.y, feature_groups=feature_groups, **options)
    for part in ("values", "std_error", "null_std_error", "total_error"):
        np.testing.assert_array_equal(getattr(result, part), getattr(plain, part))
    assert (result.p_value != plain.p_value)[result.null_std_error > 0].all()


def test_held_out_errors_are_those_of_plain_loops(fitted, engine):
    del engine
    X, y = draw(1, 80)
    result = tw.importance(fitted[0], X, y, rows="heldout", inference="residual")
    trees = [
        oracle.OracleTree(tree.tree_, range(5), [(150 + row, n) for row, n in enumerate(bag) if n], every_row, [])
        for tree, bag in zip(fitted[0].estimators_, count_draws(fitted[0]), strict=True)
        for every_row in [[(row, 1.0) for row in range(80)]]
    ]
    # The in-bag rows have the numbers 150, 151, ...
    both = np.vstack([X, np.zeros((70, 5)), fitted[1]])
    target = np.concatenate([y, np.zeros(70), fitted[2]])[:, np.newaxis]
    for j in range(5):
        residuals = oracle.leave_residuals(trees, both, target, None, np.ones(300), [j])
        scored = [oracle.score_residuals(tree, both, target, None, residuals, [j]) for tree in trees]
        assert result.residual_values[j] == pytest.approx(np.mean([score for score, _ in scored]), rel=1e-9)
        phi = np.array([np.mean([added.get(row, 0.0) for _, added in scored]) for row in range(80)])
        assert result.residual_std_error[j] == pytest.approx(np.sqrt(((phi - phi.mean()) ** 2).sum()), rel=1e-9)
    np.testing.assert_array_equal(result.p_value, find_p_value(result.residual_values, result.residual_std_error))


def count_draws(forest):
    return [np.bincount(bag, minlength=150) for bag in forest.estimators_samples_]


@pytest.mark.parametrize("make", [RandomForestClassifier, RandomForestRegressor])
def test_engines_threads_and_batches_change_nothing(make, engines, monkeypatch):
    X, y = draw()
    model, results = make(15, random_state=0).fit(X, y > 0), {}
    for engine in engines:
        monkeypatch.setenv(ENGINE_VARIABLE, engine)
        results |= {
            (engine, n_jobs): tw.importance(model, X, y > 0, inference="residual", n_jobs=n_jobs) for n_jobs in (1, 3)
        }
    monkeypatch.setattr(residual_test, "_BATCH_NODES", 100)
    batched = tw.importance(model, X, y > 0, inference="residual")
    expected = results["numpy", 1]
    assert (expected.residual_std_error > 0).all()
    for name in ("residual_values", "residual_std_error"):
        for how, result in results.items():
            np.testing.assert_array_equal(getattr(result, name), getattr(expected, name), err_msg=f"{name}, {how}")
        np.testing.assert_allclose(getattr(batched, name), getattr(expected, name), rtol=1e-9)


@pytest.mark.kernel
def test_engines_agree_on_small_trees_and_held_out_rows():
    """Every row evaluates every tree: trees share blocks of rows. More rows than are summed together."""
    X, y = draw()
    forest = RandomForestRegressor(8, max_depth=2, random_state=0).fit(X, y)
    new, y_new = draw(1, 9000)
    first, *others = (
        tw.importance(forest, new, y_new, rows="heldout", inference="residual", engine=engine, n_jobs=n_jobs)
        for engine, n_jobs in (("numpy", 1), ("native", 1), ("native", 3))
    )
    for other in others:
        np.testing.assert_array_equal(other.residual_values, first.residual_values)
        np.testing.assert_array_equal(other.residual_std_error, first.residual_std_error)


def test_all_columns_as_one_feature_leave_y_as_it_is(fitted):
    """Without any column the prediction is a constant, so the score of residuals is the score."""
    options = {"feature_groups": {"all": range(5)}, "rows": "heldout"}
    X, y = draw(1, 80)
    result = tw.importance(fitted[0], X, y, inference="residual", **options)
    np.testing.assert_allclose(result.residual_values, result.values, rtol=1e-9)


def test_signals_of_other_features_are_taken_out(fitted):
    model, X, y = fitted
    result = tw.importance(model, X, y, inference="residual")
    # The second feature's test no longer counts the first one's signal, four times as large, as noise.
    assert result.residual_std_error[1] < 0.8 * result.null_std_error[1]
    assert result.z_score[1] > 1.2 * result.values[1] / result.null_std_error[1]


def test_groups_of_rows_and_files(fitted, tmp_path):
    model = fitted[0]
    new, y_new = draw(1, 120)
    labels = np.repeat(np.arange(30), 4)
    plain = tw.importance(model, new, y_new, rows="heldout", inference="residual")
    result = tw.importance(model, new, y_new, rows="heldout", groups=labels, inference="residual")
    np.testing.assert_array_equal(result.residual_values, plain.residual_values)
    assert (result.residual_std_error != plain.residual_std_error).all()
    result.save(tmp_path / "result.json")
    again = tw.load(tmp_path / "result.json")
    np.testing.assert_array_equal(again.p_value, result.p_value)
    np.testing.assert_array_equal(again.residual_std_error, result.residual_std_error)
    usual = tw.importance(model, new, y_new, rows="heldout")
    assert [any("residual test" in line for line in explain_intervals(one, 0.05)) for one in (usual, again)] == [0, 1]


def test_boosted_trees_of_one_raw_score():
    X, y = draw()
    new, y_new = draw(1, 120)
    model = GradientBoostingRegressor(n_estimators=40, max_depth=3, random_state=0).fit(X, y)
    plain = tw.importance(model, new, y_new, rows="heldout")
    result = tw.importance(model, new, y_new, rows="heldout", inference="residual")
    np.testing.assert_array_equal(result.values, plain.values)
    assert result.z_score[1] > 1.2 * plain.z_score[1]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"measure": "ufi"}, "ufi.*squares"),
        ({"measure": "sobol_mda"}, "sobol_mda"),
        ({"measure": "mdi"}, "mdi"),
        ({"measure": "mdi_oob"}, "mdi_oob"),
    ],
)
def test_what_cannot_be_tested_is_refused(fitted, options, reason):
    with pytest.raises(ValueError, match=rf"(?s)inference='residual'.*{reason}"):
        tw.importance(*fitted, inference="residual", **options)


def test_weights_that_may_depend_on_the_target_are_refused(fitted):
    """With bags that were drawn by such weights, useless features would be significant in most data sets."""
    X, y = draw(1, 120)
    weight = np.exp(0.5 * y)
    new = {"rows": "heldout", "inference": "residual"}
    match = r"inference='residual' is unavailable.*weights"
    with pytest.raises(ValueError, match=match):
        tw.importance(fitted[0], X, y, sample_weight=weight, **new)
    for measure in ("auto", "ufi_centered"):
        forest = RandomForestRegressor(10, random_state=0).fit(X, y, sample_weight=weight)
        with pytest.raises(ValueError, match=match):
            tw.importance(forest, X, y, sample_weight=weight, measure=measure, inference="residual")
    result = tw.importance(fitted[0], X, y, sample_weight=np.full(120, 2.0), **new)
    assert result.residual_values is not None


def test_tables_that_do_not_fit_are_refused(fitted, monkeypatch):
    monkeypatch.setattr(residual_test, "MOST_INFLUENCE_VALUES", 500)
    with pytest.raises(ValueError, match=r"inference='residual'.*750"):
        tw.importance(*fitted, inference="residual")


@pytest.mark.statistical
def test_noise_beside_a_strong_feature_is_rejected_as_often_as_it_should():
    p_values = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((200, 6))
        y = 3 * X[:, 0] + rng.standard_normal(200)
        forest = RandomForestRegressor(100, max_features=0.5, min_samples_leaf=3, random_state=seed).fit(X, y)
        p_values.append(tw.importance(forest, X, y, inference="residual").p_value[1:])
    # 300 tests at 5%: 15 expected, with a standard deviation of 4 over data sets
    assert 2 <= np.count_nonzero(np.array(p_values) <= 0.05) <= 27
