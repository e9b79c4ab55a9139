"""Spark ML models in a session of this process, read through py4j with a few calls per tree."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from truewood.adapters._spark_model import TREE_MODELS, TREES, SparkModel
from truewood.adapters._spark_nodes import LISTS, NUMBERS, add_trees

_NODE_DATA = "org.apache.spark.ml.tree.DecisionTreeModelReadWrite$NodeData$"


def read_live(model: Any) -> SparkModel:
    """Read a fitted pyspark.ml stage or PipelineModel."""
    from pyspark import __version__

    name = type(model).__name__
    stage = SparkModel(name, __version__, _read_params(model), live=model)
    if name == "PipelineModel":
        return replace(stage, stages=tuple(map(read_live, model.stages)))
    if not type(model).__module__.startswith("pyspark."):
        return stage
    if not type(model._java_obj).__module__.startswith("py4j."):
        raise TypeError(
            f"model must be a {name} of a classic Spark session, got one of Spark Connect, whose trees stay on "
            "the server; save it, and pass tw.load_spark_model(path)."
        )
    if name in TREE_MODELS:
        return _read_trees(stage)
    learned = {"StringIndexerModel": "labelsArray", "OneHotEncoderModel": "categorySizes"}.get(name)
    return stage if learned is None else replace(stage, learned={learned: getattr(model, learned)})


def _read_params(model: Any) -> dict[str, Any]:
    return {param.name: value for param, value in model.extractParamMap().items()}


def _read_trees(stage: SparkModel) -> SparkModel:
    model, is_tree = stage.live, stage.name in TREES
    trees = [model._java_obj] if is_tree else model._java_obj.trees()
    nodes = [
        {"treeID": number, **node, **node["split"]}
        for number, listed in enumerate(_list_nodes(trees))
        for node in listed
    ]
    columns = {name: np.array([node[name] for node in nodes]) for name in NUMBERS}
    for name in LISTS:
        lists = [node[name] for node in nodes]
        columns[name] = np.fromiter(chain.from_iterable(lists), dtype=np.float64)
        columns[f"#{name}"] = np.array([len(listed) for listed in lists])
    return add_trees(
        stage,
        columns,
        n_features=model.numFeatures,
        n_classes=model.numClasses if "Classification" in stage.name else 0,
        tree_weight=np.ones(1) if is_tree else np.array(model.treeWeights),
    )


def _list_nodes(trees: Any) -> Iterator[list[dict[str, Any]]]:
    """All nodes of each tree, through JSON, because otherwise every number would take a py4j call."""
    from pyspark import SparkContext

    jvm = SparkContext._jvm
    annotation, mapper = jvm.com.fasterxml.jackson.annotation, jvm.com.fasterxml.jackson.databind.ObjectMapper()
    visibility = getattr(annotation, "JsonAutoDetect$Visibility")
    # Serialize fields only, not getter-like methods.
    mapper.setVisibility(annotation.PropertyAccessor.ALL, visibility.NONE)
    mapper.setVisibility(annotation.PropertyAccessor.FIELD, visibility.ANY)
    as_java, build = (
        jvm.scala.jdk.javaapi.CollectionConverters.asJava,
        getattr(getattr(jvm, _NODE_DATA), "MODULE$").build,
    )
    for tree in trees:
        yield json.loads(mapper.writeValueAsString(as_java(build(tree.rootNode(), 0)._1())))
