"""Sobol-MDA: columns projected out of trees, against the oracle and by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from imblearn.ensemble import BalancedRandomForestClassifier
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    AdaBoostRegressor,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import truewood as tw
from helpers.oracle import OracleTree, project_forest, project_rows, score_forest, step_in_arrays
from helpers.sklearn_models import build, draw_bag
from truewood import TargetKind, TreeEnsemble
from truewood._engines.records import RowLists
from truewood._engines.selection import ENGINE_VARIABLE, get_engine
from truewood._inputs.tables import FeatureMatrix
from truewood._inputs.target import ClassTarget, NumberTarget
from truewood._scoring import sobol_mda
from truewood._trees.categories import Categories

pytestmark = pytest.mark.filterwarnings("ignore:.* of \\d+ rows")


def make_data(seed=0, n_rows=120):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, 4))
    X[:, 1] = X[:, 0] + 0.3 * rng.standard_normal(n_rows)
    return X, X[:, 0] + 0.5 * X[:, 2] + rng.standard_normal(n_rows)


@pytest.fixture(scope="module")
def fitted():
    X, y = make_data()
    return RandomForestRegressor(10, min_samples_leaf=3, random_state=0).fit(X, y), X, y


def score(model, X, y, **options):
    return tw.importance(model, X, y, measure="sobol_mda", **options)


@pytest.mark.parametrize("name", ["rfr", "rf-three-classes", "bagging-repeated-columns"])
def test_groups_are_projected_out_together(name, engine):
    built = build(name, seed=1)
    result = score(built.model, built.X, built.y, contributions=True, feature_groups={"both": [0, 2]})
    groups = [[0, 2], [1], [3]]
    expected, added = project_forest(built.trees, built.dense, built.codes, built.n_classes, np.ones(60), groups)
    np.testing.assert_allclose(result.values, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(result.contributions, added, rtol=1e-12, atol=1e-12)
    by_column = result.expand()
    np.testing.assert_allclose(result.values[1:], by_column.values[[1, 3]], rtol=0, atol=0)
    assert abs(result.values[0] - by_column.values[[0, 2]].sum()) > 1e-3


def test_all_columns_together_lose_what_the_forest_explains(fitted, engine):
    forest, X, y = fitted
    result = score(forest, X, y, feature_groups={"all": [0, 1, 2, 3]}, contributions=True)
    evaluation = [np.setdiff1d(np.arange(120), bag) for bag in forest.estimators_samples_]
    total, roots, n = np.zeros(120), np.zeros(120), np.zeros(120)
    for tree, rows in zip(forest.estimators_, evaluation, strict=True):
        total[rows] += tree.predict(X[rows])
        roots[rows] += tree.tree_.value[0, 0, 0]
        n[rows] += 1
    y, total, roots = (part[n > 0] for part in (y, total / np.maximum(n, 1), roots / np.maximum(n, 1)))
    lost = ((y - roots) ** 2 - (y - total) ** 2).sum() / ((y - y.mean()) ** 2).sum()
    np.testing.assert_allclose(result.values, [lost], rtol=1e-12)
    np.testing.assert_array_equal(result.share, result.values)
    assert result.impurity == pytest.approx(y.var())


def stump_below(feature):
    """A root on column 0, and below its right child a split on column `feature`."""
    return TreeEnsemble(
        feature=[0, -1, feature, -1, -1],
        threshold=[0.5, 0, 0.5, 0, 0],
        left=[1, -1, 3, -1, -1],
        right=[2, -1, 4, -1, -1],
        missing_left=[True] * 5,
        weight=[4, 2, 2, 1, 1],
        value=[[2.5], [1], [4], [3], [5]],
        offset=[0, 5],
        root_impurity=[1],
        n_features=2,
        kind=TargetKind(),
    )


def project(ensemble, X, in_bag, y, weight, evaluation, group_of, n_groups):
    """Predictions of an ensemble of one tree without each group, shape (n_evaluation, n_groups)."""
    matrix = FeatureMatrix(np.asarray(X, dtype=np.float32), np.array(["a", "b"]), bool(np.isnan(X).any()))
    out = np.zeros((len(X), n_groups, 1))
    target = NumberTarget.of_numbers(np.asarray(y, dtype=np.float64)[:, np.newaxis])
    rows = [RowLists.join([np.asarray(listed)]) for listed in (in_bag, evaluation)]
    own, group_of = np.zeros((len(evaluation), 1)), np.asarray(group_of, dtype=np.int32)
    weight = np.asarray(weight, dtype=np.float64)
    get_engine().add_sobol_projection(
        ensemble,
        matrix,
        target,
        in_bag=rows[0],
        in_bag_weight=weight,
        evaluation=rows[1],
        prediction=own,
        tree_weight=np.ones(1),
        group_of=group_of,
        out=out,
    )
    return out[evaluation, :, 0]


def test_by_hand(engine):
    # Training rows: two left of the root (y 0 and 2), one at each of the two leaves on its right (3 and 5).
    X = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [0, 0], [1, 1], [np.nan, 1]], dtype=float)
    y = [0, 2, 3, 5, 0, 0, 0]
    without = project(stump_below(1), X, [0, 1, 2, 3], y, [1, 1, 1, 3], [4, 5, 6], [0, 1], 2)
    # Without column 0, only column 1 distinguishes rows; without column 1 only those on the right change.
    np.testing.assert_array_equal(without[:, 0], [(0 + 3) / 2, (2 + 15) / 4, (2 + 15) / 4])
    np.testing.assert_array_equal(without[:, 1], [0, (3 + 15) / 4, 0])


def test_a_row_whose_next_cell_is_empty_keeps_the_mean_of_its_cell(engine):
    # Without column 0 no in-bag row goes right on column 1, but the evaluation row does.
    X = np.array([[0, 0], [1, 0], [1, 0], [0, 1]], dtype=float)
    without = project(stump_below(1), X, [0, 1, 2], [1, 3, 8, 0], [1, 1, 1], [3], [0, -1], 1)
    np.testing.assert_array_equal(without, [[(1 + 3 + 8) / 3]])


@st.composite
def forests(draw):
    """A tree with thresholds, categories and missing values on three columns, rows, and weights in the bag."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_splits = draw(st.integers(0, 12))
    left, right = np.full(2 * n_splits + 1, -1), np.full(2 * n_splits + 1, -1)
    leaves = [0]
    for k in range(n_splits):
        node = leaves.pop(0 if rng.random() < 0.7 else int(rng.integers(len(leaves))))
        left[node], right[node] = 2 * k + 1, 2 * k + 2
        leaves += [2 * k + 1, 2 * k + 2]
    n_nodes, is_split = len(left), left >= 0
    n_classes = draw(st.sampled_from([0, 2, 3]))
    kind = TargetKind((np.arange(n_classes),)) if n_classes else TargetKind((), 2)
    is_set = is_split & (rng.random(n_nodes) < 0.4)
    node_set = np.where(is_set, np.cumsum(is_set) - 1, -1)
    n_sets = int(is_set.sum())
    ensemble = TreeEnsemble(
        feature=np.where(is_split, rng.integers(0, 3, n_nodes), -1),
        threshold=rng.integers(0, 4, n_nodes) + 0.5,
        left=left,
        right=right,
        missing_left=rng.random(n_nodes) < 0.5,
        weight=np.ones(n_nodes),
        value=np.zeros((n_nodes, kind.n_columns)),
        offset=[0, n_nodes],
        root_impurity=[1],
        n_features=3,
        kind=kind,
        categories=Categories(node_set, np.arange(n_sets + 1), rng.integers(0, 32, n_sets)) if n_sets else None,
    )
    n_rows = draw(st.integers(2, 40))
    X = rng.integers(0, 5, (n_rows, 3)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    weight = rng.integers(0, 3, n_rows).astype(float)
    weight[0] = 2.0
    y = rng.integers(0, n_classes, (n_rows, 1)) if n_classes else rng.standard_normal((n_rows, 2))
    target = ClassTarget(kind, y.astype(np.int32)) if n_classes else NumberTarget(kind, y, np.zeros(2))
    return ensemble, X, target, weight, draw(st.booleans())


@settings(max_examples=60, deadline=None)
@given(case=forests(), group_of=st.lists(st.integers(-1, 1), min_size=3, max_size=3))
def test_any_tree(engines, case, group_of):
    ensemble, X, target, weight, is_sparse = case
    in_bag, evaluation = np.flatnonzero(weight), np.flatnonzero(weight == 0)
    values = sparse.csr_matrix(np.nan_to_num(X)) if is_sparse else X
    X = np.nan_to_num(X) if is_sparse else X
    matrix = FeatureMatrix(values, np.array(["a", "b", "c"]), bool(np.isnan(X).any()))
    found = []
    with pytest.MonkeyPatch.context() as patch:
        for engine in engines:
            patch.setenv(ENGINE_VARIABLE, engine)
            out = np.zeros((len(X), 2, target.kind.n_columns))
            get_engine().add_sobol_projection(
                ensemble,
                matrix,
                target,
                in_bag=RowLists.join([in_bag]),
                in_bag_weight=weight[in_bag],
                evaluation=RowLists.join([evaluation]),
                prediction=np.zeros((len(evaluation), target.kind.n_columns)),
                tree_weight=np.ones(1),
                group_of=np.array(group_of, dtype=np.int32),
                out=out,
            )
            found.append(out)
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])
    targets = target.vectors.tolist()

    def children(node):
        return () if ensemble.left[node] < 0 else (int(ensemble.left[node]), int(ensemble.right[node]))

    def is_out(node, group):
        return group_of[ensemble.feature[node]] == group

    training = [(row, weight[row]) for row in in_bag.tolist()]
    for group in (0, 1):
        expected = project_rows(
            0,
            children,
            lambda node, group=group: is_out(node, group),
            lambda node, row: step_in_arrays(ensemble, node, X[row]),
            training,
            evaluation.tolist(),
            targets,
        )
        for row, mean in expected.items():
            path = [0]
            while children(path[-1]) and not is_out(path[-1], group):
                path.append(step_in_arrays(ensemble, path[-1], X[row]))
            meets = bool(children(path[-1])) and any(reaches(ensemble, path[-1], X[r]) for r, _ in training)
            np.testing.assert_allclose(found[0][row, group], mean if meets else 0.0, rtol=1e-12, atol=1e-12)


