"""Measure the cost of rows read from Parquet files: prints a table and writes benchmarks/results/streaming.csv.

    python benchmarks/streaming.py [--rows 100000 1000000 20000000] [--quick]

Generated rows with 20 columns evaluate an XGBoost model of 200 trees, with inference: in batches from files and, for a
million rows, from a table in memory. Each run is a separate process that reports its peak memory. The files of 20
million rows take about 1.8 GB and are deleted.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import xgboost
from machine import QUICK_WORDS, describe_machine
from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).with_name("results")
N_COLUMNS, FILE_ROWS, MEMORY_ROWS = 20, 1_000_000, 1_000_000

SCORE = """
import json, resource, sys, time
from glob import glob
import pandas as pd, xgboost
import truewood as tw
model = xgboost.XGBRegressor()
model.load_model(sys.argv[1])
source = sorted(glob(sys.argv[2]))
if sys.argv[3] == "memory":
    source = pd.concat([pd.read_parquet(path) for path in source])
started = time.perf_counter()
result = tw.importance(model, source, "y", rows="heldout", n_jobs=-1)
seconds = time.perf_counter() - started
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
print(json.dumps([seconds, peak, result.values.tolist(), result.std_error.tolist()]))
"""


def draw(rng: np.random.Generator, n_rows: int) -> pd.DataFrame:
    """Draw float32 columns, and a target that depends on some of them."""
    X = rng.standard_normal((n_rows, N_COLUMNS), dtype=np.float32)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(N_COLUMNS)])
    return frame.assign(y=X[:, 0] + X[:, 1] * X[:, 2] + rng.standard_normal(n_rows, dtype=np.float32))


def score(model: Path, files: str, how: str) -> tuple[float, float, list[float], list[float]]:
    """Return seconds, peak memory in MB, scores and standard errors, from a separate process."""
    command = [sys.executable, "-c", SCORE, str(model), files, how]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return tuple(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Draw, fit, score, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000, 20_000_000])
    parser.add_argument("--quick", action="store_true", help="few rows, to try the command")
    settings = parser.parse_args()
    sizes = [1_000, 20_000] if settings.quick else sorted(settings.rows)
    rng = np.random.default_rng(0)
    train = draw(rng, 2_000 if settings.quick else 100_000)
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder, "model.ubj")
        fitted = xgboost.XGBRegressor(n_estimators=200, max_depth=6, learning_rate=0.1)
        fitted.fit(train.drop(columns="y"), train["y"]).save_model(model)
        memory_rows = min(MEMORY_ROWS, sizes[-1])
        for n_rows in sorted({*sizes, memory_rows}):
            drawn = np.random.default_rng(1)
            for start in range(0, n_rows, FILE_ROWS):
                path = Path(folder, f"rows-{n_rows}-{start // FILE_ROWS:03d}.parquet")
                draw(drawn, min(FILE_ROWS, n_rows - start)).to_parquet(path)
            files = str(Path(folder, f"rows-{n_rows}-*.parquet"))
            hows = ["files", "memory"] if n_rows == memory_rows else ["files"]
            found = {how: score(model, files, how) for how in hows}
            for how, (seconds, peak, *_) in found.items():
                lines.append({"rows": n_rows, "from": how, "seconds": seconds, "peak MB": peak})
            if "memory" in found:
                for one, other in zip(found["files"][2:], found["memory"][2:], strict=True):
                    np.testing.assert_allclose(one, other, rtol=1e-10)
            for path in Path(folder).glob("rows-*.parquet"):
                path.unlink()
    show(pd.DataFrame(lines), quick=settings.quick)


def show(found: pd.DataFrame, *, quick: bool) -> None:
    """Print and save the table."""
    found["microseconds a row"] = 1e6 * found["seconds"] / found["rows"]
    in_memory = found.loc[found["from"] == "memory", "microseconds a row"].iloc[0]
    found["against memory"] = found["microseconds a row"] / in_memory
    table = Table(title=f"{describe_machine()}{f' ({QUICK_WORDS})' if quick else ''}")
    for heading in found:
        table.add_column(heading, justify="right")
    for row in found.itertuples(index=False):
        table.add_row(f"{row[0]:,}", row[1], *(f"{value:,.4g}" for value in row[2:]))
    Console(width=120).print(table)
    if not quick:
        found.round(4).to_csv(RESULTS / "streaming.csv", index=False)
        (RESULTS / "streaming_machine.txt").write_text(describe_machine() + "\n")


if __name__ == "__main__":
    main()
