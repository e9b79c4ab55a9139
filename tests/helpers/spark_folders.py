"""Folders as Spark ML saves models in them, written without Spark: a forest of two trees, and a pipeline around it."""

from __future__ import annotations

import json

import pyarrow as pa
from pyarrow import parquet

FOREST = "org.apache.spark.ml.regression.RandomForestRegressionModel"
PARAMS = {"featuresCol": "features", "labelCol": "y", "predictionCol": "prediction", "impurity": "variance"}


def make_node(number, weight, mean, left=-1, right=-1, feature=-1, numbers=(), n_categories=-1):
    """A node whose targets are all alike, but for the splits below it."""
    return {
        "id": number,
        "prediction": mean,
        "impurity": 0.0,
        "impurityStats": [weight, weight * mean, weight * mean**2 + 1.0],
        "rawCount": int(weight),
        "gain": 0.0,
        "leftChild": left,
        "rightChild": right,
        "split": {"featureIndex": feature, "leftCategoriesOrThreshold": list(numbers), "numCategories": n_categories},
    }


# The first splits x at 0.5, and then color, of which the right set is the smaller one; the second is a leaf.
TREES = [
    [
        make_node(0, 10.0, 2.0, 1, 2, feature=0, numbers=[0.5]),
        make_node(1, 4.0, -1.0),
        make_node(2, 6.0, 4.0, 3, 4, feature=1, numbers=[0.0, 2.0], n_categories=3),
        make_node(3, 5.0, 3.0),
        make_node(4, 1.0, 9.0),
    ],
    [make_node(0, 10.0, 2.0)],
]


def write_table(folder, rows):
    folder.mkdir(parents=True)
    parquet.write_table(pa.Table.from_pylist(rows), folder / "part-00000-c000.snappy.parquet")
    (folder / "_SUCCESS").touch()


def write_metadata(folder, class_name, params, **others):
    (folder / "metadata").mkdir(parents=True)
    content = {
        "class": class_name,
        "sparkVersion": "4.1.0",
        "uid": "uid",
        "paramMap": params,
        "defaultParamMap": {},
        **others,
    }
    (folder / "metadata" / "part-00000").write_text(json.dumps(content) + "\n", encoding="utf-8")
    (folder / "metadata" / "_SUCCESS").touch()


def save_forest(folder, *, names=("_1", "_2", "_3"), trees=TREES, n_trees=2, class_name=FOREST):
    """A forest; `names` are those of the columns of treesMetadata."""
    write_metadata(folder, class_name, PARAMS, numFeatures=2, numTrees=n_trees)
    nodes = [{"treeID": tree, "nodeData": node} for tree, listed in enumerate(trees) for node in listed]
    write_table(folder / "data", nodes[::-1])
    weights = [dict(zip(names, (tree, "{}", 1.0), strict=True)) for tree in range(n_trees)]
    write_table(folder / "treesMetadata", weights[::-1])
    return folder


def save_pipeline(folder, labels=("red", "green", "blue")):
    """A pipeline that indexes color and takes x as it is."""
    write_metadata(folder, "org.apache.spark.ml.PipelineModel", {"stageUids": ["indexer", "assembler", "forest"]})
    indexer, assembler, forest = (
        folder / "stages" / f"{place}_{name}" for place, name in enumerate(["indexer", "assembler", "forest"])
    )
    params = {"inputCol": "color", "outputCol": "index", "handleInvalid": "keep"}
    write_metadata(indexer, "org.apache.spark.ml.feature.StringIndexerModel", params)
    write_table(indexer / "data", [{"labelsArray": [list(labels)]}])
    params = {"inputCols": ["x", "index"], "outputCol": "features", "handleInvalid": "keep"}
    write_metadata(assembler, "org.apache.spark.ml.feature.VectorAssembler", params)
    save_forest(forest)
    return folder
