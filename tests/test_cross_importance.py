"""`cross_importance()`: means over folds of held-out scores, with errors from all rows that were held out."""

from __future__ import annotations

import warnings

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneOut,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    TimeSeriesSplit,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import truewood as tw
from helpers.messages import find_lacking
from truewood._report.wording import describe_method, explain_reading
from truewood._rows.folds import read_folds

pytestmark = pytest.mark.any_engine

N_ROWS = 90
ERRORS = ("null_std_error", "std_error", "total_error")


def draw(seed=0, n_rows=N_ROWS):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, 4))
    X[:, 1] = rng.integers(0, 2, n_rows)
    return X, X[:, 0] + 0.5 * X[:, 1] + rng.standard_normal(n_rows), rng.integers(1, 4, n_rows).astype(float)


X, y, WEIGHT = draw()
LABELS = np.array([f"shop {number}" for number in np.random.default_rng(3).permutation(np.arange(N_ROWS) % 30)])
BOOSTING = GradientBoostingRegressor(n_estimators=12, max_depth=2, random_state=0)
FOREST = RandomForestRegressor(5, random_state=0)
CLASSES = GradientBoostingClassifier(n_estimators=8, max_depth=2, random_state=0)


def aggregate_to_root(model, splits, *, weight=None, groups=None, both_roles=1.0, X=X, y=y):
    """Scores and errors by plain loops over folds, rows and features."""
    found = []
    for train, test in splits:
        own = {} if weight is None else {"sample_weight": weight[train]}
        scoring = {} if weight is None else {"sample_weight": weight[test]}
        fitted = clone(model).fit(X[train], y[train], **own)
        found.append(tw.importance(fitted, X[test], y[test], rows="heldout", contributions=True, **scoring))
    sizes = [len(test) if weight is None else weight[test].sum() for _, test in splits]
    n_features = X.shape[1]
    values, phi = [0.0] * n_features, {}
    for (_, test), size, result in zip(splits, sizes, found, strict=True):
        for j in range(n_features):
            values[j] += size / sum(sizes) * result.values[j]
            for place, row in enumerate(test):
                unit = row if groups is None else groups[row]
                own = size / sum(sizes) * (result.contributions[place, j] - result.values[j] / len(test))
                phi[unit, j] = phi.get((unit, j), 0.0) + own
    if groups is not None:  # groups of 3 of the 90 rows, which estimate the spread less precisely
        phi = {key: own * np.sqrt(30 * (90 - 3) / (90 * (30 - 3))) for key, own in phi.items()}
    squares = [sum(own**2 for (_, feature), own in phi.items() if feature == j) for j in range(n_features)]
    units = {unit for unit, _ in phi}
    total = sum(sum(phi[unit, j] for j in range(n_features)) ** 2 for unit in units)
    ratio = sum(len(test) / len(train) for train, test in splits) / len(splits)
    varied = np.var([result.values for result in found], axis=0, ddof=1) * (1 / len(splits) + ratio)
    return {
        "values": np.array(values),
        "null_std_error": np.sqrt((1 + both_roles) * np.array(squares)),
        "std_error": np.sqrt(np.maximum((1 + both_roles) ** 2 * np.array(squares), varied)),
        "total_error": np.sqrt((1 + both_roles) * total),
        "per_fold": np.stack([result.values for result in found]),
        "mdi": sum(size / sum(sizes) * result.mdi for size, result in zip(sizes, found, strict=True)),
    }


def assert_equal(result, expected):
    for name, values in expected.items():
        np.testing.assert_allclose(getattr(result, name), values, rtol=1e-10, atol=1e-14, err_msg=name)


@pytest.mark.parametrize(
    ("cv", "both_roles"),
    [
        (KFold(4), 1.0),
        (KFold(7, shuffle=True, random_state=0), 1.0),
        (RepeatedKFold(n_splits=3, n_repeats=2, random_state=0), 1.0),  # a row is held out twice
        (TimeSeriesSplit(3), 0.0),  # no row grows a model that earlier rows score
    ],
)
def test_scores_and_errors_are_those_of_plain_loops(cv, both_roles):
    result = tw.cross_importance(BOOSTING, X, y, cv=cv, contributions=True)
    assert_equal(result, aggregate_to_root(BOOSTING, list(cv.split(X)), both_roles=both_roles))
    np.testing.assert_allclose(result.contributions.sum(axis=0), result.values, rtol=1e-10, atol=1e-14)
    assert result.rows == "folds"
    assert result.n_rows == len(result.contributions) == N_ROWS
    assert result.n_trees == 12 * len(result.per_fold)


