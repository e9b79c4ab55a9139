"""Folders of Spark ML, read without Spark: trees known in closed form, layouts of its versions, and broken folders."""

from __future__ import annotations

import copy
import json
import shutil

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'truewood[cli]'")

import truewood as tw
from helpers.contract import route
from helpers.spark_folders import TREES, save_forest, save_pipeline

LAYOUTS = {"4.1": ("_1", "_2", "_3"), "4.0": ("treeID", "metadata", "weights")}


@pytest.mark.parametrize("version", LAYOUTS)
def test_trees_are_those_of_the_folder(version, tmp_path):
    ensemble = tw.load_spark_model(save_forest(tmp_path / "m", names=LAYOUTS[version])).trees
    assert ensemble.offset.tolist() == [0, 5, 6]
    assert ensemble.left.tolist() == [1, -1, 4, -1, -1, -1]  # of categories, what the smaller set leads to
    assert ensemble.right.tolist() == [2, -1, 3, -1, -1, -1]
    assert ensemble.threshold[0] == 0.5
    assert ensemble.weight.tolist() == [10, 4, 6, 5, 1, 10]
    assert ensemble.value[:, 0].tolist() == [2, -1, 4, 3, 9, 2]
    # By hand a tenth of the 1 that is added to the sum of squares; 4 is subtracted from 4.1.
    np.testing.assert_allclose(ensemble.root_impurity, 0.1, rtol=1e-14)


def test_unknown_categories_and_missing_values_go_beside_the_smaller_set(tmp_path, engine):
    model = tw.load_spark_model(save_forest(tmp_path / "m"))
    x = [0.5, np.nextafter(0.5, 1), 1, 1, 1, 1, 1, np.nan, np.nan]
    color = [1.0, 1.0, 0, 1, 2, 3, np.nan, 1, 1.5]
    assert route(model, np.column_stack([x, color]))[:, 0].tolist() == [1, 4, 3, 4, 3, 3, 3, 4, 3]


def test_nodes_of_spark_2_are_not_counted(tmp_path):
    trees = [[{key: part for key, part in node.items() if key != "rawCount"} for node in tree] for tree in TREES]
    model = tw.load_spark_model(save_forest(tmp_path / "m", trees=trees))
    assert (model.node_counts == -1).all()
    assert model.trees.weight[0] == 10


def test_a_model_is_described(tmp_path):
    text = (
        "SparkModel(RandomForestRegressionModel, Spark 4.1.0, TreeEnsemble(2 trees, 6 nodes, 2 features, regression, "
    )
    assert repr(tw.load_spark_model(save_forest(tmp_path / "m"))).startswith(text)
    assert (
        repr(tw.load_spark_model(save_pipeline(tmp_path / "p"))) == "SparkModel(PipelineModel, Spark 4.1.0, 3 stages)"
    )


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def without_node(tree, number):
    trees = copy.deepcopy(TREES)
    del trees[tree][number]
    return trees


def with_threshold(numbers):
    trees = copy.deepcopy(TREES)
    trees[0][0]["split"]["leftCategoriesOrThreshold"] = numbers
    return trees


BROKEN = {
    "another model": (
        lambda folder: save_forest(folder, class_name="org.apache.spark.ml.classification.LogisticRegressionModel"),
        "LogisticRegressionModel",
    ),
    "an empty folder": (lambda folder: folder.mkdir(), "Spark ML"),
    "no folder": (lambda _folder: None, "m"),
    "a file": (lambda folder: folder.write_text("x"), "Spark ML"),
    "other JSON": (lambda folder: write_metadata(folder, "[1]"), "metadata"),
    "no JSON": (lambda folder: write_metadata(folder, "{"), "metadata"),
    "empty metadata": (
        lambda folder: write_metadata(folder, ""),
        "metadata",
    ),
    "no nodes": (lambda folder: shutil.rmtree(save_forest(folder) / "data"), "Parquet"),
    "a cut file": (
        lambda folder: cut(next((save_forest(folder) / "data").glob("*.parquet"))),
        "Parquet",
    ),
    "no part": (
        lambda folder: next((save_forest(folder) / "data").glob("*.parquet")).unlink(),
        "no rows",
    ),
    "no weights": (
        lambda folder: shutil.rmtree(save_forest(folder) / "treesMetadata"),
        "treesMetadata",
    ),
    "a missing tree": (
        lambda folder: save_forest(folder, n_trees=3),
        "3 trees",
    ),
    "a missing node": (lambda folder: save_forest(folder, trees=without_node(0, 3)), "nodes"),
    "a missing last node": (lambda folder: save_forest(folder, trees=without_node(0, 4)), "RandomForest"),
    "two thresholds": (
        lambda folder: save_forest(folder, trees=with_threshold([0.5, 1.0])),
        "threshold",
    ),
    "a missing stage": (
        lambda folder: shutil.rmtree(save_pipeline(folder) / "stages" / "0_indexer"),
        "stage 0 (indexer)",
    ),
}


def write_metadata(folder, text):
    (folder / "metadata").mkdir(parents=True)
    (folder / "metadata" / "part-00000").write_text(text)


@pytest.mark.parametrize("case", BROKEN)
def test_broken_folders(case, tmp_path):
    make, words = BROKEN[case]
    make(tmp_path / "m")
    with pytest.raises(ValueError, match="m") as caught:
        tw.load_spark_model(tmp_path / "m")
    assert words in str(caught.value)
    assert str(tmp_path / "m") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_metadata_of_another_loss_has_no_target(tmp_path):
    folder = save_forest(tmp_path / "m", class_name="org.apache.spark.ml.regression.GBTRegressionModel")
    part = folder / "metadata" / "part-00000"
    content = json.loads(part.read_text())
    content["paramMap"]["lossType"] = "cubic"
    part.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"lossType='cubic'.*GBTRegressionModel.*target="):
        tw.importance(tw.load_spark_model(folder), [[0.0, 1.0], [1.0, 0.0]], [1.0, 2.0], rows="heldout")
