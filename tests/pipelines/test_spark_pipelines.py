"""PipelineModels of Spark ML: features as Spark makes them, one score for each column, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from helpers.messages import find_lacking

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'truewood[spark]'")

from pyspark.ml import Pipeline
from pyspark.ml.classification import LogisticRegression, RandomForestClassifier
from pyspark.ml.feature import OneHotEncoder, StandardScaler, StringIndexer, VectorAssembler
from pyspark.ml.regression import RandomForestRegressor

import truewood as tw
from helpers.spark_models import COLUMNS, get_spark, make_pipeline, make_table, read_vectors, to_spark
from truewood._pipelines.spark_stages import SparkPipeline
from truewood.adapters._spark_model import read_spark_model

pytestmark = [
    pytest.mark.slow,
    pytest.mark.any_engine,
    pytest.mark.cluster,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


def fit(tmp_path, pipeline, table):
    """A fitted pipeline, and the same one as it was saved."""
    model = pipeline.fit(to_spark(table))
    path = tmp_path / "pipeline"
    model.save(str(path))
    return model, tw.load_spark_model(path)


def make_forest(label="number"):
    get_spark()
    estimator = RandomForestRegressor if label == "number" else RandomForestClassifier
    return estimator(labelCol=label, numTrees=3, maxDepth=3, seed=1)


@pytest.fixture(scope="module")
def forest(tmp_path_factory):
    """A forest of texts "yes" and "no", in a session and from a folder."""
    table = add_answer(make_table())
    pipeline = make_pipeline(make_forest("code"), handle_invalid="keep", label="answer")
    return fit(tmp_path_factory.mktemp("forest"), pipeline, table)


def add_answer(table):
    return table.assign(answer=np.where(table["label"] > 0, "yes", "no"))


def make_odd_table():
    """Rows with levels that the fit has not seen, and missing values in all columns."""
    table = make_table(60, seed=2)[COLUMNS].copy()
    table.loc[:5, "color"] = "unseen"
    table.loc[3:8, "shape"] = "unseen"
    for place, name in enumerate(COLUMNS):
        table.loc[10 + place, name] = None
    return table


def assert_same_features(models, table):
    """Features that truewood makes are those of Spark, and trace to the columns of the table."""
    live, _ = models
    own = read_vectors(live.transform(to_spark(table)))
    for model in models:
        made, encoding = SparkPipeline(read_spark_model(model)).run(table)
        assert np.array_equal(made, own, equal_nan=True)
        assert len(encoding.columns.names) == made.shape[1]
    return encoding


@pytest.mark.parametrize(("handle_invalid", "drop_last"), [("error", True), ("keep", False)])
def test_features_are_those_of_spark(handle_invalid, drop_last, tmp_path):
    pipeline = make_pipeline(make_forest(), handle_invalid=handle_invalid, drop_last=drop_last)
    models = fit(tmp_path, pipeline, make_table())
    table = make_odd_table() if handle_invalid == "keep" else make_table(60, seed=2)[COLUMNS]
    encoding = assert_same_features(models, table)
    sources = [next(iter(found)) for found in encoding.columns.sources]
    n_dummies = sources.count(COLUMNS.index("shape"))
    assert sources == [0, 1, 2, *[3] * n_dummies, 4]
    # Labels, "__unknown" of the StringIndexer and the OneHotEncoder's own place for invalid codes.
    assert n_dummies == 3 + 2 * (handle_invalid == "keep") - drop_last
    assert encoding.columns.names[3].startswith("shape_vector_")


def test_numbers_are_indexed_by_their_text(tmp_path):
    get_spark()
    stages = [
        StringIndexer(inputCol="steps", outputCol="steps_index", handleInvalid="keep"),
        VectorAssembler(inputCols=["steps_index", "x"], outputCol="pair"),
        VectorAssembler(inputCols=["pair", "noise"], outputCol="features"),
        make_forest(),
    ]
    table = make_table()
    models = fit(tmp_path, Pipeline(stages=stages), table)
    heldout = table[:50].assign(steps=np.where(np.arange(50) < 5, 77.0, table["steps"][:50]))
    assert_same_features(models, heldout)
    whole = heldout.assign(steps=heldout["steps"].astype(int))
    pipeline = SparkPipeline(models[1])
    assert np.array_equal(pipeline.run(whole)[0], pipeline.run(heldout)[0])


def test_one_score_for_each_column(forest):
    table = add_answer(make_table(300, seed=1))
    results = [tw.importance(model, table, table["answer"], rows="heldout") for model in forest]
    for result in results:
        assert result.feature_names.tolist() == COLUMNS
        assert set(result.feature_names[np.argsort(result.values)[-2:]]) == {"x", "color"}
        assert "shape_vector_cube" in result.expand().feature_names
        unused = [name for name in table if name not in COLUMNS]
        assert not find_lacking(*result.notes, ", ".join(unused))
    np.testing.assert_array_equal(results[0].values, results[1].values)


def test_scores_are_those_of_the_encoded_columns(forest):
    table = add_answer(make_table(300, seed=1))
    _, saved = forest
    features, _ = SparkPipeline(saved).run(table)
    labels = SparkPipeline(saved).labels
    inner = tw.importance(saved.stages[-1], features, table["answer"].map(labels.index), rows="heldout")
    outer = tw.importance(saved, table, table["answer"], rows="heldout")
    np.testing.assert_array_equal(outer.expand().values, inner.values)
    np.testing.assert_allclose(outer.values[3], inner.values[3:-1].sum(), rtol=1e-12)


def test_groups_are_of_columns_of_the_table(forest):
    table = add_answer(make_table(100, seed=1))
    result = tw.importance(
        forest[1], table[COLUMNS], table["answer"], rows="heldout", feature_groups={"looks": ["color", "shape"]}
    )
    assert result.feature_names.tolist() == ["x", "steps", "looks", "noise"]


@pytest.mark.parametrize("convert", [pl.from_pandas, lambda table: pl.from_pandas(table).to_arrow()])
def test_frames_of_other_libraries(forest, convert):
    table = add_answer(make_table(100, seed=1))
    given, expected = (
        tw.importance(forest[1], X, table["answer"], rows="heldout").values
        for X in (convert(table[COLUMNS]), table[COLUMNS])
    )
    np.testing.assert_array_equal(given, expected)


def test_a_vector_that_no_stage_makes_is_the_table(tmp_path):
    """A pipeline that indexes the label alone."""
    get_spark()
    table = add_answer(make_table())
    vectors = VectorAssembler(inputCols=["x", "steps", "noise"], outputCol="features").transform(to_spark(table))
    stages = [StringIndexer(inputCol="answer", outputCol="code"), make_forest("code")]
    model = Pipeline(stages=stages).fit(vectors)
    heldout = add_answer(make_table(100, seed=1))
    result = tw.importance(model, heldout[["x", "steps", "noise"]], heldout["answer"], rows="heldout")
    assert result.feature_names.tolist() == ["x", "steps", "noise"]
    assert result.values.argmax() == 0


def refuse(model, table, *words, y=None, error=ValueError):
    with pytest.raises(error) as caught:
        tw.importance(model, table, np.zeros(len(table)) if y is None else y, rows="heldout")
    assert not find_lacking(str(caught.value), *words)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("handle_invalid", ["error", "skip"])
def test_rows_that_spark_does_not_keep_are_refused(handle_invalid, tmp_path):
    pipeline = make_pipeline(make_forest(), handle_invalid=handle_invalid)
    _, saved = fit(tmp_path, pipeline, make_table())
    table = make_table(30, seed=2)[COLUMNS]
    heldout = table.assign(color=["?", "?", *table["color"][2:]])
    words = ["'color'", "StringIndexer", f"handleInvalid={handle_invalid!r}", "'?'"]
    refuse(saved, heldout, *words, "2 rows")
    refuse(saved, table.assign(shape=[None, *table["shape"][1:]]), "'shape'", "1 row")
    missing = table.assign(noise=[np.nan, *table["noise"][1:]])
    refuse(saved, missing, "'noise'", "1 row", f"handleInvalid={handle_invalid!r}")


def test_codes_that_the_encoder_does_not_know_are_refused(tmp_path):
    get_spark()
    stages = [
        OneHotEncoder(inputCol="steps", outputCol="vector"),
        VectorAssembler(inputCols=["vector", "x"], outputCol="features"),
        make_forest(),
    ]
    models = fit(tmp_path, Pipeline(stages=stages), make_table())
    table = make_table(30, seed=2)
    assert_same_features(models, table)
    words = ["0", "5", "'vector'", "OneHotEncoder", "handleInvalid='error'", "30 rows"]
    refuse(models[1], table.assign(steps=6.0), *words)


def test_tables_that_the_pipeline_does_not_take(forest):
    table = add_answer(make_table(30, seed=2))
    _, saved = forest
    y = table["answer"]
    refuse(saved, table[COLUMNS].drop(columns="x"), "X", "'x'", "got 0", y=y)
    refuse(saved, pd.concat([table, table[["x"]]], axis=1), "X", "'x'", "got 2", y=y)
    refuse(
        saved,
        table[["x", "steps"]].to_numpy(),
        "x, steps, color",
        error=TypeError,
        y=y,
    )
    refuse(saved, table.assign(x="text"), "'x'", "numbers", y=y)
    refuse(saved, table.assign(color=True), "'color'", "strings", y=y)
    refuse(saved, table[:0], "X", "row", y=y[:0])
    refuse(saved, table, "y", "StringIndexer", "'perhaps'", y=["perhaps"] * 30)


def test_stages_that_are_not_read(tmp_path):
    pipeline = make_pipeline(make_forest())
    *stages, model = pipeline.getStages()
    scaler = StandardScaler(inputCol="features", outputCol="scaled")
    scaled = Pipeline(stages=[*stages, scaler, model.copy({model.featuresCol: "scaled"})])
    for read in fit(tmp_path, scaled, make_table()):
        words = ["StringIndexerModel, OneHotEncoderModel, VectorAssembler", "StandardScalerModel"]
        refuse(read, make_table(30, seed=2), *words, error=TypeError)


def test_pipelines_without_trees(tmp_path):
    get_spark()
    table = make_table()
    assembler = VectorAssembler(inputCols=["x", "steps"], outputCol="features")
    _, saved = fit(tmp_path / "linear", Pipeline(stages=[assembler, LogisticRegression()]), table)
    refuse(
        saved,
        table,
        "RandomForestClassificationModel",
        "LogisticRegressionModel",
        error=TypeError,
    )
    _, saved = fit(tmp_path / "nothing", Pipeline(stages=[assembler]), table)
    refuse(saved, table, "tree model", "VectorAssembler", error=TypeError)
