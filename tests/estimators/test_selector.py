"""The selector: a transformer of scikit-learn that keeps what is significant."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_diabetes
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder
from sklearn.utils.estimator_checks import parametrize_with_checks

import truewood as tw
from truewood.compat import SKLEARN_VERSION

rng = np.random.default_rng(0)
X = rng.standard_normal((120, 6))
y = (X[:, 1] - X[:, 4] > 0).astype(int)
FOREST = RandomForestClassifier(40, random_state=0)
CHOSEN = [1, 4]


@pytest.fixture
def few_trees(monkeypatch):
    monkeypatch.setattr("truewood.estimators.selector._N_TREES", 20)


NOT_REPEATED = "a copy of a row in the bag is no unseen row, so that repeated rows make noise significant"
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": NOT_REPEATED,
    "check_sample_weight_equivalence_on_sparse_data": NOT_REPEATED,
}

if SKLEARN_VERSION >= (1, 6):  # before, expected failures had no public place
    CHECKS = parametrize_with_checks(
        [
            tw.UnbiasedSelector(),
            tw.UnbiasedSelector(k=1),
            tw.UnbiasedSelector(ExtraTreesClassifier(10, bootstrap=True), k=1),
        ],
        expected_failed_checks=lambda _selector: EXPECTED_FAILURES,
    )

    # Checks fit to a handful of rows, of noise. Old releases give a generator, which pytest is about to refuse.
    @pytest.mark.filterwarnings("ignore:.*trees have no unseen row")
    @pytest.mark.filterwarnings("ignore:no feature can be significant")
    @pytest.mark.filterwarnings("ignore:No features were selected")
    @pytest.mark.parametrize(CHECKS.args[0], list(CHECKS.args[1]), **CHECKS.kwargs)
    def test_the_selector_is_an_estimator_of_scikit_learn(estimator, check, few_trees):
        check(estimator)


def test_it_keeps_what_the_result_selects():
    selector = tw.UnbiasedSelector(FOREST).fit(X, y)
    expected = tw.importance(clone(FOREST).fit(X, y), X, y)
    np.testing.assert_array_equal(selector.importance_result_.p_value, expected.p_value)
    assert selector.get_support(indices=True).tolist() == CHOSEN
    np.testing.assert_array_equal(selector.transform(X), X[:, CHOSEN])
    assert selector.get_feature_names_out().tolist() == ["x1", "x4"]
    assert selector.n_features_in_ == 6
    assert not hasattr(FOREST, "estimators_")
    back = selector.inverse_transform(selector.transform(X))
    np.testing.assert_array_equal(back[:, CHOSEN], X[:, CHOSEN])
    assert not back[:, [0, 2, 3, 5]].any()


def test_settings_of_the_selection_need_no_other_fit():
    selector = tw.UnbiasedSelector(FOREST).fit(X, y)
    result = selector.importance_result_
    for settings in ({"k": 1}, {"k": 5}, {"k": None, "alpha": 1.0}, {"alpha": 0.3, "correction": None}):
        selector.set_params(**settings)
        expected = result.select(selector.alpha, selector.correction, k=selector.k)
        np.testing.assert_array_equal(selector.get_support(), expected)
    assert selector.set_params(alpha=1.0, correction="bh").get_support().all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": 5}, "alpha must lie between 0 and 1, got 5"),
        ({"correction": "bonferroni"}, "correction must be 'bh', 'by', 'holm' or None, got 'bonferroni'"),
        ({"k": 7}, "k must lie between 0 and the number of features, 6, got 7"),
    ],
)
def test_fit_refuses_settings_out_of_range(settings, message):
    with pytest.raises(ValueError, match=message):
        tw.UnbiasedSelector(FOREST, **settings).fit(X, y)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (y, "Classifier"),
        (y.astype(bool), "Classifier"),
        (np.array(["no", "yes"])[y], "Classifier"),
        (pd.Series(np.array(["no", "yes"])[y], dtype="category"), "Classifier"),
        (y.astype(float), "Classifier"),
        (np.arange(120) % 24, "Classifier"),
        (np.column_stack([y, 1 - y]), "Classifier"),
        (np.arange(120) % 25, "Regressor"),
        (np.arange(120.0), "Regressor"),
        (X[:, 1], "Regressor"),
        (X[:, 1].tolist(), "Regressor"),
        (X[:, :2], "Regressor"),
    ],
    ids=[
        "codes",
        "bool",
        "text",
        "category",
        "float codes",
        "24 labels of 5 rows",
        "two outputs",
        "25 integers of fewer rows",
        "whole numbers",
        "numbers",
        "list",
        "two quantities",
    ],
)
def test_the_target_decides_what_forest_is_fit(target, expected, few_trees):
    selector = tw.UnbiasedSelector(random_state=0).fit(X, target)
    assert type(selector.estimator_).__name__ == f"RandomForest{expected}"
    assert selector.importance_result_.task == ("regression" if expected == "Regressor" else "classification")


def test_the_default_forest():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    selector = tw.UnbiasedSelector(random_state=3, n_jobs=2).fit(X, y)
    assert type(selector.estimator_) is RandomForestRegressor
    assert selector.estimator_.get_params() == RandomForestRegressor(500, random_state=3, n_jobs=2).get_params()
    assert {"bmi", "s5"} <= set(selector.get_feature_names_out())
    assert selector.feature_names_in_.tolist() == list(X)


def test_a_fitted_estimator_is_taken_as_it_is():
    forest = clone(FOREST).fit(X, y)
    selector = tw.UnbiasedSelector(forest, prefit=True).fit(X, y)
    assert selector.estimator_ is forest
    assert selector.get_support(indices=True).tolist() == CHOSEN
    with pytest.raises(ValueError, match="rows='oob' needs X and y as this forest was fit on"):
        selector.fit(X[::-1], y[::-1])
    with pytest.raises(NotFittedError):
        clone(selector).fit(X, y)
    with pytest.raises(NotFittedError):
        clone(selector).transform(X)


def test_seeds():
    unseeded = RandomForestClassifier(5)
    one, same, other = (
        tw.UnbiasedSelector(unseeded, random_state=seed).fit(X, y).importance_result_.values for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)
    assert unseeded.random_state is None
    assert tw.UnbiasedSelector(FOREST, random_state=1).fit(X, y).estimator_.random_state == 0


def test_other_ensembles_with_bags():
    for estimator in (
        ExtraTreesClassifier(40, bootstrap=True, random_state=0),
        BaggingClassifier(n_estimators=40, random_state=0),
        tw.UnbiasedRandomForestClassifier(40, random_state=0),
    ):
        assert set(CHOSEN) <= set(tw.UnbiasedSelector(estimator).fit(X, y).get_support(indices=True))


def test_estimators_without_bags_are_refused():
    for estimator in (ExtraTreesClassifier(5), GradientBoostingClassifier(n_estimators=2)):
        with pytest.raises(ValueError, match="rows='auto' needs recorded out-of-bag rows, but"):
            tw.UnbiasedSelector(estimator).fit(X, y)
    with pytest.raises(TypeError, match="LogisticRegression"):
        tw.UnbiasedSelector(LogisticRegression()).fit(X, y)


def test_one_row_and_no_target_are_refused(few_trees):
    with pytest.raises(ValueError, match="X must hold rows to grow trees and rows to score them, got 1 sample"):
        tw.UnbiasedSelector().fit([[1.0, 2.0]], [1])
    with pytest.raises(ValueError, match="got None"):
        tw.UnbiasedSelector().fit(X, None)


def test_nothing_significant_warns_and_gives_no_column():
    noise = np.random.default_rng(1).integers(2, size=120)
    selector = tw.UnbiasedSelector(FOREST, alpha=1e-6).fit(X, noise)
    with pytest.warns(UserWarning, match="No features were selected"):
        assert selector.transform(X).shape == (120, 0)


def test_rows_too_few_for_a_test():
    few = X[:12], y[:12]
    with pytest.warns(UserWarning, match="^no feature can be significant: it takes at least 20 rows .*; k= selects"):
        selector = tw.UnbiasedSelector(FOREST).fit(*few)
    assert not selector.get_support().any()
    assert selector.set_params(k=2).get_support().sum() == 2
    assert tw.UnbiasedSelector(FOREST, k=3).fit(*few).get_support().sum() == 3


def test_weights_grow_and_score(rng):
    weight = rng.integers(0, 3, size=120).astype(float)
    selector = tw.UnbiasedSelector(FOREST).fit(X, y, sample_weight=weight)
    forest = clone(FOREST).fit(X, y, sample_weight=weight)
    expected = tw.importance(forest, X, y, sample_weight=weight)
    np.testing.assert_array_equal(selector.importance_result_.values, expected.values)
    assert not np.array_equal(
        selector.importance_result_.values, tw.UnbiasedSelector(FOREST).fit(X, y).importance_result_.values
    )
    pipeline = make_pipeline(tw.UnbiasedSelector(FOREST), LogisticRegression())
    pipeline.fit(X, y, unbiasedselector__sample_weight=weight)
    np.testing.assert_array_equal(pipeline[0].importance_result_.values, expected.values)


def test_frames_stay_frames():
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(b=X[:, 1].astype(np.float32))
    selector = tw.UnbiasedSelector(FOREST).set_output(transform="pandas").fit(frame, y)
    chosen = selector.transform(frame)
    pd.testing.assert_frame_equal(chosen, frame[["b", "e"]])
    assert selector.get_feature_names_out().tolist() == ["b", "e"]
    # Names of an earlier fit are forgotten.
    assert not hasattr(selector.fit(X, y), "feature_names_in_")


def test_sparse_in_sparse_out():
    selector = tw.UnbiasedSelector(FOREST).fit(sparse.csr_array(X), y)
    chosen = selector.transform(sparse.csr_array(X))
    assert sparse.issparse(chosen)
    np.testing.assert_array_equal(chosen.toarray(), X[:, CHOSEN])


def test_missing_values_where_trees_send_them_one_way():
    holes = X.copy()
    holes[::9, 2] = np.nan
    if SKLEARN_VERSION < (1, 8):
        with pytest.raises(ValueError, match="X must not hold NaN"):
            tw.UnbiasedSelector(FOREST).fit(holes, y)
        return
    selector = tw.UnbiasedSelector(FOREST, k=6).fit(holes, y)
    np.testing.assert_array_equal(selector.transform(holes), holes)


def test_the_number_of_threads_changes_nothing(few_trees):
    one, two = (tw.UnbiasedSelector(random_state=0, n_jobs=n).fit(X, y).importance_result_ for n in (1, 2))
    np.testing.assert_array_equal(one.values, two.values)
    np.testing.assert_array_equal(one.p_value, two.p_value)


def test_pickles():
    selector = pickle.loads(pickle.dumps(tw.UnbiasedSelector(FOREST).fit(X, y)))
    assert selector.get_support(indices=True).tolist() == CHOSEN


def test_it_is_tuned_in_a_pipeline():
    search = GridSearchCV(
        make_pipeline(tw.UnbiasedSelector(FOREST), LogisticRegression()), {"unbiasedselector__k": [1, 2]}, cv=3
    )
    search.fit(X, y)
    assert search.best_params_ == {"unbiasedselector__k": 2}
    assert search.best_estimator_[0].get_support(indices=True).tolist() == CHOSEN


def draw_levels(seed, task):
    """Ten ordered features of 2 to 11 levels, of which the binary one says something."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(levels, size=400) for levels in range(2, 12)])
    if task == "regression":
        return X, X[:, 0] + 1.5 * rng.standard_normal(400)
    return X, rng.random(400) < np.where(X[:, 0] == 1, 0.66, 0.34)


