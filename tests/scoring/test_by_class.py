"""Scores by class against the oracle, and what must hold of their sums and errors."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)

import truewood as tw
from helpers.oracle import score_class
from helpers.sklearn_models import CASES, build, score_built, supported_cases
from truewood._engines.selection import ENGINE_VARIABLE
from truewood._measures.registry import MEASURES

CLASSIFIERS = [name for name in supported_cases() if CASES[name].is_classifier]
PARTED = [name for name, measure in MEASURES.items() if measure.split_score is not None]


@pytest.mark.filterwarnings("ignore:.*max_samples=")  # 60 rows leave few of a class out
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classes_agree_with_the_oracle(name, engines, monkeypatch):
    built = build(name, 0)
    labels = [(o, k) for o, n_classes in enumerate(built.n_classes) for k in range(n_classes)]
    for measure in PARTED:
        results = []
        for engine in engines:
            monkeypatch.setenv(ENGINE_VARIABLE, engine)
            results.append(score_built(built, measure, per_class=True))
        for result in results[1:]:
            np.testing.assert_array_equal(result.per_class, results[0].per_class)
            np.testing.assert_array_equal(result.classes.std_error, results[0].classes.std_error)
        data = (built.trees, built.dense, built.codes, built.n_classes)
        expected = [score_class(measure, *data, output, label) for output, label in labels]
        np.testing.assert_allclose(results[0].per_class, expected, rtol=1e-12, atol=1e-12, err_msg=measure)
        np.testing.assert_allclose(results[0].per_class.sum(axis=0), results[0].values, rtol=1e-10, atol=1e-13)


def draw(n_rows, n_classes, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, 6))
    return X, (X[:, :n_classes] + 0.5 * rng.standard_normal((n_rows, n_classes))).argmax(axis=1)


@pytest.mark.parametrize("measure", ["ufi_centered", "mdi_oob"])
@pytest.mark.parametrize("rows", ["oob", "heldout"])
def test_two_classes_have_half_of_the_score_and_of_its_errors_each(measure, rows):
    # What is more of one class is less of the other: both have the same part, row by row.
    X, y = draw(300, 2)
    forest = RandomForestClassifier(20, min_samples_leaf=5, random_state=0).fit(X, y)
    X, y = (X, y) if rows == "oob" else draw(200, 2, seed=1)
    result = tw.importance(forest, X, y, rows=rows, measure=measure, per_class=True)
    # Of mdi_oob out of bag, the origin of what training rows contribute is another one for a class alone.
    tolerance = 0.05 if (measure, rows) == ("mdi_oob", "oob") else 1e-9
    for name in ("values", "std_error", "null_std_error"):
        for part in getattr(result.classes, name):
            np.testing.assert_allclose(2 * part, getattr(result, name), rtol=1e-9 if name == "values" else tolerance)


def test_a_class_of_boosted_trees_has_the_trees_of_its_raw_score():
    X, y = draw(400, 3)
    new_X, new_y = draw(200, 3, seed=1)
    for model in (
        GradientBoostingClassifier(n_estimators=5, random_state=0),
        HistGradientBoostingClassifier(max_iter=5, random_state=0),
    ):
        result = tw.importance(model.fit(X, y), new_X, new_y, rows="heldout", per_class=True)
        np.testing.assert_allclose(result.per_class, result.per_output, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(result.per_class.sum(axis=0), result.values, rtol=1e-10)
        # A class alone is what is left when the target of all others is zero.
        gradient = (new_y[:, np.newaxis] == np.arange(3)) - np.bincount(new_y) / len(new_y)
        for k in range(3):
            alone = tw.importance(model, new_X, new_y, rows="heldout", target=gradient * (np.arange(3) == k))
            np.testing.assert_allclose(result.per_class[k], alone.per_output[k], rtol=1e-9, atol=1e-12)
            if isinstance(model, HistGradientBoostingClassifier):
                np.testing.assert_allclose(result.classes.null_std_error[k], alone.null_std_error, rtol=1e-9)


def test_groups_and_tables():
    X, y = draw(200, 3)
    forest = RandomForestClassifier(10, random_state=0).fit(X, np.array(["a", "b", "c"])[y])
    result = tw.importance(forest, X, np.array(["a", "b", "c"])[y], feature_groups={"both": [0, 1]}, per_class=True)
    np.testing.assert_allclose(result.per_class[:, 0], result.expand().per_class[:, :2].sum(axis=1), rtol=1e-12)
    table = result.frame(per_class=True)
    assert table["feature"][:3].tolist() == [result.feature_names[result.order[0]]] * 3
    assert table["class"][:4].tolist() == ["a", "b", "c", "a"]
    np.testing.assert_array_equal(table["importance"][:3], result.per_class[:, result.order[0]])
    assert (table["ci_low"] <= table["importance"]).all()
    assert (table["ci_high"] >= table["importance"]).all()
    plain = tw.importance(forest, X, np.array(["a", "b", "c"])[y], inference=False, per_class=True)
    assert plain.frame(per_class=True).columns.tolist() == ["feature", "class", "importance"]


def test_models_without_classes_are_refused():
    X, y = draw(200, 2)
    forest = RandomForestClassifier(5, random_state=0).fit(X, y)
    assert tw.importance(forest, X, y).per_class is None
    with pytest.raises(ValueError, match=r"by class|per.class"):
        tw.importance(forest, X, y).frame(per_class=True)
    with pytest.raises(ValueError, match="measure='permutation'"):
        tw.importance(forest, X, y, measure="permutation", per_class=True)
    regressor = RandomForestRegressor(5, random_state=0).fit(X, X[:, 0])
    with pytest.raises(ValueError, match=r"classifier.*RandomForestRegressor"):
        tw.importance(regressor, X, X[:, 0], per_class=True)
    boosted = GradientBoostingClassifier(n_estimators=3, random_state=0).fit(X[:100], y[:100])
    with pytest.raises(ValueError, match=r"GradientBoostingClassifier.*\b1\b.*\b2\b"):
        tw.importance(boosted, X[100:], y[100:], rows="heldout", per_class=True)
