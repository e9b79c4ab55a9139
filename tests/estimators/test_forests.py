"""The drop-in forests: scikit-learn's own in all but their importances."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import truewood as tw
from truewood._sklearn_compat import SKLEARN_VERSION

FORESTS = {
    tw.UnbiasedRandomForestClassifier: RandomForestClassifier,
    tw.UnbiasedRandomForestRegressor: RandomForestRegressor,
    tw.UnbiasedExtraTreesClassifier: ExtraTreesClassifier,
    tw.UnbiasedExtraTreesRegressor: ExtraTreesRegressor,
}
CLASSIFIERS = [tw.UnbiasedRandomForestClassifier, tw.UnbiasedExtraTreesClassifier]

rng = np.random.default_rng(0)
X = rng.standard_normal((80, 5))
y = (X[:, 2] + 0.3 * rng.standard_normal(80) > 0).astype(int)
WEIGHT = rng.integers(1, 4, size=80).astype(float)


@pytest.fixture(params=FORESTS, ids=lambda ours: ours.__name__)
def ours(request):
    return request.param


NOT_REPEATED = "as in scikit-learn: a row of weight 2 has one place in the draw of a bag, a repeated row has two"
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": NOT_REPEATED,
    "check_sample_weight_equivalence_on_sparse_data": NOT_REPEATED,
}

if SKLEARN_VERSION >= (1, 6):  # before, expected failures had no public place
    CHECKS = parametrize_with_checks(
        [ours(n_estimators=5) for ours in FORESTS], expected_failed_checks=lambda _forest: EXPECTED_FAILURES
    )

    # Checks fit to a handful of rows. Old releases give a generator of checks, which pytest is about to refuse.
    @pytest.mark.filterwarnings("ignore:.* of \\d+ trees", "ignore:.*max_samples=")
    @pytest.mark.parametrize(CHECKS.args[0], list(CHECKS.args[1]), **CHECKS.kwargs)
    def test_forests_are_estimators_of_scikit_learn(estimator, check):
        check(estimator)


def test_parameters_are_those_of_scikit_learn(ours):
    expected = FORESTS[ours]().get_params() | {"bootstrap": True}
    assert ours().get_params() == expected
    assert list(inspect.signature(ours).parameters) == list(inspect.signature(FORESTS[ours]).parameters)
    assert ours(7, max_depth=3).n_estimators == 7
    assert clone(ours(bootstrap=False)).bootstrap is False
    assert "bootstrap" not in repr(ours())


@pytest.mark.parametrize(
    "options",
    [{}, {"max_depth": 3, "n_jobs": 2}, {"oob_score": True, "n_estimators": 40}, {"max_samples": 0.5}],
    ids=str,
)
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
def test_trees_and_predictions_are_those_of_scikit_learn(ours, options, weight):
    options = {"n_estimators": 8, "random_state": 0, "bootstrap": True} | options
    model, parent = ours(**options).fit(X, y, weight), FORESTS[ours](**options).fit(X, y, weight)
    np.testing.assert_array_equal(model.apply(X), parent.apply(X))
    # scikit-learn's threads add up the trees in any order.
    np.testing.assert_allclose(model.predict(X), parent.predict(X), rtol=1e-12)
    assert getattr(model, "oob_score_", None) == getattr(parent, "oob_score_", None)
    expected = tw.importance(parent, X, y, sample_weight=weight)
    np.testing.assert_array_equal(model.unbiased_importances_, expected.values)
    np.testing.assert_array_equal(model.importance_result_.p_value, expected.p_value)
    assert model.importance_result_.rows == "oob"


def test_importances_are_scores_clipped_at_zero(ours):
    model = ours(n_estimators=20, random_state=0).fit(X, y)
    raw = model.unbiased_importances_
    assert raw.min() < 0 < raw.max()
    np.testing.assert_array_equal(model.feature_importances_, np.where(raw < 0, 0.0, raw))
    assert model.feature_importances_.argmax() == 2
    assert model.feature_importances_.sum() != pytest.approx(1.0)


class _RawScores(tw.UnbiasedRandomForestClassifier):
    """What happens without clipping."""

    @property
    def feature_importances_(self):
        return self.unbiased_importances_


def test_selectors_of_scikit_learn_would_keep_negative_scores():
    # Noise only, of a seed whose largest score is a negative one.
    rng = np.random.default_rng(13)
    noise, labels = rng.standard_normal((60, 6)), rng.integers(2, size=60)
    raw = _RawScores(30, random_state=0).fit(noise, labels)
    lowest = int(raw.unbiased_importances_.argmin())
    assert np.abs(raw.unbiased_importances_).argmax() == lowest

    clipped = tw.UnbiasedRandomForestClassifier(30, random_state=0)
    for selector in (SelectFromModel, RFE):
        options = {"n_features_to_select": 1, "step": 5} if selector is RFE else {}
        assert selector(clone(raw), **options).fit(noise, labels).get_support()[lowest]
        assert not selector(clipped, **options).fit(noise, labels).get_support()[lowest]


def test_no_bootstrap_is_one_clear_error(ours):
    with pytest.raises(ValueError, match=rf"bootstrap.*True.*{ours.__name__}.*False.*heldout"):
        ours(bootstrap=False).fit(X, y)


def test_asking_before_the_fit(ours):
    for name in ("feature_importances_", "unbiased_importances_", "importance_result_"):
        assert not hasattr(ours(), name)
        with pytest.raises(NotFittedError):
            getattr(ours(), name)


def test_rows_too_few_to_score_do_not_break_the_fit(ours):
    model = ours(n_estimators=3).fit([[1.0]], [1])
    np.testing.assert_array_equal(model.predict([[1.0]]), [1])
    for name in ("feature_importances_", "unbiased_importances_", "importance_result_"):
        with pytest.raises(ValueError, match=r"no importances.*rows='heldout'"):
            getattr(model, name)
        assert not hasattr(model, name)
    assert "predict" in dir(model)  # scikit-learn's looks at every attribute
    assert len(pickle.loads(pickle.dumps(model)).estimators_) == 3
    # A later fit on more rows forgets the problem, and one on fewer forgets the scores.
    assert model.fit(X, y).unbiased_importances_.shape == (5,)
    model.fit([[1.0]], [1])
    with pytest.raises(ValueError, match="no importances"):
        model.feature_importances_  # noqa: B018


def test_trees_without_evaluation_rows_warn(ours):
    few = [[0.0], [1.0]], [0, 1]
    with pytest.warns(UserWarning, match=r"\d+ of 20 trees"):
        ours(n_estimators=20, random_state=0).fit(*few)


def test_warm_start_scores_all_trees(ours):
    model = ours(n_estimators=4, warm_start=True, random_state=0).fit(X, y)
    model.set_params(n_estimators=9).fit(X, y)
    assert model.importance_result_.n_trees == 9
    at_once = ours(n_estimators=9, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.unbiased_importances_, at_once.unbiased_importances_)


def test_warm_start_on_other_rows_has_no_importances(ours):
    model = ours(n_estimators=4, warm_start=True, random_state=0).fit(X[:40], y[:40])
    model.set_params(n_estimators=9).fit(X, y)
    assert len(model.estimators_) == 9
    with pytest.raises(ValueError, match=r"no importances.*rows='oob'.*X and y"):
        model.feature_importances_  # noqa: B018


def test_clones_and_pickles(ours):
    model = ours(n_estimators=6, random_state=0).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.unbiased_importances_, model.unbiased_importances_)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    copy = clone(model)
    assert not hasattr(copy, "importance_result_")
    np.testing.assert_array_equal(copy.fit(X, y).unbiased_importances_, model.unbiased_importances_)


@pytest.mark.parametrize("ours", CLASSIFIERS)
@pytest.mark.parametrize("class_weight", ["balanced", "balanced_subsample", {"a": 1.0, "b": 5.0}], ids=str)
def test_class_weight(ours, class_weight):
    labels = np.array(["a", "b"])[y]
    model = ours(n_estimators=6, class_weight=class_weight, random_state=0).fit(X, labels)
    assert model.unbiased_importances_.argmax() == 2


def test_several_outputs_and_containers(ours):
    several = np.column_stack([y, X[:, 0] > 0])
    model = ours(n_estimators=20, random_state=0).fit(X, several)
    assert model.importance_result_.per_output.shape == (2, 5)
    assert set(np.argsort(model.unbiased_importances_)[-2:]) == {0, 2}

    dense = ours(n_estimators=6, random_state=0).fit(X, y)
    for container in (sparse.csr_array, sparse.csc_array):
        model = ours(n_estimators=6, random_state=0).fit(container(X), y)
        np.testing.assert_array_equal(model.unbiased_importances_, dense.unbiased_importances_)
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = ours(n_estimators=6, random_state=0).fit(frame, pd.Series(y))
    assert model.importance_result_.feature_names.tolist() == list("abcde")


def test_missing_values_are_scored_where_trees_send_them_one_way():
    holes = X.copy()
    holes[::7, 1] = np.nan
    model = tw.UnbiasedRandomForestClassifier(6, random_state=0).fit(holes, y)
    if SKLEARN_VERSION >= (1, 8):
        assert model.unbiased_importances_.argmax() == 2
    else:
        with pytest.raises(ValueError, match=r"no importances.*\bX\b.*NaN"):
            model.feature_importances_  # noqa: B018


def test_the_view_of_a_fitted_forest_has_its_scores(ours):
    frame = pd.DataFrame(X, columns=list("abcde")).rename(columns={"c": "<c>"})
    model = ours(n_estimators=6, random_state=0)
    assert "p-value" not in model._repr_mimebundle_()["text/html"]
    page = model.fit(frame, y)._repr_mimebundle_()["text/html"]
    assert page.endswith(model.importance_result_._repr_html_())
    assert "&lt;c&gt;" in page
    assert model._repr_html_().endswith(model.importance_result_._repr_html_())
    assert "No importances" in model.fit([[1.0]], [1])._repr_html_()


def test_weights_are_routed_to_a_forest_that_requests_them(ours):
    with sklearn.config_context(enable_metadata_routing=True):
        model = ours(n_estimators=6, random_state=0)
        pipeline = make_pipeline(StandardScaler(), model)
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            pipeline.fit(X, y, sample_weight=WEIGHT)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, model.set_fit_request(sample_weight=True)).fit(X, y, sample_weight=WEIGHT)
        assert clone(model).get_metadata_routing().fit.requests == {"sample_weight": True}
    expected = ours(n_estimators=6, random_state=0).fit(StandardScaler().fit_transform(X), y, WEIGHT)
    np.testing.assert_array_equal(pipeline[1].unbiased_importances_, expected.unbiased_importances_)