@pytest.mark.statistical
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_binary_signal_is_kept_and_noise_is_dropped(task):
    forest = RandomForestRegressor if task == "regression" else RandomForestClassifier
    kept, biased = [], []
    for seed in range(10):
        X, y = draw_levels(seed, task)
        pipeline = make_pipeline(tw.UnbiasedSelector(forest(60, random_state=seed)), forest(2, random_state=0))
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # an empty selection would warn
            pipeline.fit(X, y)
        kept.append(pipeline[0].get_support())
        biased.append(pipeline[0].importance_result_.mdi)
    kept = np.array(kept)
    # z is about 6.8, or 6.7: always kept. At a false discovery rate of 5 % half a false discovery is expected in all.
    assert kept[:, 0].all()
    assert kept[:, 1:].sum() <= 3
    # The usual importance puts it behind the noise of 11 levels.
    assert np.mean(biased, axis=0)[0] < np.mean(biased, axis=0)[-1]


def test_a_pipeline_may_choose_among_columns_it_encodes():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"noise": rng.standard_normal(300), "place": rng.choice(["a", "b", "c"], 300)})
    target = (table["place"] == "b") ^ (rng.random(300) < 0.1)
    encoder = ColumnTransformer([("place", OneHotEncoder(), ["place"])], remainder="passthrough")
    pipeline = make_pipeline(encoder, RandomForestClassifier(50, random_state=0))
    selector = tw.UnbiasedSelector(pipeline).fit(table, target)
    assert selector.get_support().tolist() == [False, True]
    assert selector.transform(table).shape == (300, 1)
    numbers = rng.standard_normal((300, 2))
    mixed = make_pipeline(PCA(2), RandomForestClassifier(50, random_state=0))
    with pytest.raises(ValueError, match="mixes or leaves out columns"):
        tw.UnbiasedSelector(mixed).fit(numbers, numbers[:, 0] > 0)


def test_weights_reach_the_model_of_a_pipeline(rng):
    weight = rng.integers(0, 3, size=120).astype(float)
    expected = tw.UnbiasedSelector(FOREST).fit(X, y, sample_weight=weight)
    pipeline = make_pipeline(FunctionTransformer(), FOREST)
    for estimator in (pipeline, make_pipeline("passthrough", pipeline)):
        selector = tw.UnbiasedSelector(estimator).fit(X, y, sample_weight=weight)
        np.testing.assert_array_equal(selector.importance_result_.values, expected.importance_result_.values)
