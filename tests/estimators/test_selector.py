"""The selector: a transformer of scikit-learn that keeps what is significant."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import sklearn
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
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import truewood as tw
from truewood._sklearn_compat import SKLEARN_VERSION

pytestmark = pytest.mark.any_engine

rng = np.random.default_rng(0)
X = rng.standard_normal((120, 6))
y = (X[:, 1] - X[:, 4] > 0).astype(int)
FOREST = RandomForestClassifier(40, random_state=0)
CHOSEN = [1, 4]


@pytest.fixture
def few_trees(monkeypatch):
    monkeypatch.setattr("truewood._estimators.selector._N_TREES", 20)


NOT_REPEATED = "a copy of a row in the bag is no out-of-bag row, so that repeated rows make noise significant"
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": NOT_REPEATED,
    "check_sample_weight_equivalence_on_sparse_data": NOT_REPEATED,
}

if SKLEARN_VERSION >= (1, 6):  # before, expected failures had no public place
    CHECKS = parametrize_with_checks(
        [
            tw.UnbiasedSelector(),
            tw.UnbiasedSelector(min_features=0),
            tw.UnbiasedSelector(k=1),
            tw.UnbiasedSelector(ExtraTreesClassifier(10, bootstrap=True), k=1),
        ],
        expected_failed_checks=lambda _selector: EXPECTED_FAILURES,
    )

    # Checks fit to a handful of rows, of noise. Old releases give a generator, which pytest is about to refuse.
    @pytest.mark.filterwarnings("ignore:.* of \\d+ trees")
    @pytest.mark.filterwarnings("ignore:p-values are unavailable")
    @pytest.mark.filterwarnings("ignore:no feature passed the test")
    @pytest.mark.filterwarnings("ignore:.*max_samples=")
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
        ({"alpha": 5}, r"^alpha\b.*\b0\b.*\b1\b.*\b5\b"),
        ({"correction": "bonferroni"}, r"^correction\b.*'bh', 'by', 'holm'.*'bonferroni'"),
        ({"k": 7}, r"^k\b.*\b0\b.*\b6\b.*\b7\b"),
        ({"min_features": 7}, r"^min_features\b.*\b0\b.*\b6\b.*7"),
        ({"min_features": -1}, r"^min_features\b.*\b0\b.*\b6\b.*-1"),
        ({"min_features": 1.0}, r"^min_features\b.*\b0\b.*\b6\b.*1.0"),
        ({"min_features": True}, r"^min_features\b.*\b0\b.*\b6\b.*True"),
        ({"min_features": None}, r"^min_features\b.*\b0\b.*\b6\b.*None"),
        ({"min_features": 3, "feature_groups": list("aaabbb")}, r"\b2\b.*\b3\b"),
        ({"measure": "gini"}, r"^measure\b.*'gini'"),
        ({"measure": "mdi"}, r"^k\b.*measure='mdi'"),
        ({"rows": "heldout"}, r"^rows\b.*'oob'.*prefit=True.*'heldout'"),
        ({"rows": [[0]] * 40}, r"^rows\b.*'oob'.*prefit=True.*list"),
        ({"rows": None}, r"^rows\b.*'oob'.*prefit=True.*NoneType"),
        ({"rows": "odd", "prefit": True}, r"^rows\b.*'auto', 'oob', 'heldout'"),
        ({"feature_groups": list("ab")}, r"^feature_groups\b.*\b6\b.*\b2\b"),
        (
            {"feature_groups": {"a": ["x9"]}},
            r"^feature_groups\b.*\bX\b",
        ),
    ],
)
def test_fit_refuses_settings_out_of_range(settings, message):
    estimator = clone(FOREST).fit(X, y) if settings.get("prefit") else FOREST
    with pytest.raises(ValueError, match=message) as error:
        tw.UnbiasedSelector(estimator, **settings).fit(X, y)
    assert "\n" not in str(error.value)


def test_prefit_needs_an_estimator():
    with pytest.raises(ValueError, match=r"^estimator\b.*prefit=True.*None"):
        tw.UnbiasedSelector(prefit=True).fit(X, y)


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
    selector = tw.UnbiasedSelector(min_features=0, random_state=0).fit(X, target)
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
    with pytest.raises(ValueError, match=r"rows='oob'.*X and y"):
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
        with pytest.raises(ValueError, match=rf"estimator.*{type(estimator).__name__}.*bootstrap.*prefit=True"):
            tw.UnbiasedSelector(estimator).fit(X, y)
    with pytest.raises(TypeError, match="LogisticRegression"):
        tw.UnbiasedSelector(LogisticRegression()).fit(X, y)


def test_one_row_and_no_target_are_refused(few_trees):
    with pytest.raises(ValueError, match=r"\bX\b.*got 1\b"):
        tw.UnbiasedSelector().fit([[1.0, 2.0]], [1])
    with pytest.raises(ValueError, match="got None"):
        tw.UnbiasedSelector().fit(X, None)


NOISE = np.random.default_rng(1).integers(2, size=120)


def test_where_nothing_passes_the_best_feature_is_kept():
    selector = tw.UnbiasedSelector(FOREST)
    with pytest.warns(UserWarning, match=r"alpha=0\.05.*\bthe feature\b.*min_features") as caught:
        chosen = selector.fit_transform(X, NOISE)
    assert len(caught) == 1
    result = selector.importance_result_
    assert not result.select().any()
    assert selector.get_support(indices=True).tolist() == [result.values.argmax()]
    np.testing.assert_array_equal(chosen, X[:, [result.values.argmax()]])
    # Told by fit alone: warnings are errors here.
    np.testing.assert_array_equal(selector.transform(X), chosen)


def test_features_that_pass_are_kept_and_others_are_added_by_score():
    selector = tw.UnbiasedSelector(FOREST, min_features=4)
    message = r"\b2 features\b.*alpha=0\.05.*\b2 \w* ?features\b"
    with pytest.warns(UserWarning, match=message):
        selector.fit(X, y)
    order = selector.importance_result_.order.tolist()
    assert sorted(order[:2]) == CHOSEN
    assert selector.get_support(indices=True).tolist() == sorted(order[:4])
    assert selector.set_params(min_features=np.int64(3)).get_support(indices=True).tolist() == sorted(order[:3])
    assert selector.set_params(min_features=2).fit(X, y).get_support(indices=True).tolist() == CHOSEN
    # A feature that passes stays, though others of larger score do not pass.
    result = selector.importance_result_
    error = np.full(6, 10.0)
    error[order[-1]] = 1e-9
    selector.importance_result_ = replace(
        result, values=result.values - result.values.min() + 0.01, null_std_error=error
    )
    assert selector.get_support(indices=True).tolist() == sorted([order[0], order[-1]])


def test_k_has_the_last_word():
    selector = tw.UnbiasedSelector(FOREST, k=1, min_features=3).fit(X, NOISE)
    assert selector.get_support().sum() == 1
    assert not selector.set_params(k=0).get_support().any()


def test_without_a_least_number_nothing_may_be_left():
    selector = tw.UnbiasedSelector(FOREST, min_features=0).fit(X, NOISE)
    with pytest.warns(UserWarning, match="No features were selected"):
        assert selector.transform(X).shape == (120, 0)


@pytest.mark.parametrize("container", ["numpy", "pandas", "polars"])
def test_cross_validation_on_noise_runs_through(container):
    table = X
    if container != "numpy":
        pytest.importorskip(container)
        frame = pd.DataFrame(X, columns=list("abcdef"))
        table = frame if container == "pandas" else pytest.importorskip("polars").from_pandas(frame)
    pipeline = Pipeline([("select", tw.UnbiasedSelector(FOREST)), ("forest", FOREST)])
    if container != "numpy":
        pipeline.set_output(transform=container)
    with pytest.warns(UserWarning, match=r"alpha=0\.05.*\bthe feature\b"):
        scores = cross_val_score(pipeline, table, NOISE, cv=4, error_score="raise")
    assert np.isfinite(scores).all()
    with (
        pytest.warns(UserWarning, match="No features were selected"),
        pytest.raises(ValueError, match=r"0 feature\(s\)|at least one array"),
    ):
        cross_val_score(pipeline.set_params(select__min_features=0), table, NOISE, cv=4, error_score="raise")


def test_rows_too_few_for_a_test():
    few = X[:12], y[:12]
    message = r"\b20 evaluation rows\b.*\bk="
    with pytest.warns(UserWarning, match=rf"{message}.*\bthe feature\b.*min_features"):
        selector = tw.UnbiasedSelector(FOREST).fit(*few)
    assert selector.get_support(indices=True).tolist() == [selector.importance_result_.values.argmax()]
    with pytest.warns(UserWarning, match=message):
        selector = tw.UnbiasedSelector(FOREST, min_features=0).fit(*few)
    assert not selector.get_support().any()
    assert selector.set_params(k=2).get_support().sum() == 2
    assert tw.UnbiasedSelector(FOREST, k=3).fit(*few).get_support().sum() == 3


GROUPS = {"pair": ["x0", "x1"], "others": [3, "x5"]}
GROUPED = [0, 1, 4]


@pytest.mark.parametrize("groups", [GROUPS, ["pair", "pair", "x2", "others", "x4", "others"]], ids=["dict", "list"])
def test_a_group_is_kept_or_dropped_as_a_whole(groups):
    selector = tw.UnbiasedSelector(FOREST, feature_groups=groups).fit(X, y)
    expected = tw.importance(clone(FOREST).fit(X, y), X, y, feature_groups=groups)
    assert selector.importance_result_.feature_names.tolist() == ["pair", "x2", "others", "x4"]
    np.testing.assert_array_equal(selector.importance_result_.p_value, expected.p_value)
    assert expected.select().tolist() == [True, False, False, True]
    assert selector.get_support(indices=True).tolist() == GROUPED
    assert selector.get_feature_names_out().tolist() == ["x0", "x1", "x4"]
    assert selector.n_features_in_ == 6
    np.testing.assert_array_equal(selector.transform(X), X[:, GROUPED])
    assert selector.inverse_transform(X[:, GROUPED]).shape == X.shape
    # Groups are counted, not their columns.
    assert selector.set_params(k=4).get_support().all()
    assert sorted(expected.order[:2]) == [0, 3]
    assert selector.set_params(k=2).get_support(indices=True).tolist() == GROUPED
    again = clone(selector.set_params(k=None)).fit(X, y)
    assert again.get_support(indices=True).tolist() == GROUPED


def test_a_group_of_noise_is_kept_whole_where_nothing_passes():
    selector = tw.UnbiasedSelector(FOREST, feature_groups=list("aabbcc"))
    with pytest.warns(UserWarning, match=r"alpha=0\.05.*\bthe feature\b"):
        selector.fit(X, NOISE)
    best = selector.importance_result_.values.argmax()
    assert selector.get_support(indices=True).tolist() == [2 * best, 2 * best + 1]


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_groups_of_the_columns_of_a_frame(container):
    frame = pd.DataFrame(X, columns=list("abcdef"))
    table = frame if container == "pandas" else pytest.importorskip("polars").from_pandas(frame)
    selector = tw.UnbiasedSelector(FOREST, feature_groups={"first": ["a", "b"]}).set_output(transform=container)
    chosen = selector.fit(table, y).transform(table)
    assert type(chosen) is type(table)
    assert list(chosen.columns) == selector.get_feature_names_out().tolist() == ["a", "b", "e"]
    np.testing.assert_array_equal(np.asarray(chosen), X[:, GROUPED])
    # Of an array, the names are those that the estimator knows.
    forest = clone(FOREST).fit(table, y)
    known = tw.UnbiasedSelector(forest, feature_groups={"first": ["a", "b"]}, prefit=True).fit(X, y)
    assert known.get_support(indices=True).tolist() == GROUPED


def test_groups_of_columns_that_a_pipeline_encodes():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"noise": rng.standard_normal(300), "place": rng.choice(["a", "b", "c"], 300)})
    table["size"] = rng.standard_normal(300)
    target = (table["place"] == "b") ^ (rng.random(300) < 0.1)
    encoder = ColumnTransformer([("place", OneHotEncoder(), ["place"])], remainder="passthrough")
    pipeline = make_pipeline(encoder, RandomForestClassifier(50, random_state=0))
    selector = tw.UnbiasedSelector(pipeline, feature_groups={"where": ["place", "size"]}).fit(table, target)
    assert selector.importance_result_.feature_names.tolist() == ["noise", "where"]
    assert selector.transform(table).shape == (300, 2)
    assert selector.get_feature_names_out().tolist() == ["place", "size"]


def test_a_pipeline_that_was_fit_on_a_frame_takes_an_array():
    frame = pd.DataFrame(X, columns=list("abcdef"))
    pipeline = make_pipeline(StandardScaler(), FOREST).fit(frame, y)
    assert tw.UnbiasedSelector(pipeline, prefit=True).fit(X, y).get_support(indices=True).tolist() == CHOSEN


def test_other_measures():
    forest = clone(FOREST).fit(X, y)
    selector = tw.UnbiasedSelector(FOREST, measure="mdi_oob").fit(X, y)
    np.testing.assert_array_equal(
        selector.importance_result_.values, tw.importance(forest, X, y, measure="mdi_oob").values
    )
    assert set(CHOSEN) <= set(selector.get_support(indices=True))
    # Permutations are seeded; without p-values, the number of features has to be given.
    selector = tw.UnbiasedSelector(FOREST, measure="permutation", k=2, random_state=5).fit(X, y)
    expected = tw.importance(forest, X, y, measure="permutation", random_state=5)
    np.testing.assert_array_equal(selector.importance_result_.values, expected.values)
    assert selector.get_support(indices=True).tolist() == CHOSEN
    with pytest.raises(ValueError, match=r"\bk\b.*measure='permut"):
        selector.set_params(k=None).transform(X)
    default = tw.UnbiasedSelector(FOREST).fit(X, y).importance_result_
    assert default.measure == tw.importance(forest, X, y).measure


def test_other_rows_for_an_estimator_that_was_fit_before():
    forest = clone(FOREST).fit(X[:60], y[:60])
    new = X[60:], y[60:]
    heldout = tw.UnbiasedSelector(forest, prefit=True, rows="heldout").fit(*new)
    lists = tw.UnbiasedSelector(forest, prefit=True, rows=[np.arange(60)] * 40).fit(*new)
    assert (heldout.importance_result_.rows, lists.importance_result_.rows) == ("heldout", "lists")
    np.testing.assert_array_equal(heldout.importance_result_.values, tw.importance(forest, *new, rows="heldout").values)
    np.testing.assert_allclose(lists.importance_result_.values, heldout.importance_result_.values, rtol=1e-12)
    assert heldout.get_support(indices=True).tolist() == CHOSEN
    with pytest.raises(tw.TrainingRowsError, match="rows='heldout'"):
        tw.UnbiasedSelector(forest, prefit=True, rows="heldout").fit(X[:60], y[:60])
    # The way for boosted trees, which have no bags.
    boosted = GradientBoostingClassifier(n_estimators=20, random_state=0).fit(X[:60], y[:60])
    selector = tw.UnbiasedSelector(boosted, prefit=True, rows="heldout").fit(*new)
    assert set(CHOSEN) <= set(selector.get_support(indices=True))


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
        with pytest.raises(ValueError, match=r"\bX\b.*NaN"):
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
    """Ten ordered features of 2 to 11 levels, of which only the binary one is informative."""
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


@pytest.mark.statistical
def test_stand_ins_are_selected_and_noise_is_not():
    """The numbers in docs/inference.md: 64% of the selection are correlated features, less than 1% are noise."""
    counts = np.zeros(3)
    for seed in range(12):
        rng = np.random.default_rng(seed)
        useful = rng.standard_normal((500, 5))
        similar = 0.7 * np.repeat(useful, 2, axis=1) + np.sqrt(1 - 0.7**2) * rng.standard_normal((500, 10))
        X = np.hstack([useful, similar, rng.standard_normal((500, 10))])
        y = useful.sum(axis=1) + 2 * rng.standard_normal(500)
        forest = RandomForestRegressor(100, max_features=1 / 3, random_state=seed)
        counts += [part.sum() for part in np.split(tw.UnbiasedSelector(forest).fit(X, y).get_support(), [5, 15])]
    # All 60 useful ones and 110 of 120 stand-ins are found; of 171, 8.6 may be noise at a false discovery rate of 5 %.
    assert counts[0] == 60
    assert counts[1] / counts.sum() == pytest.approx(0.64, abs=0.05)
    assert counts[2] <= 8


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
    with pytest.raises(ValueError, match=r"^estimator\b.*\bX\b.*columns"):
        tw.UnbiasedSelector(mixed).fit(numbers, numbers[:, 0] > 0)


def test_weights_reach_the_model_of_a_pipeline(rng):
    weight = rng.integers(0, 3, size=120).astype(float)
    expected = tw.UnbiasedSelector(FOREST).fit(X, y, sample_weight=weight)
    pipeline = make_pipeline(FunctionTransformer(), FOREST)
    for estimator in (pipeline, make_pipeline("passthrough", pipeline)):
        selector = tw.UnbiasedSelector(estimator).fit(X, y, sample_weight=weight)
        np.testing.assert_array_equal(selector.importance_result_.values, expected.importance_result_.values)


@pytest.mark.parametrize("estimator", [None, FOREST])
def test_text_is_refused_with_the_columns_and_a_remedy(estimator, few_trees):
    table = pd.DataFrame(X, columns=list("abcdef")).assign(size=np.where(y, "large", "small"))
    with pytest.raises(ValueError, match=r"^X\b.*\bsize \('(large|small)'\);.*OrdinalEncoder") as caught:
        tw.UnbiasedSelector(estimator).fit(table, y)
    assert "\n" not in str(caught.value)
    encoder = ColumnTransformer([("encode", OrdinalEncoder(), ["size"])], remainder="passthrough")
    selector = tw.UnbiasedSelector(make_pipeline(encoder, FOREST)).fit(table, y)
    assert "size" in selector.get_feature_names_out()


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


WEIGHT = np.random.default_rng(2).integers(0, 3, size=120).astype(float)


def test_weights_are_routed_to_the_estimator_and_to_the_scores(routing):
    weighed = clone(FOREST).set_fit_request(sample_weight=True)
    expected = tw.importance(clone(FOREST).fit(X, y, WEIGHT), X, y, sample_weight=WEIGHT).values
    plain = tw.importance(clone(FOREST).fit(X, y), X, y, sample_weight=WEIGHT).values
    assert not np.array_equal(expected, plain)
    for estimator, values in ((weighed, expected), (clone(FOREST).set_fit_request(sample_weight=False), plain)):
        selector = tw.UnbiasedSelector(estimator).fit(X, y, sample_weight=WEIGHT)
        np.testing.assert_array_equal(selector.importance_result_.values, values)
    with pytest.raises(UnsetMetadataPassedError, match=r"sample_weight.*RandomForestClassifier"):
        tw.UnbiasedSelector(FOREST).fit(X, y, sample_weight=WEIGHT)
    # In a pipeline, the selector itself has to request them as well.
    model = LogisticRegression().set_fit_request(sample_weight=False)
    with pytest.raises(UnsetMetadataPassedError, match=r"sample_weight.*UnbiasedSelector"):
        make_pipeline(tw.UnbiasedSelector(weighed), model).fit(X, y, sample_weight=WEIGHT)
    selector = tw.UnbiasedSelector(weighed).set_fit_request(sample_weight=True)
    pipeline = make_pipeline(selector, model).fit(X, y, sample_weight=WEIGHT)
    np.testing.assert_array_equal(pipeline[0].importance_result_.values, expected)
    # The estimator may be a pipeline itself, whose steps request what they take.
    inner = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), weighed)
    selector = tw.UnbiasedSelector(inner).fit(X, y, sample_weight=WEIGHT)
    np.testing.assert_array_equal(selector.importance_result_.values, expected)


def test_weights_are_routed_through_cross_validation(routing):
    weighed = clone(FOREST).set_fit_request(sample_weight=True)
    selector = tw.UnbiasedSelector(weighed, k=2).set_fit_request(sample_weight=True)
    model = LogisticRegression().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
    scored = cross_validate(
        make_pipeline(selector, model), X, y, cv=3, params={"sample_weight": WEIGHT}, error_score="raise",
        return_estimator=True, return_indices=True,
    )  # fmt: skip
    for fitted, rows in zip(scored["estimator"], scored["indices"]["train"], strict=True):
        own = tw.UnbiasedSelector(weighed, k=2).fit(X[rows], y[rows], sample_weight=WEIGHT[rows])
        np.testing.assert_array_equal(fitted[0].importance_result_.values, own.importance_result_.values)


def test_the_default_forest_and_a_fitted_one_need_no_request(routing, few_trees):
    weighed, plain = (
        tw.UnbiasedSelector(random_state=0).fit(X, y, sample_weight=weight).importance_result_.values
        for weight in (WEIGHT, None)
    )
    assert not np.array_equal(weighed, plain)
    forest = clone(FOREST).fit(X, y, WEIGHT)
    selector = tw.UnbiasedSelector(forest, prefit=True).fit(X, y, sample_weight=WEIGHT)
    expected = tw.importance(forest, X, y, sample_weight=WEIGHT)
    np.testing.assert_array_equal(selector.importance_result_.values, expected.values)


def test_what_the_selector_requests(routing):
    selector = tw.UnbiasedSelector(clone(FOREST).set_fit_request(sample_weight=True)).set_fit_request(groups=True)
    router = clone(selector).get_metadata_routing()
    assert router.consumes("fit", ["sample_weight", "groups", "other"]) == {"sample_weight", "groups"}
    assert not tw.UnbiasedSelector(FOREST).get_metadata_routing().consumes("fit", ["sample_weight", "groups"])
    with pytest.raises(TypeError, match="other"):
        selector.fit(X, y, other=WEIGHT)


def test_groups_give_cluster_robust_errors_and_reach_no_estimator_that_does_not_request_them():
    forest, labels = clone(FOREST).fit(X[:60], y[:60]), np.arange(60) // 2
    expected = tw.importance(forest, X[60:], y[60:], rows="heldout", groups=labels)
    for routed in (False, True):
        with sklearn.config_context(enable_metadata_routing=routed):
            selector = tw.UnbiasedSelector(forest, prefit=True, rows="heldout").fit(X[60:], y[60:], groups=labels)
            np.testing.assert_array_equal(selector.importance_result_.std_error, expected.std_error)
            with pytest.raises(ValueError, match=r"^groups\b.*bootstrap"):
                tw.UnbiasedSelector(FOREST).fit(X, y, groups=np.arange(120) // 2)


def test_further_arguments_reach_the_fit_of_the_estimator():
    class Recording(RandomForestClassifier):
        def fit(self, X, y, sample_weight=None, *, note=None):
            self.note_ = note
            return super().fit(X, y, sample_weight)

    assert tw.UnbiasedSelector(Recording(20, random_state=0)).fit(X, y, note="a").estimator_.note_ == "a"
    with sklearn.config_context(enable_metadata_routing=True):
        requesting = Recording(20, random_state=0).set_fit_request(note=True)
        assert tw.UnbiasedSelector(requesting).fit(X, y, note="b").estimator_.note_ == "b"
