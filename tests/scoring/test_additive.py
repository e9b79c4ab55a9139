"""Trees that add up to a raw score, against plain loops over rows and nodes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import truewood as tw
from helpers.oracle import leave_residuals_of_arrays, score_arrays, score_residuals_of_arrays
from truewood import TargetKind, TreeEnsemble
from truewood._trees.categories import Categories

N_ROWS, N_FEATURES = 80, 4
CATEGORICAL = 3


def grow(rng, n_trees, *, n_columns=1, columns=None, categories=True, x_dtype="float32"):
    """Random trees: structure, thresholds, category sets, weights and leaf values."""
    parts = {name: [] for name in ("feature", "threshold", "left", "right", "missing_left", "weight", "value")}
    nodes, sets, offset = [], [], [0]
    for _ in range(n_trees):
        start, pending, n_nodes = offset[-1], [0], 1
        tree = {}
        while pending:
            node = pending.pop(0)
            if n_nodes < 15 and rng.random() < 0.8:
                tree[node] = (n_nodes, n_nodes + 1)
                pending += [n_nodes, n_nodes + 1]
                n_nodes += 2
        weight = np.zeros(n_nodes)
        for node in reversed(range(n_nodes)):
            weight[node] = sum(weight[child] for child in tree[node]) if node in tree else rng.integers(1, 9)
        for node in range(n_nodes):
            feature = int(rng.integers(N_FEATURES))
            if node in tree and categories and feature == CATEGORICAL:
                nodes.append(start + node)
                sets.append(rng.choice(70, size=int(rng.integers(1, 30)), replace=False))
            children = tree.get(node, (-1 - start, -1 - start))
            row = (feature, rng.standard_normal(), *(start + child for child in children), rng.random() < 0.5)
            for name, value in zip(parts, row, strict=False):
                parts[name].append(value)
        parts["weight"] += weight.tolist()
        parts["value"] += rng.standard_normal((n_nodes, n_columns)).tolist()
        offset.append(start + n_nodes)
    return TreeEnsemble(
        **parts,
        offset=offset,
        root_impurity=np.full(n_trees, np.nan),
        n_features=N_FEATURES,
        kind=TargetKind((), n_columns),
        statistic="leaf",
        x_dtype=x_dtype,
        categories=Categories.from_lists(offset[-1], nodes, sets),
        column=columns,
        is_additive=True,
    )


def draw(rng, missing=True):
    X = rng.standard_normal((N_ROWS, N_FEATURES))
    X[:, CATEGORICAL] = rng.choice([-1.0, *range(72), 1e9], N_ROWS)
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X


SHAPES = {
    "one score": {"n_trees": 5, "columns": [0] * 5},
    "three scores": {"n_trees": 6, "columns": [0, 1, 2, 0, 1, 2]},
    "vector leaves": {"n_trees": 3, "n_columns": 3},
    "float64": {"n_trees": 4, "columns": [0] * 4, "x_dtype": "float64"},
    "no categories": {"n_trees": 4, "columns": [0] * 4, "categories": False},
}


@pytest.mark.parametrize("measure", ["ufi_centered", "mdi", "mdi_oob"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(4))
def test_scores_are_those_of_the_definition(shape, measure, seed, engine):
    rng = np.random.default_rng(seed)
    trees, X = grow(rng, **SHAPES[shape]), draw(rng, missing=seed % 2 == 0)
    n_scores = 1 + max(SHAPES[shape].get("columns", [2]))
    target = rng.standard_normal((N_ROWS, n_scores)) + 100.0
    weight = rng.integers(1, 4, N_ROWS).astype(float)
    result = tw.importance(trees, X, None, rows="heldout", measure=measure, target=target, sample_weight=weight)
    centered = target - np.average(target, axis=0, weights=weight)
    outputs = [range(SHAPES[shape].get("n_columns", 1))]
    expected = sum(score_arrays(measure, trees, X, centered, weight, [range(N_ROWS)] * trees.n_trees, outputs))[:, 0]
    np.testing.assert_allclose(result.values, expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(result.per_tree.sum(axis=0), expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(result.per_output.sum(axis=0), expected, rtol=1e-10, atol=1e-12)
    assert result.per_output.shape == (n_scores, N_FEATURES)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(2))
def test_residual_tests_are_those_of_plain_loops(shape, seed, engine):
    del engine
    rng = np.random.default_rng([seed, 5])
    trees, X = grow(rng, **SHAPES[shape]), draw(rng, missing=seed == 0)
    target = rng.standard_normal((N_ROWS, 1 + max(SHAPES[shape].get("columns", [2])))) + X[:, :1] ** 2
    target = np.nan_to_num(target, nan=1.0)
    options = {"rows": "heldout", "target": target, "inference": "residual"}
    result = tw.importance(trees, X, None, contributions=True, **options)
    for feature in range(N_FEATURES):
        residual = leave_residuals_of_arrays(trees, X, target, feature)
        by_row = score_residuals_of_arrays(trees, X, residual, feature).sum(axis=0)
        np.testing.assert_allclose(result.residual_contributions[:, feature], by_row, rtol=1e-9, atol=1e-11)
        assert result.residual_values[feature] == pytest.approx(by_row.sum(), rel=1e-9, abs=1e-11)
        error = np.sqrt(((by_row - by_row.mean()) ** 2).sum())
        assert result.residual_std_error[feature] == pytest.approx(error, rel=1e-9)


@pytest.mark.parametrize("shape", ["three scores", "vector leaves"])
def test_engines_and_threads_agree_on_residual_tests_of_several_scores(shape, engines):
    rng = np.random.default_rng(7)
    trees, X = grow(rng, **SHAPES[shape]), draw(rng)
    options = {"rows": "heldout", "target": rng.standard_normal((N_ROWS, 3)), "inference": "residual"}
    first, *others = (
        tw.importance(trees, X, None, engine=engine, n_jobs=n_jobs, **options)
        for engine in engines
        for n_jobs in (1, 3)
    )
    for other in others:
        np.testing.assert_array_equal(other.residual_values, first.residual_values)
        np.testing.assert_array_equal(other.residual_std_error, first.residual_std_error)


def test_a_sparse_matrix_may_leave_out_missing_values(engine):
    from dataclasses import replace

    from truewood._engines.records import RowLists
    from truewood._engines.selection import get_engine
    from truewood._inputs.tables import read_features
    from truewood.adapters import open_model

    rng = np.random.default_rng(0)
    trees, X = grow(rng, 4, columns=[0] * 4), draw(rng, missing=False)
    X[rng.random(X.shape) < 0.5] = 0.0
    form = open_model(trees).table
    rows = RowLists.join([np.arange(N_ROWS)] * 4)
    for fill in (0.0, np.nan):
        dense = np.where(X == 0, fill, X)
        leaves = [
            get_engine().find_leaves(trees, read_features(table, replace(form, sparse_fill=fill)), rows)
            for table in (dense, sparse.csr_array(X))
        ]
        np.testing.assert_array_equal(leaves[0], leaves[1])


def test_ufi_means_its_shift_free_form():
    rng = np.random.default_rng(0)
    trees, X = grow(rng, 3, columns=[0] * 3), draw(rng)
    target = rng.standard_normal(N_ROWS)
    result = tw.importance(trees, X, None, rows="heldout", target=target)
    assert result.measure == "ufi_centered"
    assert np.isnan(result.share).all()


def test_target_may_be_a_function_of_y():
    rng = np.random.default_rng(0)
    trees, X = grow(rng, 3, columns=[0] * 3), draw(rng)
    y = rng.standard_normal(N_ROWS)
    a = tw.importance(trees, X, y, rows="heldout", target=lambda given: given**2)
    b = tw.importance(trees, X, None, rows="heldout", target=y**2)
    np.testing.assert_array_equal(a.values, b.values)


def bad_calls():
    rng = np.random.default_rng(0)
    trees, X = grow(rng, 3, columns=[0, 1, 0]), draw(rng)
    y = rng.standard_normal((N_ROWS, 2))
    return {
        "no target": (trees, X, y, {}, r"loss.*target="),
        "one column": (trees, X, None, {"target": y[:, 0]}, r"^target\b.*\(n_rows, 2\)"),
        "text": (trees, X, None, {"target": np.full((N_ROWS, 2), "a")}, r"^target\b.*numbers"),
        "nan": (trees, X, None, {"target": np.where(y > 2, np.nan, y)}, r"^target\b.*NaN"),
        "rows": (trees, X, None, {"target": y[1:]}, r"\bX and target\b.*\b80\b.*\b79\b"),
        "permutation": (trees, X, None, {"target": y, "measure": "permutation"}, "'permutation'"),
        "naive": (trees, X, None, {"target": y, "measure": "loss_oob"}, "'ufi', 'ufi_centered', 'mdi', 'mdi_oob'"),
    }


@pytest.mark.parametrize("name", bad_calls())
def test_errors_suggest_what_to_do(name):
    trees, X, y, options, message = bad_calls()[name]
    with pytest.raises(ValueError, match=message):
        tw.importance(trees, X, y, rows="heldout", **options)


def test_a_forest_takes_no_target():
    from sklearn.ensemble import RandomForestRegressor

    X = np.random.default_rng(0).standard_normal((50, 2))
    forest = RandomForestRegressor(3).fit(X, X[:, 0])
    with pytest.raises(ValueError, match=r"target.*RandomForestRegressor"):
        tw.importance(forest, X, X[:, 0], target=X[:, 0])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (([-1, 1], [0, 1], [1]), r"node_set.*-1\.\.0.*-1 to 1"),
        (([-1, 0], [0, 2], [1]), r"offset.*\b0\b.*words.*\b1\b.*got 0, 2"),
        (([-1, 0.5], [0, 1], [1]), r"node_set\b"),
        (([-1, 0], [0, 1], [-1]), r"bits.*0\.\.4294967295"),
        (([[-1, 0]], [0, 1], [1]), r"node_set.*dimension.*\(1, 2\)"),
    ],
)
def test_broken_category_sets_are_refused(arrays, message):
    with pytest.raises(ValueError, match=message):
        Categories(*arrays)


def test_negative_categories_are_refused():
    with pytest.raises(ValueError, match=r"categories.*negative"):
        Categories.from_lists(2, [0], [[-1, 3]])
