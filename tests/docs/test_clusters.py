"""The code blocks that need a cluster: of Dask within this process, of Spark in a session of this machine."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import truewood as tw
from helpers.docs_names import prepare_big_data
from helpers.docs_pages import DOCS, list_blocks

pytestmark = pytest.mark.any_engine


def find_block(page, mark):
    (text,) = [block.text for block in list_blocks(DOCS / page) if mark in block.text]
    return text


def test_the_client_of_dask():
    distributed = pytest.importorskip("distributed")
    options = {"processes": False, "dashboard_address": "127.0.0.1:0"}
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, **options) as cluster:
        names, address = {}, cluster.scheduler_address
        exec(find_block("howto/dask_spark.md", "tcp://scheduler:8786").replace("tcp://scheduler:8786", address), names)
        with names["client"] as client:
            assert client.scheduler.address == address


@pytest.mark.cluster
def test_frames_of_spark(tmp_path, monkeypatch):
    from helpers.spark_models import get_spark

    monkeypatch.chdir(tmp_path)
    names = {"tw": tw, "spark": get_spark(), **prepare_big_data()}
    exec(find_block("howto/dask_spark.md", "spark.read").replace("s3a://bucket/rows/", f"{tmp_path}/rows"), names)
    assert names["frame"].count() == 320


@pytest.mark.cluster
def test_models_of_spark(tmp_path, monkeypatch):
    from pyspark.ml.feature import VectorAssembler

    from helpers.spark_models import get_spark

    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(400, 3)), columns=["a", "b", "c"])
    table["label"] = (table["a"] > 0).astype(float)
    frame = get_spark().createDataFrame(table[:200].to_numpy().tolist(), list(table))
    train = VectorAssembler(inputCols=["a", "b", "c"], outputCol="features").transform(frame)
    names = {"tw": tw, "train": train, "X": table[["a", "b", "c"]][200:], "y": table["label"][200:]}
    block = find_block("reference/models.md", "pyspark").replace('"models/forest"', repr(f"{tmp_path}/forest"))
    exec(block, names)
    assert names["model"].name == "RandomForestClassificationModel"