def collect_residuals(model, splits):
    """Contributions to the residual test by plain loops over folds, and the same minus the mean of the fold."""
    added, centered = np.zeros_like(X), np.zeros_like(X)
    n_held_out = sum(len(test) for _, test in splits)
    for train, test in splits:
        fitted = clone(model).fit(X[train], y[train])
        options = {"rows": "heldout", "inference": "residual", "contributions": True}
        own = len(test) / n_held_out * tw.importance(fitted, X[test], y[test], **options).residual_contributions
        added[test] += own
        centered[test] += own - own.mean(axis=0)
    return added, centered


@pytest.mark.parametrize(("cv", "both_roles"), [(KFold(4), 1.0), (TimeSeriesSplit(3), 0.0)])
def test_residual_tests_are_those_of_plain_loops(cv, both_roles):
    result = tw.cross_importance(BOOSTING, X, y, cv=cv, inference="residual", contributions=True)
    added, centered = collect_residuals(BOOSTING, list(cv.split(X)))
    np.testing.assert_allclose(result.residual_contributions, added, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(result.residual_values, added.sum(axis=0), rtol=1e-10, atol=1e-14)
    error = np.sqrt((1 + both_roles) * (centered**2).sum(axis=0))
    np.testing.assert_allclose(result.residual_std_error, error, rtol=1e-10)
    np.testing.assert_allclose(result.z_score, result.residual_values / error, rtol=1e-9)
    plain = tw.cross_importance(BOOSTING, X, y, cv=cv)
    for name in ("values", "std_error", "null_std_error", "total_error"):
        np.testing.assert_array_equal(getattr(result, name), getattr(plain, name))
    assert plain.residual_values is None


def test_residual_tests_of_clusters_and_small_folds_use_all_folds_together():
    labels = np.arange(N_ROWS) // 3
    options = {"inference": "residual", "contributions": True}
    result = tw.cross_importance(BOOSTING, X, y, cv=GroupKFold(15), groups=labels, **options)  # folds of 6 rows
    _, centered = collect_residuals(BOOSTING, list(GroupKFold(15).split(X, y, labels)))
    summed = centered.reshape(30, 3, -1).sum(axis=1)
    error = np.sqrt(30 * (90 - 3) / (90 * (30 - 3)) * 2 * (summed**2).sum(axis=0))
    np.testing.assert_allclose(result.residual_std_error, error, rtol=1e-10)


def test_residual_tests_of_several_classes_and_of_columns(tmp_path):
    table = pd.DataFrame({"kind": np.where(X[:, 1] > 0, "a", "b"), "size": X[:, 0], "noise": X[:, 2]})
    encode = make_column_transformer((OneHotEncoder(), ["kind"]), remainder="passthrough")
    labels = np.digitize(y, np.quantile(y, [0.3, 0.7]))
    result = tw.cross_importance(make_pipeline(encode, CLASSES), table, labels, cv=3, inference="residual")
    assert result.feature_names[result.p_value.argmin()] == "size"
    assert result.columns.residual_values.shape == (4,)
    assert (result.residual_std_error > 0).all()
    result.save(tmp_path / "result.json")
    np.testing.assert_array_equal(tw.load(tmp_path / "result.json").p_value, result.p_value)
    with pytest.raises(ValueError, match=r"(?s)inference='residual'.*weights"):
        tw.cross_importance(BOOSTING, X, y, sample_weight=WEIGHT, cv=3, inference="residual")


def test_errors_where_some_rows_fit_models_and_score_none():
    splits = [(np.r_[30:90], np.r_[:30]), (np.r_[:30, 60:90], np.r_[30:60])]
    result = tw.cross_importance(BOOSTING, X, y, cv=splits)
    assert_equal(result, aggregate_to_root(BOOSTING, splits, both_roles=0.5))
    assert not find_lacking(*result.notes, "30 rows", "90")


@pytest.mark.parametrize(
    ("model", "measure", "scale"), [(BOOSTING, "auto", 1), (FOREST, "auto", 1), (FOREST, "ufi", 2)]
)
def test_shares_are_of_the_impurity_of_all_folds(model, measure, scale):
    uneven = y * np.exp(1.5 * np.random.default_rng(1).standard_normal(N_ROWS))
    result = tw.cross_importance(model, X, uneven, cv=3, measure=measure)
    np.testing.assert_allclose(result.share, result.values / (scale * result.impurity), rtol=1e-12)


def test_folds_that_look_like_each_other():
    """A design that is there twice: the rows of the one fold fall into the leaves of the other as its own do."""
    design = np.indices((4, 4, 4)).reshape(3, -1).T.astype(float)
    twice, noise = np.vstack([design, design]), np.random.default_rng(0).standard_normal(128)
    result = tw.cross_importance(BOOSTING, twice, twice[:, 0] + noise, cv=KFold(2))
    assert result.rows == "folds"
    assert result.select().tolist() == [True, False, False]


@pytest.mark.parametrize("measure", ["mdi_plus_oob", "sobol_mda"])
def test_measures_of_in_bag_rows_are_refused(measure):
    with pytest.raises(ValueError, match=rf"measure='{measure}'.*in-bag.*importance.*rows='oob'"):
        tw.cross_importance(RandomForestRegressor(2), X, y, measure=measure)


def test_one_split_is_importance_of_held_out_rows():
    cv = ShuffleSplit(1, test_size=0.4, random_state=0)
    ((train, test),) = cv.split(X)
    expected = tw.importance(clone(BOOSTING).fit(X[train], y[train]), X[test], y[test], rows="heldout")
    result = tw.cross_importance(BOOSTING, X, y, cv=cv)
    assert_equal(result, {name: getattr(expected, name) for name in ("values", "share", "mdi", "per_tree", *ERRORS)})


def test_folds_of_a_number_are_those_of_scikit_learn():
    labels = (y > 1).astype(int)
    shuffled = {"n_splits": 5, "shuffle": True, "random_state": 0}
    for model, target, splitter in ((BOOSTING, y, KFold(**shuffled)), (CLASSES, labels, StratifiedKFold(**shuffled))):
        result = tw.cross_importance(model, X, target)
        assert_equal(result, aggregate_to_root(model, list(splitter.split(X, target)), y=target))
    by_group = tw.cross_importance(BOOSTING, X, y, cv=3, groups=LABELS)
    assert_equal(by_group, aggregate_to_root(BOOSTING, list(GroupKFold(3).split(X, y, LABELS)), groups=LABELS))
    by_class = tw.cross_importance(CLASSES, X, labels, cv=3, groups=LABELS)
    splits = list(StratifiedGroupKFold(3).split(X, labels, LABELS))
    assert_equal(by_class, aggregate_to_root(CLASSES, splits, groups=LABELS, y=labels))
    assert by_class.n_groups == 30


def test_weights_count_in_fit_and_scores():
    expected = aggregate_to_root(BOOSTING, list(KFold(4).split(X)), weight=WEIGHT)
    result = tw.cross_importance(BOOSTING, X, y, cv=KFold(4), sample_weight=WEIGHT)
    assert result.measure == "mdi_oob"
    assert_equal(result, expected)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(w=WEIGHT, target=y)
    piped = make_pipeline(make_column_transformer(("passthrough", list("abcd"))), BOOSTING)
    for model in (BOOSTING, piped, GridSearchCV(piped, {"gradientboostingregressor__max_depth": [2]}, cv=2)):
        named = tw.cross_importance(model, frame, "target", cv=KFold(4), sample_weight="w")
        assert_equal(named, {name: expected[name] for name in ("values", *ERRORS)})


def test_arguments_of_the_fit_get_their_rows():
    params = {"sample_weight": WEIGHT, "monitor": None}
    result = tw.cross_importance(BOOSTING, X, y, cv=KFold(3), params=params)
    splits = list(KFold(3).split(X))
    fitted = [clone(BOOSTING).fit(X[train], y[train], sample_weight=WEIGHT[train]) for train, _ in splits]
    pairs = zip(fitted, splits, strict=True)
    found = [tw.importance(model, X[test], y[test], rows="heldout") for model, (_, test) in pairs]
    np.testing.assert_allclose(result.per_fold, [one.values for one in found], rtol=1e-12)


def test_results_of_cross_validate_need_no_fit():
    cv = KFold(4, shuffle=True, random_state=1)
    fitted = cross_validate(BOOSTING, X, y, cv=cv, return_estimator=True, return_indices=True)
    result, refit = tw.cross_importance(fitted, X, y), tw.cross_importance(BOOSTING, X, y, cv=cv)
    assert_equal(result, {name: getattr(refit, name) for name in ("values", "per_fold", "per_tree", *ERRORS)})
    with pytest.raises(ValueError, match=r"\bcv\b.*\bparams\b"):
        tw.cross_importance(fitted, X, y, cv=cv)
    with pytest.raises(ValueError, match=r"return_indices=True.*test_score"):
        tw.cross_importance(cross_validate(BOOSTING, X, y, return_estimator=True), X, y)
    with pytest.raises(ValueError, match=r"\b59\b.*to \d+.*fold 1\b.*\bX\b"):
        tw.cross_importance(fitted, X[:60], y[:60])
    swapped = fitted | {"indices": {"train": fitted["indices"]["test"], "test": fitted["indices"]["train"]}}
    with pytest.raises(tw.TrainingRowsError, match="rows='heldout'"):
        tw.cross_importance(swapped, X, y)


def test_levels_that_folds_do_not_share():
    rng = np.random.default_rng(0)
    color = rng.choice(["red", "blue", "green"], N_ROWS).astype(object)
    color[[3, 4]] = "rare"  # only in the first fold
    frame = pd.DataFrame({"color": color, "x": X[:, 0]})
    encoder = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["color"]), remainder="passthrough"
    )
    result = tw.cross_importance(make_pipeline(encoder, BOOSTING), frame, y, cv=KFold(3))
    assert result.feature_names.tolist() == ["color", "x"]
    columns = result.expand()
    levels = [f"onehotencoder__color_{level}" for level in ("blue", "green", "rare", "red")]
    assert sorted(columns.feature_names) == [*levels, "remainder__x"]
    is_color = np.char.startswith(columns.feature_names, "onehotencoder")
    np.testing.assert_allclose(columns.values[is_color].sum(), result.values[0], rtol=1e-10)
    assert columns.per_fold[0, columns.feature_names.tolist().index(levels[2])] == 0.0