def reaches(ensemble, node, x):
    at = 0
    while at != node and ensemble.left[at] >= 0:
        at = step_in_arrays(ensemble, at, x)
    return at == node


def test_blocks_and_batches_change_no_bit(fitted, engine, monkeypatch):
    _, X, y = fitted
    labels = np.digitize(y, [-0.5, 0.8])
    forest = RandomForestRegressor(4, max_depth=3, random_state=0).fit(X, y)
    classifier = RandomForestClassifier(4, max_depth=3, random_state=0).fit(X, labels)
    for model, target in ((forest, y), (classifier, labels)):
        whole = score(model, X, target, contributions=True)
        for name, size in (("_MOST_VALUES", 1), ("_MOST_VALUES", 800), ("_BATCH_NODES", 1), ("_BATCH_VALUES", 500)):
            with monkeypatch.context() as patch:
                patch.setattr(sobol_mda, name, size)
                again = score(model, X, target, contributions=True, n_jobs=3)
            # Predictions of batches are summed batch by batch.
            np.testing.assert_allclose(again.contributions, whole.contributions, rtol=1e-12, atol=1e-15)
            np.testing.assert_allclose(again.p_value, whole.p_value, rtol=1e-9)


def test_the_number_of_threads_changes_no_bit(fitted, engine):
    _, X, y = fitted
    forest = RandomForestRegressor(12, max_depth=4, random_state=0).fit(X, y)
    one = score(forest, X, y, contributions=True, n_jobs=1)
    for n_jobs in (2, 5, -1):
        np.testing.assert_array_equal(
            score(forest, X, y, contributions=True, n_jobs=n_jobs).contributions, one.contributions
        )


