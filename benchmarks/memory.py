"""Measure the memory that scoring needs in addition to a large forest.

    python benchmarks/memory.py

A fitted forest is scored twice: once while the peak memory of the process is recorded, and once with the growth of the
process limited to half the size of the forest, so that a copy of the forest would raise a MemoryError. This shows that
forests larger than half of the memory can be scored.
"""

from __future__ import annotations

import argparse
import resource
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.ensemble import RandomForestRegressor

import truewood as tw


def read_status(field: str) -> float:
    """Return a memory size of this process in MB."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) / 1e3


def measure_growth(forest: RandomForestRegressor, X: np.ndarray, y: np.ndarray, *, inference: bool) -> float:
    """Return the largest growth of the process while it scores a forest, in MB."""
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = read_status("VmRSS")
    tw.importance(forest, X, y, inference=inference, n_jobs=1)
    return read_status("VmHWM") - before


def main() -> None:
    """Fit, score, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trees", type=int, default=200)
    parser.add_argument("--rows", type=int, default=50_000)
    settings = parser.parse_args()
    rng = np.random.default_rng(0)
    X, y = rng.random((settings.rows, 5), dtype=np.float32), rng.random(settings.rows)
    table = Table(title=f"{settings.rows:,} rows x 5 features, one thread")
    for heading in ("trees", "forest MB", "growth MB", "growth MB with inference", "within half of the forest's size"):
        table.add_column(heading, justify="right")
    tw.importance(RandomForestRegressor(2, max_features=1).fit(X[:99], y[:99]), X[:99], y[:99], n_jobs=1)  # imports
    for n_trees in (settings.trees // 2, settings.trees):
        forest = RandomForestRegressor(n_trees, max_features=1, n_jobs=2, random_state=0).fit(X, y)
        nodes = [tree.tree_ for tree in forest.estimators_]
        size = sum(tree.__getstate__()["nodes"].nbytes + tree.value.nbytes for tree in nodes) / 1e6
        growth = [measure_growth(forest, X, y, inference=inference) for inference in (False, True)]
        limits = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (int((read_status("VmSize") + size / 2) * 1e6), limits[1]))
        tw.importance(forest, X, y, n_jobs=1)  # raises MemoryError if it needs more
        resource.setrlimit(resource.RLIMIT_AS, limits)
        table.add_row(str(n_trees), f"{size:,.0f}", *(f"{part:,.0f}" for part in growth), "yes")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
