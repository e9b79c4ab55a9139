"""Trees of Spark ML: leaves, weights and values are Spark's own, from a session and from a saved folder."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import fields

import numpy as np
import pytest
from scipy import sparse

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'truewood[spark]'")

from pyspark.ml.classification import RandomForestClassifier
from pyspark.ml.regression import GBTRegressor

import truewood as tw
from helpers.contract import draw_odd_rows, route
from helpers.spark_models import (
    CATEGORICAL,
    COLUMNS,
    MODELS,
    find_leaves,
    fit,
    fit_rows,
    get_spark,
    make_features,
    make_table,
    predict,
    read_vectors,
    to_spark,
)
from truewood._exceptions import TrainingRowsError
from truewood.adapters import open_model
from truewood.tabular._models.saved_model import view_spark
from truewood.testing import check_adapter

# pyspark warns of new releases of pandas.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]
N_SETS = 40


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(params=MODELS)
def case(request):
    return request.param


@pytest.fixture
def saved(case, folders):
    """A model as Spark has saved it, read without Spark."""
    path = folders / case.replace(" ", "-")
    if not path.exists():
        fit(case).save(str(path))
    return tw.load_spark_model(path)


def draw_rows(ensemble):
    rows = draw_odd_rows(ensemble, len(COLUMNS), 3, categorical=CATEGORICAL)
    rows[:20, CATEGORICAL[0]] = 1.5  # between two categories
    rows[20:40, CATEGORICAL[1]] = -1.0
    return rows


def number_leaves(ensemble, nodes):
    """Number of each node among the leaves of its tree, from left to right."""
    is_leaf = np.split(ensemble.left < 0, ensemble.offset[1:-1])
    return np.column_stack([(np.cumsum(leaves) - 1)[nodes[:, t]] for t, leaves in enumerate(is_leaf)])


def test_leaves_are_those_of_spark(case, saved, engine):
    model = fit(case)
    rows = draw_rows(saved.trees)
    assert np.isnan(rows).any()
    own = find_leaves(model, rows)
    for read in (model, saved):
        assert np.array_equal(number_leaves(saved.trees, route(read, rows)), own)


@pytest.mark.parametrize("name", ["tree of classes", "forest of numbers", "boosted classes"])
def test_spark_models_pass_the_contract(name):
    check_adapter(fit(name), read_vectors(make_features()[1]))


def test_some_splits_are_on_categories_and_some_keep_the_right_set():
    ensembles = [tw.to_ensemble(fit(case)) for case in ("forest of classes", "boosted numbers")]
    for ensemble in ensembles:
        nodes = np.flatnonzero(ensemble.categories.node_set >= 0)
        # Where the set that is kept is that of the right, left and right change places.
        assert {True, False} == set((ensemble.left[nodes] > ensemble.right[nodes]).tolist())


def test_a_session_and_a_folder_give_the_same_trees(case, saved):
    live = open_model(fit(case)).read(range(saved.trees.n_trees))
    for part in fields(tw.TreeEnsemble):
        a, b = getattr(live, part.name), getattr(saved.trees, part.name)
        if part.name == "categories":
            for name in ("node_set", "offset", "bits"):
                assert np.array_equal(getattr(a, name), getattr(b, name))
        elif part.name == "kind":
            assert a.n_columns == b.n_columns
        else:
            assert np.array_equal(a, b, equal_nan=part.name == "root_impurity")


def measure_impurity(value, name):
    if name == "gini":
        return 1.0 - (value**2).sum(axis=1)
    return -(value * np.log2(np.where(value > 0, value, 1.0))).sum(axis=1)


def test_weights_and_values_give_the_importances_of_spark(case, saved):
    ensemble, model = saved.trees, fit(case)
    splits = ensemble.splits
    left, right = ensemble.split_children
    weight, value = ensemble.weight, ensemble.value
    is_boosted = ensemble.is_additive
    if is_boosted:
        value = value / np.repeat(model.treeWeights, np.diff(ensemble.offset))[:, np.newaxis]
    if ensemble.kind.is_classification:
        lost = weight * measure_impurity(value, model.getOrDefault("impurity"))
        gain = lost[splits] - lost[left] - lost[right]
    else:
        gain = sum(weight[side] * (value[side, 0] - value[splits, 0]) ** 2 for side in (left, right))
    tree_of = np.searchsorted(ensemble.offset, splits, side="right") - 1
    gains = np.zeros((ensemble.n_trees, ensemble.n_features))
    np.add.at(gains, (tree_of, ensemble.split_features), gain)
    if not is_boosted:
        gains /= gains.sum(axis=1, keepdims=True)
    total = gains.sum(axis=0)
    np.testing.assert_allclose(total / total.sum(), model.featureImportances.toArray(), atol=1e-6)


def test_predictions_are_those_of_spark(case, saved):
    rows = draw_rows(saved.trees)
    own = predict(fit(case), rows)
    np.testing.assert_allclose(view_spark(saved).predict_probabilities(rows), own, rtol=1e-9, atol=1e-12)


def test_the_usual_importance_of_a_forest_is_sparks():
    model, X, table = fit("forest of classes"), read_vectors(make_features()[1]), make_table()
    result = tw.importance(model, X[:150], table["label"][:150], rows="heldout", measure="mdi")
    shares = result.per_tree / result.per_tree.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(shares.mean(axis=0), model.featureImportances.toArray(), atol=1e-6)


def draw_heldout(n_rows=300):
    stages, _ = make_features()
    table = make_table(n_rows, seed=1)
    return read_vectors(stages.transform(to_spark(table))), table


@pytest.mark.parametrize("target", ["label", "number", "three"])
def test_scores_of_heldout_rows(target):
    X, table = draw_heldout()
    for case in [case for case, estimator in MODELS.items() if estimator.keywords["labelCol"] == target]:
        result = tw.importance(fit(case), X, table[target], rows="heldout")
        assert set(np.argsort(result.values)[-2:]) == {0, 2}, case
        assert (result.p_value[[0, 2]] < 1e-3).all(), case
        assert result.p_value[4] > 1e-3, case


def test_boosted_classes_are_scored_by_the_gradient_of_sparks_loss():
    model = fit("boosted classes")
    X, table = draw_heldout()
    is_one, prior = table["label"], table["label"].mean()
    own = tw.importance(model, X, table["label"], rows="heldout")
    # Of 2 log(1 + exp(-2 y F)) at the constant whose probability is the prior.
    given = tw.importance(model, X, None, rows="heldout", target=4.0 * (is_one - prior))
    np.testing.assert_allclose(own.values, given.values, rtol=1e-12)


@pytest.mark.parametrize("rows", ["auto", "oob"])
def test_bags_are_not_recorded(case, saved, rows):
    X, table = draw_heldout(20)
    with pytest.raises(ValueError, match=f"rows='{rows}'.*{saved.name}"):
        tw.importance(saved, X, table[MODELS[case].keywords["labelCol"]], rows=rows)


@pytest.mark.parametrize(
    "case", ["tree of classes", "tree of numbers", "forest without bags", "boosted classes", "boosted numbers"]
)
def test_training_rows_are_recognized(case, saved):
    X, y = read_vectors(make_features()[1]), make_table()[MODELS[case].keywords["labelCol"]]
    with pytest.raises(TrainingRowsError, match="rows='heldout'"):
        tw.importance(saved, X, y, rows="heldout")


def test_columns_are_counted():
    X, table = draw_heldout(20)
    with pytest.raises(ValueError, match=r"\b5\b.*RandomForestClassificationModel.*\b4\b"):
        tw.importance(fit("forest of classes"), X[:, :4], table["label"], rows="heldout")


def test_unknown_labels_are_refused():
    X, _ = draw_heldout(20)
    with pytest.raises(ValueError, match=r"\by\b.*\b7\b"):
        tw.importance(fit("forest of classes"), X, np.full(20, 7), rows="heldout")


def test_sparse_rows_score_as_dense_ones():
    X, table = draw_heldout()
    model = fit("forest of numbers")
    dense, thin = (tw.importance(model, rows, table["number"], rows="heldout") for rows in (X, sparse.csr_array(X)))
    np.testing.assert_allclose(thin.values, dense.values, rtol=1e-12)


CONNECT = """
import sys
from pyspark.ml.linalg import Vectors
from pyspark.ml.regression import DecisionTreeRegressor
from pyspark.sql import SparkSession
import truewood as tw