def test_lists_of_evaluation_rows(fitted, engine):
    _, X, y = fitted
    forest = RandomForestRegressor(10, max_depth=3, random_state=0).fit(X, y)
    lists = [np.setdiff1d(np.arange(120), bag) for bag in forest.estimators_samples_]
    np.testing.assert_array_equal(score(forest, X, y, rows=lists).values, score(forest, X, y).values)
    twice = [np.concatenate([rows, rows[:5]]) for rows in lists]
    np.testing.assert_array_equal(score(forest, X, y, rows=twice).values, score(forest, X, y).values)
    result = score(forest, X, y, rows=[rows[:10] for rows in lists], contributions=True)
    listed = np.unique(np.concatenate([rows[:10] for rows in lists]))
    assert np.setdiff1d(np.flatnonzero(result.contributions.any(axis=1)), listed).size == 0


def test_contributions_add_up_and_errors_are_their_spread(fitted):
    _, X, y = fitted
    forest = RandomForestRegressor(30, min_samples_leaf=3, random_state=0).fit(X, y)
    plain = score(forest, X, y, contributions=True)
    np.testing.assert_allclose(plain.contributions.sum(axis=0), plain.values, rtol=1e-12)
    spread = np.sqrt(((plain.contributions - plain.values / 120) ** 2).sum(axis=0))
    np.testing.assert_allclose(plain.null_std_error, spread, rtol=1e-12)
    np.testing.assert_array_equal(plain.std_error, plain.null_std_error)
    assert np.isnan(plain.total_p_value)