def test_containers_and_threads_do_not_matter():
    expected = tw.cross_importance(BOOSTING, X, y, cv=3)
    same = ("values", "per_fold", *ERRORS)
    for table in (X.tolist(), sparse.coo_matrix(X), pl.DataFrame(X), pd.DataFrame(X, index=np.arange(N_ROWS)[::-1])):
        assert_equal(tw.cross_importance(BOOSTING, table, y, cv=3), {name: getattr(expected, name) for name in same})
    with joblib.parallel_config(backend="threading"):
        parallel = tw.cross_importance(BOOSTING, X, pd.Series(y), cv=3, n_jobs=2)
    assert_equal(parallel, {name: getattr(expected, name) for name in same})


def test_order_of_rows_does_not_matter():
    fitted = cross_validate(BOOSTING, X, y, cv=KFold(3), return_estimator=True, return_indices=True)
    order = np.random.default_rng(0).permutation(N_ROWS)
    place = np.argsort(order)
    moved = {part: [place[rows] for rows in listed] for part, listed in fitted["indices"].items()}
    result = tw.cross_importance(fitted | {"indices": moved}, X[order], y[order], contributions=True)
    expected = tw.cross_importance(fitted, X, y, contributions=True)
    assert_equal(result, {name: getattr(expected, name) for name in ("values", "per_fold", *ERRORS)})
    np.testing.assert_allclose(result.contributions, expected.contributions[order], rtol=1e-9, atol=1e-12)


