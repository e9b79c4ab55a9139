"""Measure the cost by number of threads: prints a table and writes it to benchmarks/results/cores.csv.

    python benchmarks/cores.py [--quick]

Needs no peers other than scikit-learn. Run it on an idle machine with many cores: the numbers of threads are 1, 2, 4,
... up to the number of cores.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pandas as pd
from cases import BoostedCase, ForestCase, make_boosted, make_forest
from machine import QUICK_WORDS, describe_machine
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits
from timing import Peer, clock, measure, whole

import truewood as tw

RESULTS = Path(__file__).with_name("results")


def list_forest_peers(case: ForestCase, n_jobs: int) -> list[Peer]:
    """Out-of-bag importance, and the forest's own multithreaded `apply` on all rows."""

    def apply() -> None:
        case.forest.set_params(n_jobs=n_jobs).apply(case.X)

    score = partial(tw.importance, case.forest, case.X, case.y, n_jobs=n_jobs)
    return [*_score(score), whole("scikit-learn apply, all rows", apply)]


def list_boosted_peers(case: BoostedCase, n_jobs: int) -> list[Peer]:
    """Held-out importance, and the model's own multithreaded `predict`."""

    def predict(_: int) -> float:
        with threadpool_limits(n_jobs):
            return clock(lambda: case.model.predict(case.X))

    own = Peer("HistGradientBoosting predict", predict)
    score = partial(tw.importance, case.model, case.X, case.y, rows="heldout", n_jobs=n_jobs)
    return [*_score(score, ", HistGradientBoosting"), own]


def _score(score: Callable[..., object], words: str = "") -> list[Peer]:
    return [
        whole(name + words, partial(score, inference=inference))
        for name, inference in (("truewood", False), ("truewood with inference", True))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, to try the command")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder to write the table to")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    n_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    counts = [n for n in (1, 2, 4, 8, 16, 32, 64) if n <= n_cores]
    if options.quick:
        forest = make_forest(2_000, 10, 10, n_jobs=-1)
        boosted = make_boosted("HistGradientBoosting", 5_000, 20)
    else:
        forest = make_forest(100_000, 100, 30, n_jobs=-1)
        boosted = make_boosted("HistGradientBoosting", 100_000, 500)
    records = []
    for family, case, list_peers in (
        ("forest", forest, list_forest_peers),
        ("boosted", boosted, list_boosted_peers),
    ):
        # The numbers of threads alternate, so that a machine that slows down affects all of them.
        peers = [Peer(f"{n}|{peer.name}", peer.run) for n in counts for peer in list_peers(case, n)]
        for timing in measure(peers, rounds=2 if options.quick else 3, cap=200):
            n, name = timing.peer.split("|")
            sizes = {"rows": len(case.X), "trees": case.n_trees, "threads": int(n)}
            records.append({"family": family, "peer": name, **sizes, "seconds": timing.seconds, "best": timing.best})
    table = pd.DataFrame(records)
    options.results.mkdir(exist_ok=True)
    table.to_csv(options.results / "cores.csv", index=False, float_format="%.6g")
    machine = describe_machine() + (f" ({QUICK_WORDS})" if options.quick else "")
    (options.results / "cores_machine.txt").write_text(machine + "\n")
    _print(table, machine)


def _print(table: pd.DataFrame, machine: str) -> None:
    printed = Table(title=machine)
    for heading in ("model", "", "threads", "seconds", "speedup"):
        printed.add_column(heading)
    one = table[table["threads"] == 1].set_index(["family", "peer"])["seconds"]
    for row in table.itertuples():
        speedup = one[(row.family, row.peer)] / row.seconds
        printed.add_row(row.family, row.peer, str(row.threads), f"{row.seconds:.4g}", f"{speedup:.2f}")
    Console(width=120).print(printed)


if __name__ == "__main__":
    main()
