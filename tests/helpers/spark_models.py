"""Models of Spark ML on a small table with numbers and categories, each fit once."""

from __future__ import annotations

import os
import sys
from functools import cache, partial

import numpy as np
import pandas as pd
from pyspark.ml import Pipeline
from pyspark.ml.classification import DecisionTreeClassifier, GBTClassifier, RandomForestClassifier
from pyspark.ml.feature import OneHotEncoder, StringIndexer, VectorAssembler
from pyspark.ml.linalg import Vectors
from pyspark.ml.regression import DecisionTreeRegressor, GBTRegressor, RandomForestRegressor
from pyspark.sql import SparkSession

COLUMNS = ["x", "steps", "color", "shape", "noise"]
# Places in the features vector, of which the trees know color and shape as categories.
CATEGORICAL = (2, 3)
MODELS = {
    "tree of classes": partial(DecisionTreeClassifier, labelCol="label", maxDepth=6, seed=1),
    "tree of numbers": partial(DecisionTreeRegressor, labelCol="number", maxDepth=6, seed=1),
    "tree by entropy": partial(DecisionTreeClassifier, labelCol="label", impurity="entropy", maxDepth=4, seed=1),
    "forest of classes": partial(RandomForestClassifier, labelCol="label", numTrees=6, maxDepth=6, seed=1),
    "forest of numbers": partial(RandomForestRegressor, labelCol="number", numTrees=6, maxDepth=6, seed=1),
    "forest of three classes": partial(RandomForestClassifier, labelCol="three", numTrees=4, maxDepth=4, seed=1),
    "forest with weights": partial(RandomForestClassifier, labelCol="label", weightCol="weight", numTrees=4, seed=1),
    "forest without bags": partial(RandomForestRegressor, labelCol="number", bootstrap=False, numTrees=3, seed=1),
    "boosted classes": partial(GBTClassifier, labelCol="label", maxIter=6, maxDepth=4, seed=1),
    "boosted numbers": partial(GBTRegressor, labelCol="number", maxIter=6, maxDepth=4, seed=1),
    "boosted absolute error": partial(
        GBTRegressor, labelCol="number", lossType="absolute", maxIter=4, stepSize=0.3, seed=1
    ),
}


@cache
def get_spark():
    """The session of this process; Spark ends it with the process."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for name in ("spark.driver.host", "spark.driver.bindAddress"):
        builder = builder.config(name, "127.0.0.1")
    session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


@cache
def make_table(n_rows=400, seed=0):
    """Numbers and categories, and targets that depend on x and color."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "x": rng.standard_normal(n_rows),
            "steps": rng.integers(0, 6, n_rows).astype(float),
            "color": rng.choice(list("abcdefgh"), n_rows),
            "shape": rng.choice(["cube", "ball", "cone"], n_rows),
            "noise": rng.standard_normal(n_rows),
        }
    )
    table["number"] = table["x"] + 2.0 * table["color"].isin(["a", "c", "f"]) + 0.5 * rng.standard_normal(n_rows)
    table["label"] = (table["number"] > 1.0).astype(float)
    table["three"] = np.digitize(table["number"], [0.5, 1.5]).astype(float)
    table["weight"] = rng.choice([0.5, 1.0, 3.0], n_rows)
    return table


def to_spark(table):
    """A table of pandas as a frame of Spark; missing values are null."""
    rows = table.astype(object).where(table.notna(), None)
    kinds = {name: "string" if values.dtype.kind not in "iuf" else "double" for name, values in table.items()}
    schema = ", ".join(f"`{name}` {kind}" for name, kind in kinds.items())
    return get_spark().createDataFrame(list(rows.itertuples(index=False, name=None)), schema)


@cache
def make_features():
    """Stages that make the features vector, and the frame that they make."""
    frame = to_spark(make_table())
    indexer = StringIndexer(inputCols=["color", "shape"], outputCols=["color_index", "shape_index"])
    assembler = VectorAssembler(inputCols=["x", "steps", "color_index", "shape_index", "noise"], outputCol="features")
    stages = Pipeline(stages=[indexer, assembler]).fit(frame)
    return stages, stages.transform(frame).cache()


def read_vectors(frame):
    return np.array([row[0].toArray() for row in frame.select("features").collect()])


@cache
def fit(case):
    features = make_features()[1]
    return MODELS[case]().fit(features)  # after the session has begun


def find_leaves(model, rows):
    """Spark's own leaf of each row in each tree, shape (n_rows, n_trees), numbered from left to right."""
    frame = get_spark().createDataFrame([(Vectors.dense(row),) for row in rows], ["features"])
    found = model.copy({model.leafCol: "leaf"}).transform(frame).select("leaf").collect()
    return np.array([np.atleast_1d(row[0].toArray() if hasattr(row[0], "toArray") else row[0]) for row in found])


def make_pipeline(model, *, handle_invalid="error", drop_last=True, label=None):
    """Numbers as they are, color as codes, shape one-hot, and a model; `label` is the text that it predicts."""
    stages = [
        StringIndexer(
            inputCols=["color", "shape"], outputCols=["color_index", "shape_index"], handleInvalid=handle_invalid
        ),
        OneHotEncoder(
            inputCols=["shape_index"],
            outputCols=["shape_vector"],
            dropLast=drop_last,
            handleInvalid="keep" if handle_invalid == "keep" else "error",
        ),
        VectorAssembler(
            inputCols=["x", "steps", "color_index", "shape_vector", "noise"],
            outputCol="features",
            handleInvalid=handle_invalid,
        ),
        model,
    ]
    if label is not None:
        stages.insert(0, StringIndexer(inputCol=label, outputCol=model.getLabelCol()))
    return Pipeline(stages=stages)


def predict(model, rows):
    """Spark's own predictions: probabilities of the classes, or numbers."""
    frame = get_spark().createDataFrame([(Vectors.dense(row),) for row in rows], ["features"])
    name = "probability" if hasattr(model, "probabilityCol") else "prediction"
    return np.array(
        [row[0] if name == "prediction" else row[0].toArray() for row in model.transform(frame).select(name).collect()]
    )


def fit_rows(estimator, X, y):
    """Fit to an array, in one partition: of few rows, most of the time is that of starting tasks."""
    rows = [(Vectors.dense(row), float(label)) for row, label in zip(X, y, strict=True)]
    return estimator.fit(get_spark().createDataFrame(rows, ["features", "label"]).coalesce(1))
