"""Data frames of Spark: the scores of their rows in memory, whatever the partitions."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.ml import Pipeline
from pyspark.ml.feature import StringIndexer
from pyspark.ml.linalg import Vectors
from pyspark.sql import functions as F  # noqa: N812

import truewood as tw
from helpers.spark_models import COLUMNS, MODELS, fit, get_spark, make_features, make_pipeline, make_table, to_spark
from helpers.streaming_models import assert_same, build, draw_rows, get_weight
from truewood._streaming.aggregated import AggregatedScores
from truewood._streaming.model import Part, StreamingModel
from truewood._streaming.partial_sums import PartialSums
from truewood._streaming.spark_columns import Columns

pytestmark = [pytest.mark.any_engine, pytest.mark.cluster]

# Of frames that tests themselves make with functions of Spark.
any_pandas = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
PROGRAM = Path(__file__).parents[1] / "helpers" / "spark_program.py"


def make_frame(table):
    return get_spark().createDataFrame(pa.Table.from_pandas(table, preserve_index=False))


def leave_empty(frame):
    """Partitions of which some have no rows."""
    return frame.withColumn("part", (F.col("a") > 0).cast("int")).repartition(5, "part").drop("part")


def score(name, split=None, *, weights=None, **options):
    """Scores of a model on a frame, and on the same rows in memory."""
    model, X, y = build(name)
    table = X.assign(w=get_weight())
    names = "y" if np.ndim(y) == 1 else [f"y{k}" for k in range(y.shape[1])]
    for k, own in enumerate(np.atleast_2d(y.T)):
        table[names if isinstance(names, str) else names[k]] = own
    frame = make_frame(table) if split is None else split(make_frame(table))
    result = tw.importance(model, frame, names, rows="heldout", sample_weight=weights, **options)
    weight = None if weights is None else get_weight()
    return result, tw.importance(model, X, y, rows="heldout", sample_weight=weight, **options)


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("forest of two numbers", None),
        ("forest of classes", "w"),
        ("gradient boosting, huber", "w"),  # whose target follows from all rows
        ("xgboost, labels", None),
        ("lightgbm", "w"),
        ("pipeline", None),
        ("transformed target", None),
    ],
)
def test_scores_and_errors_are_those_of_rows_in_memory(name, weights):
    result, expected = score(name, lambda frame: frame.repartition(3), weights=weights)
    assert_same(result, expected)
    assert "500 rows" in result.notes[-1]


@any_pandas
@pytest.mark.parametrize(
    "split", [lambda frame: frame.coalesce(1), leave_empty, lambda frame: frame.limit(40).repartition(40)]
)
def test_any_partitions(split):
    if split is leave_empty:
        assert 0 in [row.n for row in count_by_partition(split(make_frame(build("hist, quantile")[1])))]
    model, X, y = build("hist, quantile")
    table = X.assign(y=y, w=get_weight() + 0.1)
    frame = split(make_frame(table)).cache()
    rows = frame.toArrow().to_pandas()
    result = tw.importance(model, frame, "y", rows="heldout", sample_weight="w")
    expected = tw.importance(model, rows[X.columns], rows["y"], rows="heldout", sample_weight=rows["w"])
    assert_same(result, expected)


def count_by_partition(frame):
    """Number of rows of each partition, empty ones too."""

    def count(batches):
        yield pa.record_batch([pa.array([sum(batch.num_rows for batch in batches)])], names=["n"])

    return frame.mapInArrow(count, "n long").collect()


def test_sums_go_in_pieces_of_any_leaves(monkeypatch):
    """Pieces of different partials add up to what the whole ones do, however they are cut."""
    monkeypatch.setattr("truewood._streaming.partial_sums._PIECE_BYTES", 600)
    model, X, y = build("xgboost, classes")
    streaming, options = (
        StreamingModel(model),
        {"feature_groups": None, "inference": True, "n_sample": 0, "n_threads": 1},
    )
    parts = [Part("", X[part], y[part], None) for part in (slice(200), slice(200, None))]
    halves = [PartialSums.of_part(streaming, part, **options) for part in parts]
    first, second = (half.split() for half in halves)
    assert len(first) > 10
    merged = [a + b if k % 2 else b + a for k, (a, b) in enumerate(zip(first, second, strict=True))]
    joined, whole = PartialSums.join(merged), halves[0] + halves[1]
    np.testing.assert_array_equal(joined.leaf_offset, whole.leaf_offset)
    np.testing.assert_array_equal(joined.copies.count, whole.copies.count)
    assert all(piece.copies is None for piece in merged[1:])
    np.testing.assert_allclose(joined.sums, whole.sums, rtol=1e-12, atol=1e-12)
    results = [AggregatedScores(streaming, sums, "auto", None).finish(inference=False) for sums in (joined, whole)]
    assert_same(*results, errors=None)


@any_pandas
def test_p_values_are_withheld_if_rows_are_copies():
    model, X, y = build("forest of numbers")
    table = pd.concat([X.assign(y=y)] * 2, ignore_index=True)
    with pytest.warns(UserWarning, match=r"withheld: 50% of the rows are copies"):
        result = tw.importance(model, make_frame(table).repartition(3), "y", rows="heldout")
    assert np.isnan(result.p_value).all()
    assert_same(result, tw.importance(model, table[X.columns], table["y"], rows="heldout"), errors=None)


def test_groups_measures_and_own_targets():
    result, expected = score(
        "xgboost", feature_groups={"both": ["a", "b"]}, measure="mdi_oob", target=lambda y: np.sign(y)
    )
    assert_same(result, expected)


@any_pandas
def test_only_the_columns_of_the_model_are_read():
    model, X, y = build("forest of numbers")
    table = X.assign(**{"a.b": 0.0, "y": y})
    frame = make_frame(table)
    frame = frame.withColumn("other", F.udf(lambda value: value / 0, "double")("a"))
    assert_same(tw.importance(model, frame, "y", rows="heldout"), tw.importance(model, X, y, rows="heldout"))


def test_names_with_dots_and_ticks():
    rows = draw_rows()[["a", "b"]].rename(columns={"a": "a.b", "b": "b`c"})
    y = (rows["a.b"] > 0).to_numpy()
    from sklearn.tree import DecisionTreeClassifier

    model = DecisionTreeClassifier(max_depth=3, random_state=0).fit(rows[:400], y[:400])
    X, y = rows[400:].reset_index(drop=True), y[400:]
    result = tw.importance(model, make_frame(X.assign(**{"y.z": y})), "y.z", rows="heldout")
    assert_same(result, tw.importance(model, X, y, rows="heldout"))


@pytest.mark.parametrize("case", ["forest of classes", "boosted classes", "boosted absolute error"])
def test_models_of_spark_on_vectors(case):
    features = make_features()[0].transform(to_spark(make_table(300, seed=3)))
    label = MODELS[case].keywords["labelCol"]
    rows = features.select("features", label).collect()
    matrix = np.array([row["features"].toArray() for row in rows])
    y = np.array([row[label] for row in rows])
    names = ["x", "steps", "color_index", "shape_index", "noise"]
    expected = tw.importance(fit(case), pd.DataFrame(matrix, columns=names), y, rows="heldout")
    assert_same(tw.importance(fit(case), features.repartition(3), label, rows="heldout"), expected)


def test_vectors_without_names_and_sparse_ones():
    model = fit("forest of numbers")
    rng = np.random.default_rng(5)
    matrix, y = rng.integers(0, 3, (60, 5)).astype(float), rng.normal(size=60)
    vectors = [Vectors.dense(row) if k % 2 else Vectors.sparse(5, dict(enumerate(row))) for k, row in enumerate(matrix)]
    frame = get_spark().createDataFrame(list(zip(vectors, y.tolist(), strict=True)), ["features", "y"])
    result = tw.importance(model, frame, "y", rows="heldout")
    assert result.feature_names.tolist() == [f"features[{k}]" for k in range(5)]
    np.testing.assert_allclose(result.values, tw.importance(model, matrix, y, rows="heldout").values, rtol=1e-10)


@pytest.mark.parametrize(
    ("vectors", "words"),
    [([[1.0], [1.0, 2.0], [1.0] * 3], r"\b2 elements.*\b1 element\b.*\b3 elements"), ([None], "missing")],
)
def test_vectors_of_another_length(vectors, words):
    columns = Columns(["a", "b"], "features", ["y"], [])
    table = pa.table({"features": pa.array(vectors, pa.list_(pa.float64())), "y": [0.0] * len(vectors)})
    with pytest.raises(ValueError, match=f"'features'.*{words}"):
        columns.read(table.select(columns.names))


def test_a_pipeline_of_spark(tmp_path):
    """Live, and saved and loaded without Spark: one score for each column of the frame."""
    table = make_table().assign(answer=lambda rows: np.where(rows["label"] > 0, "yes", "no"))
    estimator = MODELS["forest of classes"]().setLabelCol("code")
    model = make_pipeline(estimator, label="answer").fit(to_spark(table))
    model.save(str(tmp_path / "model"))
    heldout = make_table(300, seed=2).assign(answer=lambda rows: np.where(rows["label"] > 0, "yes", "no"))
    frame = to_spark(heldout).repartition(3)
    expected = tw.importance(model, heldout[COLUMNS], heldout["answer"], rows="heldout")
    assert expected.feature_names.tolist() == COLUMNS
    for own in (model, tw.load_spark_model(tmp_path / "model")):
        assert_same(tw.importance(own, frame, "answer", rows="heldout"), expected)


def test_a_pipeline_of_spark_that_takes_vectors():
    features = make_features()[0].transform(to_spark(make_table())).withColumn("answer", F.lit("yes"))
    features = features.withColumn("answer", F.when(F.col("label") > 0, "yes").otherwise("no"))
    stages = [StringIndexer(inputCol="answer", outputCol="code"), MODELS["tree of classes"]().setLabelCol("code")]
    model = Pipeline(stages=stages).fit(features)
    heldout = make_features()[0].transform(to_spark(make_table(200, seed=4)))
    heldout = heldout.withColumn("answer", F.when(F.col("label") > 0, "yes").otherwise("no"))
    result = tw.importance(model, heldout.repartition(2), "answer", rows="heldout")
    assert result.feature_names.tolist() == ["x", "steps", "color_index", "shape_index", "noise"]
    rows = heldout.select("features", "answer").collect()
    matrix = np.array([row["features"].toArray() for row in rows])
    expected = tw.importance(model, matrix, [row["answer"] for row in rows], rows="heldout")
    np.testing.assert_allclose(result.values, expected.values, rtol=1e-10, atol=1e-12)


def refuse(frame, words, *, y="y", error=ValueError, **options):
    model = build("forest of numbers")[0]
    with pytest.raises(error, match=words) as caught:
        tw.importance(model, frame, y, **({"rows": "heldout"} | options))
    assert "\n" not in str(caught.value)


def test_bad_frames():
    _, X, y = build("forest of numbers")
    table = X.assign(y=y, w=1.0)
    frame = make_frame(table)
    refuse(frame.drop("b"), r"\bb\b.*\ba, c, d")
    refuse(frame, r"^y\b.*'z'", y="z")
    refuse(frame, r"^y\b.*column", y=table["y"], error=TypeError)
    refuse(frame, r"^rows\b.*'heldout'", rows="oob")
    refuse(frame, "measure='permutation'", measure="permutation")
    refuse(frame.limit(0), r"^X\b.*row")
    refuse(frame.withColumn("w", F.lit(0.0)), r"^sample_weight\b.*zero", sample_weight="w")
    refuse(frame.withColumn("w", F.lit(-1.0)), r"^partition \d+: sample_weight", sample_weight="w")
    refuse(frame.withColumn("b", F.lit("text")), r"^partition \d+: ")
    spark = get_spark()
    refuse(spark.readStream.format("rate").load(), r"^X\b.*stream")
    refuse(frame.rdd, r"^X\b.*pyspark\.sql.*pyspark", error=TypeError)


def test_the_partition_of_a_bad_row_is_named():
    _, X, y = build("forest of numbers")
    y = np.where(np.arange(len(y)) == 499, np.nan, y)
    ranged = make_frame(X.assign(y=y, place=np.arange(500))).repartitionByRange(4, "place")
    refuse(ranged, r"^partition 3: y\b.*NaN")


@any_pandas
def test_rows_that_change_from_one_reading_to_the_next(tmp_path):
    """Spark itself draws the same numbers again; a function need not."""
    _, X, y = build("forest of numbers")
    seen = tmp_path / "seen"

    def drop_the_second_time(batches):
        is_second = seen.exists()
        seen.touch()
        for batch in batches:
            yield batch.slice(int(is_second))

    frame = make_frame(X.assign(y=y)).coalesce(1)
    changing = frame.mapInArrow(drop_the_second_time, frame.schema)
    refuse(changing, r"second pass.*\b500\b.*\b500\b.*\b499\b.*\b499\b")


def run_program(kind, folder):
    model, X, y = build("forest of numbers")
    (folder / "model.pickle").write_bytes(pickle.dumps(model))
    pq.write_table(pa.Table.from_pandas(X.assign(y=y, w=get_weight())), folder / "rows.parquet")
    done = subprocess.run(
        [sys.executable, PROGRAM, kind, folder], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    expected = tw.importance(model, X, y, rows="heldout", sample_weight=get_weight())
    assert_same(tw.load(folder / "result.json"), expected)


def test_spark_connect(tmp_path):
    run_program("connect", tmp_path)
    assert (tmp_path / "error.txt").read_text().startswith("partition ")


def test_executors_that_are_killed(tmp_path):
    run_program("cluster", tmp_path)
    assert len(list(tmp_path.glob("seen-*"))) >= 4  # each pass was begun again