spark = SparkSession.builder.remote("local[1]").config("spark.ui.enabled", "false").getOrCreate()
rows = [(Vectors.dense([float(i)]), float(i % 7)) for i in range(50)]
model = DecisionTreeRegressor().fit(spark.createDataFrame(rows, ["features", "label"]))
try:
    tw.to_ensemble(model)
except TypeError as error:
    print(error)
model.save(sys.argv[1])
spark.stop()
"""


@pytest.mark.cluster
def test_models_of_spark_connect_are_saved_and_loaded(tmp_path):
    pytest.importorskip("grpc", reason="Spark Connect is not installed: pip install 'pyspark[connect]'")
    # A process has one kind of session.
    variables = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    command = [sys.executable, "-c", CONNECT, str(tmp_path / "tree")]
    ended = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "tw.load_spark_model(path)" in (ended.stdout)
    assert tw.load_spark_model(tmp_path / "tree").trees.n_features == 1


def draw_noise(rng, n_rows=120):
    X = np.column_stack([rng.integers(0, 2, n_rows), rng.integers(0, 6, n_rows), rng.standard_normal(n_rows)])
    return X.astype(float), rng.integers(0, 2, n_rows).astype(float)


@pytest.mark.statistical
@pytest.mark.cluster
@pytest.mark.parametrize("boosted", [False, True])
def test_noise_scores_zero_and_importances_of_spark_do_not(boosted):
    get_spark()
    estimator = GBTRegressor(maxIter=3, maxDepth=3) if boosted else RandomForestClassifier(numTrees=5, maxDepth=3)
    scores, importances = [], []
    for seed in range(N_SETS):
        rng = np.random.default_rng(seed)
        (X, y), (X_new, y_new) = draw_noise(rng), draw_noise(rng)
        model = fit_rows(estimator, X, y)
        scores.append(tw.importance(model, X_new, y_new, rows="heldout", inference=False).values)
        importances.append(model.featureImportances.toArray())
    for values, is_zero in ((np.array(scores), True), (np.array(importances), False)):
        z = values.mean(axis=0) / (values.std(axis=0, ddof=1) / np.sqrt(N_SETS))
        assert (np.abs(z) < 4).all() if is_zero else z.min() > 4, z
    assert np.mean(importances, axis=0)[2] > 0.5  # of the column with the most values
