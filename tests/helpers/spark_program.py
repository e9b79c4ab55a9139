"""A program of its own that scores a model on a Spark frame: one process has one kind of Spark session.

    python spark_program.py KIND FOLDER

KIND is "connect" (a server of Spark Connect that it starts itself) or "cluster" (two executors as processes). FOLDER
has `model.pickle` and `rows.parquet`, with columns y and w; the result is saved there as `result.json`. On a cluster,
an executor is killed in the middle of each pass over the rows; with Connect, `error.txt` has the error
about a y without values.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
from pathlib import Path

LOOPBACK = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
}


def start(kind):
    import pyspark
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    builder = SparkSession.builder
    for name, value in LOOPBACK.items():
        builder = builder.config(name, value)
    if kind == "connect":
        return builder.remote("local[2]").getOrCreate()
    builder = builder.config("spark.executorEnv.PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    return builder.master("local-cluster[2,1,1024]").getOrCreate()


def kill_once(folder):
    """A step that passes rows on, and kills its executor when partition 4 comes for the first and the third time.

    The second time is the first pass tried again, the third is the second pass.
    """

    def step(batches):
        from pyspark import TaskContext

        if TaskContext.get().partitionId() == 4:
            number = len(list(folder.glob("seen-*")))
            (folder / f"seen-{number}").touch()
            if number in (0, 2):
                time.sleep(2)  # for other partitions to be done
                daemon = os.getppid()
                executor = int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])
                assert b"CoarseGrainedExecutorBackend" in Path(f"/proc/{executor}/cmdline").read_bytes()
                os.kill(executor, signal.SIGKILL)
                time.sleep(60)  # which the daemon's end cuts short
        yield from batches

    return step


def main():
    import truewood as tw

    kind, folder = sys.argv[1], Path(sys.argv[2])
    model = pickle.loads((folder / "model.pickle").read_bytes())
    spark = start(kind)
    frame = spark.read.parquet(str(folder / "rows.parquet")).repartition(5, "y")
    if kind == "cluster":
        frame = frame.mapInArrow(kill_once(folder), frame.schema)
    result = tw.importance(model, frame, "y", rows="heldout", sample_weight="w")
    result.save(folder / "result.json")
    if kind == "connect":
        bad = frame.selectExpr("*", "nullif(a, a) AS none")
        try:
            tw.importance(model, bad, "none", rows="heldout", inference=False)
        except ValueError as error:
            (folder / "error.txt").write_text(str(error))
    spark.stop()


if __name__ == "__main__":
    main()
