"""`truewood importance` with rows that Dask or Spark reads."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("xgboost")
pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.parquet as pq

import truewood as tw
from helpers.installed import lacks_any
from helpers.streaming_models import FEATURES, build, get_weight, write_folder

pytestmark = [pytest.mark.any_engine, pytest.mark.usefixtures("no_sandbox")]

needs_dask = pytest.mark.skipif(lacks_any(["dask", "distributed"]), reason="needs Dask")
needs_spark = pytest.mark.skipif(lacks_any(["pyspark"]), reason="needs Spark")


@pytest.fixture
def folder(tmp_path):
    """A model, and a folder of rows that it has not seen."""
    return write_folder(tmp_path, [200])


def check(shown, saved):
    model, X, y = build("xgboost")
    expected, result = tw.importance(model, X, y, rows="heldout", sample_weight=get_weight()), tw.load(saved)
    np.testing.assert_allclose(result.values, expected.values, rtol=1e-10, atol=1e-10 * expected.values.max())
    np.testing.assert_allclose(result.std_error, expected.std_error, rtol=1e-10)
    assert shown["n_rows"] == 500
    assert shown["performance"] is None
    assert [column["name"] for column in shown["columns"]] == FEATURES
    assert "500 rows by" in " ".join(shown["messages"])


@needs_dask
def test_dask_in_this_process_and_on_a_cluster(folder, call):
    from dask.distributed import LocalCluster

    options = ["--target", "y", "--sample-weight", "w", "--model-file", folder / "m.ubj", "--backend", "dask"]
    shown, _ = call(folder / "rows", *options, "--output", folder / "here.json")
    check(shown, folder / "here.json")
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0") as cluster:
        address = cluster.scheduler_address
        shown, _ = call(folder / "rows/*.parquet", *options, "--scheduler", address, "--output", folder / "there.json")
        check(shown, folder / "there.json")


def run_spark(*arguments):
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}
    environment.pop("PYSPARK_PYTHON", None)
    command = [sys.executable, "-c", "import sys; from truewood._cli import main; sys.exit(main(sys.argv[1:]))"]
    return subprocess.run(
        [*command, "importance", *map(str, arguments), "--backend", "spark", "--master", "local[2]"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=600,
        check=False,
    )


@needs_spark
@pytest.mark.cluster
def test_spark_in_a_session_of_its_own(folder):
    done = run_spark(
        folder / "rows", "--target", "y", "--sample-weight", "w", "--model-file", folder / "m.ubj", "--json",
        "--output", folder / "scores.json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    check(json.loads(done.stdout), folder / "scores.json")


@needs_spark
@pytest.mark.cluster
def test_spark_reads_a_saved_model_of_spark(tmp_path, call):
    """In the session that there is, which stays."""
    from helpers.spark_models import COLUMNS, MODELS, get_spark, make_pipeline, make_table, to_spark

    get_spark()
    model = make_pipeline(MODELS["boosted numbers"]()).fit(to_spark(make_table()))
    model.save(str(tmp_path / "model"))
    heldout = make_table(200, seed=1)
    pq.write_table(pa.Table.from_pandas(heldout), tmp_path / "rows.parquet")
    arguments = ["--target", "number", "--model-file", tmp_path / "model", "--backend", "spark"]
    shown, _ = call(tmp_path / "rows.parquet", *arguments)
    expected = tw.importance(model, heldout[COLUMNS], heldout["number"], rows="heldout")
    scores = {row["feature"]: row["importance"] for row in shown["features"]}
    np.testing.assert_allclose([scores[name] for name in COLUMNS], expected.values, rtol=1e-10, atol=1e-12)
    assert shown["model"] == "PipelineModel"
    assert get_spark().range(1).count() == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--backend", "spark"], "--backend: "),
        (["--model-file", "./m.ubj", "--scheduler", "tcp://x"], "--scheduler: "),
        (["--model-file", "./m.ubj", "--backend", "dask", "--master", "local"], "--master: "),
        (
            ["--model-file", "./m.ubj", "--backend", "dask", "--drop", "nothing"],
            "--drop: ",
        ),
        (["--model-file", "./m.ubj", "--backend", "dask", "--drop", "a"], "b, c, d, kind, w"),
        (["--model-file", "./m.ubj", "--backend", "dask", "--scheduler", "none://x"], "pass another address"),
    ],
)
def test_what_does_not_go_together(arguments, words, folder, refuse):
    if "dask" in arguments and lacks_any(["dask"]):
        pytest.skip("needs Dask")
    refuse(["./rows", "--target", "y", *arguments], [words])


def test_dask_names_a_remedy_for_broken_files(folder, tmp_path, refuse):
    if lacks_any(["dask"]):
        pytest.skip("needs Dask")
    (tmp_path / "broken.parquet").write_bytes(b"broken")
    arguments = ["--target", "y", "--model-file", str(folder / "m.ubj"), "--backend", "dask"]
    refuse([str(tmp_path / "broken.parquet"), *arguments], ["broken.parquet", "complete Parquet file"])


@needs_spark
@pytest.mark.cluster
def test_files_that_are_not_there(folder):
    done = run_spark(folder / "none", "--target", "y", "--model-file", folder / "m.ubj")
    assert done.returncode == 2
    assert str(folder / "none") in done.stderr.splitlines()[-1]