def test_columns_of_a_pipeline_go_together():
    rng = np.random.default_rng(0)
    letters, number = rng.choice(list("abcd"), 150), rng.standard_normal(150)
    y = (letters == "a") * 2.0 + number + rng.standard_normal(150)
    table = pd.DataFrame({"letter": letters, "number": number})
    encode = make_column_transformer((OneHotEncoder(), ["letter"]), remainder="passthrough")
    model = make_pipeline(encode, RandomForestRegressor(20, min_samples_leaf=3, random_state=0)).fit(table, y)
    result = score(model, table, y)
    encoded = encode.transform(table)
    groups = ["letter"] * 4 + ["number"]
    np.testing.assert_array_equal(result.values, score(model[-1], encoded, y, feature_groups=groups).values)
    assert result.feature_names.tolist() == ["letter", "number"]
    assert result.select().all()


def test_what_cannot_be_scored_is_refused(fitted):
    forest, X, y = fitted
    fresh = make_data(1)
    with pytest.raises(ValueError, match=r"'sobol_mda'.*rows='oob'"):
        score(forest, *fresh, rows="heldout")
    boosted = GradientBoostingRegressor(n_estimators=5).fit(X, y)
    with pytest.raises(ValueError, match=r"'sobol_mda'.*GradientBoosting"):
        score(boosted, *fresh, rows="heldout")
    every = ExtraTreesRegressor(5, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"ExtraTreesRegressor.*boot"):
        score(every, X, y)
    adaboost = AdaBoostRegressor(n_estimators=5, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="sobol_mda"):
        score(adaboost, *fresh, rows="heldout")
    with pytest.raises(ValueError, match=r"inference='bags'.*'sobol_mda'"):
        score(forest, X, y, inference="bags")
    for labels in (np.arange(120), np.arange(120) // 2):
        with pytest.raises(ValueError, match=r"groups.*measure='sobol_mda'"):
            score(forest, X, y, groups=labels)
    labels = RandomForestClassifier(5, random_state=0).fit(X, y > 0)
    with pytest.raises(ValueError, match=r"per_class=True.*measure='sobol_mda'"):
        score(labels, X, y > 0, per_class=True)
    still = RandomForestRegressor(5, random_state=0).fit(X, np.ones(120))
    with pytest.raises(ValueError, match=r"\by\b.*(varies|same|constant)"):
        score(still, X, np.ones(120))


def test_out_of_bag_rows_of_no_class_in_the_bags_are_refused(engine):
    X, y = make_data()
    labels = (y > 1.0).astype(int)
    # Every tree saw all rows of class 1, and those of class 0 have no weight in its bag.
    options = {"sampling_strategy": "auto", "replacement": False, "bootstrap": False, "class_weight": {0: 0.0, 1: 1.0}}
    forest = BalancedRandomForestClassifier(5, random_state=0, **options).fit(X, labels)
    with pytest.raises(ValueError, match=r"'sobol_mda'.*out-of-bag.*class"):
        score(forest, X, labels)


@pytest.mark.parametrize("n_columns", [1, 2])
@pytest.mark.parametrize("n_classes", [None, 2, 3])
def test_few_columns_and_classes_that_are_not_in_the_bags(n_classes, n_columns, engine):
    X, y = make_data(n_rows=60)
    X = X[:, :n_columns]
    if n_classes is None:
        forest = RandomForestRegressor(3, random_state=0).fit(X, y)
    else:
        y = np.digitize(y, [-0.5, 1.0][: n_classes - 1])
        sizes = {0: 9, 1: 7, 2: 0}  # no bag holds the third class
        options = {"sampling_strategy": {k: sizes[k] for k in range(n_classes)}, "replacement": True}
        forest = BalancedRandomForestClassifier(3, random_state=0, **options).fit(X, y)
    trees = []
    for t, tree in enumerate(forest.estimators_):
        bag = np.bincount(draw_bag(forest, t), minlength=60)
        rows = [[(row, float(bag[row])) for row in part] for part in (np.flatnonzero(bag), np.flatnonzero(bag == 0))]
        trees.append(OracleTree(tree.tree_, range(n_columns), *rows, []))
    classes = None if n_classes is None else [n_classes]
    expected = score_forest("sobol_mda", trees, X, y[:, np.newaxis], classes)
    np.testing.assert_allclose(score(forest, X, y).values, expected, rtol=1e-12)
    assert np.abs(expected).min() > 0.01


def test_rows_that_every_tree_saw_are_named():
    X, y = make_data()
    forest = RandomForestRegressor(3, random_state=0).fit(X, y)
    bags = np.array([np.bincount(bag, minlength=120) > 0 for bag in forest.estimators_samples_])
    with pytest.warns(UserWarning, match=f"{bags.all(axis=0).sum()} of 120 rows"):
        score(forest, X, y)


def test_trees_without_splits_score_zero(engine):
    X, y = make_data()
    result = score(RandomForestRegressor(5, min_samples_split=1000, random_state=0).fit(X, y), X, y)
    np.testing.assert_array_equal(result.values, 0.0)
    np.testing.assert_array_equal(result.p_value, 1.0)


def test_a_result_is_drawn_saved_and_compared(fitted, tmp_path):
    pytest.importorskip("altair")
    forest, X, y = fitted
    result = score(forest, X, y, contributions=True)
    result.save(tmp_path / "result.json")
    again = tw.load(tmp_path / "result.json")
    np.testing.assert_array_equal(again.contributions, result.contributions)
    assert np.isnan(again.total_error)
    for kind in ("bar", "compare", "rank"):
        assert result.plot(kind).get_title()
    with pytest.raises(ValueError, match=r"kind='box'.*'sobol_mda'"):
        result.plot("box")
    other = score(RandomForestRegressor(10, random_state=1).fit(X, y), X, y, contributions=True)
    assert np.isfinite(tw.compare(result, other).p_value).all()
    result.report(tmp_path / "report.html", X=X)
    assert "Sobol-MDA" in (tmp_path / "report.html").read_text(encoding="utf-8")