def test_other_models_measures_and_options():
    forest = RandomForestClassifier(8, random_state=0)
    labels = np.digitize(y, [-0.5, 1.0])
    result = tw.cross_importance(forest, X, labels, cv=3, feature_groups={"first": [0, 1], "rest": [2, 3]})
    assert result.feature_names.tolist() == ["first", "rest"]
    np.testing.assert_allclose(result.values[0], result.expand().values[:2].sum(), rtol=1e-10)
    permuted = tw.cross_importance(forest, X, labels, cv=3, measure="permutation", random_state=0)
    assert "permutation" in permuted.inference_unavailable
    with pytest.raises(ValueError, match="contributions=True"):
        tw.cross_importance(forest, X, labels, cv=3, measure="permutation", contributions=True)
    bare = tw.cross_importance(BOOSTING, X, y, cv=3, inference=False)
    assert not find_lacking(bare.inference_unavailable, "inference=False", "inference=True")
    few = tw.cross_importance(BOOSTING, X[:18], y[:18], cv=3)
    assert not find_lacking(few.inference_unavailable, "20", "rows", "18")
    own = tw.cross_importance(BOOSTING, X, y, cv=3, target=y**2)
    made = tw.cross_importance(BOOSTING, X, y, cv=3, target=np.square)
    np.testing.assert_allclose(own.values, made.values, rtol=1e-12)


def test_no_undocumented_rows():
    model = clone(BOOSTING).fit(X, y)
    with pytest.raises(ValueError, match=r"^rows\b.*'unseen'"):
        tw.importance(model, X, y, rows="unseen")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        ({"cv": []}, ValueError, r"^cv\b.*fold"),
        ({"cv": [(np.arange(50), np.arange(40, 90))]}, ValueError, r"row 40\b.*fold 1\b"),
        ({"cv": [(np.arange(50), np.empty(0, int))]}, ValueError, r"fold 1\b"),
        ({"cv": [(np.arange(50), np.arange(80, 100))]}, ValueError, r"\b89\b.*\b99\b.*fold 1\b"),
        ({"cv": KFold(3), "groups": LABELS}, ValueError, r"row \d+\b.*group"),
        ({"groups": LABELS[:5]}, ValueError, r"^groups\b.*\b90\b.*\b5\b"),
        ({"inference": "bags"}, ValueError, r"^inference\b.*'bags'"),
        ({"measure": "gain"}, ValueError, r"^measure\b"),
        ({"y": y[:50]}, ValueError, r"\b90\b.*\b50\b"),
        ({"X": pl.LazyFrame(X)}, TypeError, r"\bX\b.*LazyFrame"),
        ({"estimator": LinearRegression()}, TypeError, "LinearRegression"),
        ({"estimator": {}}, ValueError, r"^estimator\b.*cross_validate"),
        ({"params": {"model__eval_set": [(X, y)]}}, ValueError, r"^params\b.*model__eval_set.*validation_fraction"),
        ({"validation_fraction": 1}, ValueError, r"^validation_fraction\b.*\b0\b.*\b1\b"),
    ],
)
def test_what_cannot_be_scored_is_refused_in_one_line(call, error, message):
    arguments = {"estimator": BOOSTING, "X": X, "y": y} | call
    with pytest.raises(error, match=message) as caught:
        tw.cross_importance(**arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("score", [tw.cross_importance, tw.cross_interactions])
def test_folds_without_training_rows_of_a_class_are_refused(score):
    labels = np.where(np.arange(N_ROWS) < 60, "early", "late")
    with pytest.raises(ValueError, match=r"^cv\b.*fold 2\b.*'late'.*number of folds"):
        score(CLASSES, X, labels, cv=TimeSeriesSplit(3, test_size=20))
    assert score(CLASSES, X, labels, cv=3).rows == "folds"


def test_folds_that_are_too_small_to_score():
    with pytest.warns(UserWarning, match="100%.*folds"):
        tw.cross_importance(BOOSTING, X[:25], y[:25], cv=LeaveOneOut())


def draw_sorted(seed=0, n_rows=200):
    X, y, _ = draw(seed, n_rows)
    order = np.argsort(y)
    return X[order], y[order]


def test_sorted_rows_do_no_harm_if_cv_is_a_number():
    X, y = draw_sorted()
    order = np.random.default_rng(1).permutation(len(y))
    result, expected = (tw.cross_importance(BOOSTING, *rows) for rows in ((X, y), (X[order], y[order])))
    np.testing.assert_allclose(result.share, expected.share, atol=0.05)
    labels = np.where(y > 0, "yes", "no")
    assert tw.cross_importance(CLASSES, X, labels).select()[0]


@pytest.mark.parametrize("kind", ["numbers", "labels"])
def test_folds_of_sorted_rows_are_named_with_the_remedy(kind):
    X, y = draw_sorted()
    model, target = (BOOSTING, y) if kind == "numbers" else (RandomForestRegressor(5, random_state=0), (y > 0) * 1.0)
    with pytest.warns(UserWarning, match=r"^cv\b.*\d+%.*sorted.*shuffle=True.*TimeSeriesSplit") as caught:
        tw.cross_importance(model, X, target, cv=KFold(5))
    assert len(caught) == 1


def test_other_folds_are_not_taken_for_sorted_rows(recwarn):
    X, y = draw_sorted()
    tw.cross_importance(BOOSTING, X, y, cv=TimeSeriesSplit(4))
    tw.cross_importance(BOOSTING, X, y, cv=KFold(5, shuffle=True, random_state=1))
    tw.cross_importance(BOOSTING, X, y, cv=GroupKFold(4), groups=np.arange(len(y)) // 5)
    for seed in range(5):
        tw.cross_importance(BOOSTING, *draw(seed)[:2], cv=KFold(5))
    assert not [str(warning.message) for warning in recwarn if "sorted" in str(warning.message)]


def test_separation_of_folds_is_a_share_of_variance():
    folds = read_folds([np.r_[50:100], np.r_[:50]], [np.r_[:50], np.r_[50:100]], 100, None, "cv")
    steps = np.repeat([0.0, 1.0], 50)
    assert folds.are_blocks
    assert folds.measure_separation(steps) == 1.0
    wavy = steps + np.tile([-0.5, 0.5], 50)  # as much variance within folds as between them
    assert folds.measure_separation(wavy) == pytest.approx(0.5)
    assert folds.measure_separation(np.where(np.arange(100) % 7, wavy, np.nan)) > 0.4
    for even in (np.ones(100), np.tile([0.0, 1.0], 50), np.full(100, np.nan)):
        assert folds.measure_separation(even) == 0.0


def test_warning_filters_survive_fits_in_threads():
    class Damaging(RandomForestRegressor):
        def fit(self, X, y, sample_weight=None):
            super().fit(X, y, sample_weight)
            warnings.filters.clear()  # as scikit-learn's threads do by chance
            for text in ("`sklearn.utils.parallel.delayed` should be used with", "of its own"):
                warnings.warn(text, UserWarning, stacklevel=2)
            return self

    before = list(warnings.filters)
    with pytest.raises(UserWarning, match="of its own"):
        tw.cross_importance(Damaging(5, random_state=0), X, y, cv=2)
    assert warnings.filters == before


def test_tables_files_pictures_and_words(tmp_path):
    result = tw.cross_importance(BOOSTING, pd.DataFrame(X, columns=list("abcd")), y, cv=3, contributions=True)
    np.testing.assert_allclose(result.frame()["fold_std"], result.per_fold.std(axis=0, ddof=1)[result.order])
    result.save(tmp_path / "folds.json")
    loaded = tw.load(tmp_path / "folds.json")
    np.testing.assert_array_equal(loaded.per_fold, result.per_fold)
    assert not find_lacking(repr(loaded), "36 trees", "3 folds", "90 rows")
    axes = result.plot("box")
    assert "3 folds" in axes.get_title()
    assert len(axes.lines) >= 4
    words = dict(describe_method(result, None))
    assert not find_lacking(words["Model"], "Regression", "36 trees", "boosting", "3 folds")
    assert not find_lacking(words["Rows"], "90 rows", "folds")
    assert "unit" in words["Biased importance"]  # scores of boosted trees are covariances
    assert "models of this kind" in " ".join(explain_reading(result, 0.05, None))
    deeper = tw.cross_importance(clone(BOOSTING).set_params(max_depth=3), X, y, cv=3, contributions=True)
    plain = tw.cross_importance(BOOSTING, X, y, cv=3, contributions=True)
    comparison = tw.compare(plain, deeper)
    difference = plain.contributions - deeper.contributions
    rows_alone = ((difference - difference.mean(axis=0)) ** 2).sum(axis=0)
    assert (comparison.std_error**2 > 3.5 * rows_alone).all()  # a row counts in both of its roles


@pytest.mark.statistical
def test_useless_features_are_rejected_at_the_level_of_the_test():
    """Scores of useless features vary by `null_std_error`, and twice their variance is needed to show it."""
    values, errors, p_values = [], [], []
    for seed in range(120):
        rng = np.random.default_rng([5, seed])
        X = np.column_stack([rng.standard_normal(120), rng.integers(0, 2, 120), rng.integers(0, 20, 120)])
        model = HistGradientBoostingRegressor(max_iter=15, max_leaf_nodes=6, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = tw.cross_importance(model, X, rng.standard_normal(120), cv=KFold(5))
        values.append(result.values)
        errors.append(result.null_std_error)
        p_values.append(result.p_value)
    values, errors, rate = np.array(values), np.array(errors), float((np.array(p_values) < 0.05).mean())
    assert (np.abs(values.mean(axis=0)) < 3 * values.std(axis=0) / np.sqrt(120)).all()
    ratio = (values**2).mean(axis=0) / (errors**2).mean(axis=0)
    assert 0.7 < ratio.mean() < 1.3  # with the squares of contributions alone it would be about 2
    assert 0.01 <= rate <= 0.07


def test_a_fold_whose_target_does_not_vary_leaves_shares_of_the_others(rng):
    X = rng.normal(size=(90, 3))
    y = X[:, 0] + 0.3 * rng.normal(size=90)
    y[60:] = 1.0
    with pytest.warns(UserWarning, match="sorted"):  # the last 30 rows have a target of their own
        result = tw.cross_importance(HistGradientBoostingRegressor(max_iter=10), X, y, cv=KFold(3), progress=False)
    np.testing.assert_allclose(result.per_fold[2], 0.0, atol=1e-15)
    np.testing.assert_allclose(result.share, result.values / result.impurity, rtol=1e-12)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_weights_are_routed_to_the_steps_that_request_them(n_jobs):
    options = {"cv": KFold(3), "sample_weight": WEIGHT, "n_jobs": n_jobs}
    steps = StandardScaler(), clone(BOOSTING)
    expected = tw.cross_importance(make_pipeline(*steps), X, y, **options)
    with sklearn.config_context(enable_metadata_routing=True):
        steps[0].set_fit_request(sample_weight=False)
        steps[1].set_fit_request(sample_weight=True)
        result = tw.cross_importance(make_pipeline(*steps), X, y, **options)
    np.testing.assert_array_equal(result.values, expected.values)
    assert not np.array_equal(result.values, tw.cross_importance(make_pipeline(*steps), X, y, cv=KFold(3)).values)


@pytest.mark.parametrize(
    ("rare", "options", "remedy"),
    [
        (1, {}, r"class 'rare'; drop classes that occur in a single row\.$"),
        (6, {"groups": np.arange(60) // 6}, r"class 'rare'; drop classes that occur in a single group\.$"),
        (6, {"cv": KFold(5)}, r"class 'rare'; pass a number of folds, .* and drop classes .* single row\.$"),
    ],
)
@pytest.mark.filterwarnings("ignore:The least populated class")
def test_folds_without_training_rows_of_a_class_have_a_remedy(rare, options, remedy):
    labels = np.where(np.arange(60) < rare, "rare", np.where(np.arange(60) % 2, "a", "b"))
    with pytest.raises(ValueError, match=remedy):
        tw.cross_importance(CLASSES, np.random.default_rng(0).random((60, 2)), labels, progress=False, **options)
