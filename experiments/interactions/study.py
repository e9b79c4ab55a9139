"""Level, power and ranking of `truewood.interactions`, on simulated data sets with known interactions.

    python experiments/interactions/study.py run [TABLE ...] [--designs NAME ...] [--data-sets N] [--n-jobs N]
                                                 [--seconds N] [--results FOLDER]
    python experiments/interactions/study.py merge FOLDER
    python experiments/interactions/study.py summary

`run` appends one line per data set to data_sets.csv, coverage.csv and peers.csv, and continues where it stopped; it
starts no data set after so many seconds. `merge` adds the lines of a folder with such tables, such as one from another
machine. `summary` writes summary.csv and prints all results.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from designs import COVERAGE, DESIGNS, PEER_DESIGNS, Design, Sample
from joblib import Parallel, delayed
from peers import PEERS
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

import truewood as tw

HERE = Path(__file__).parent
ALPHA = 0.05
# Fields of tables; the first two are the key of a line.
FIELDS = {
    "data_sets": [
        "design", "seed", "n_null", "null_rejected", "null_withheld", "focus_rejected", "focus_withheld", "focus_value",
        "focus_error", "n_true", "true_found", "false_found", "auroc", "seconds",
    ],
    "coverage": ["design", "seed", "value", "low", "high", "expected"],
    "peers": ["design", "seed_and_method", "auroc", "seconds"],
}  # fmt: skip
# Rows that stand for all rows, and data sets that methods are compared on.
N_NEW, N_PEER_DATA_SETS = 8000, 8


def find_interactions(design: Design, sample: Sample) -> tw.Interactions:
    """Test all pairs on the rows of the design."""
    options = {"sample_weight": sample.sample_weight, "groups": sample.groups}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if design.rows == "folds":
            return tw.cross_interactions(sample.model, sample.X, sample.y, progress=False, **options)
        return tw.interactions(sample.model, sample.X, sample.y, rows=design.rows, **options)


def score(design: Design, seed: int) -> dict[str, Any]:
    """Test all pairs in one data set."""
    sample = design.draw(seed)
    start = time.process_time()
    result = find_interactions(design, sample)
    seconds = time.process_time() - start
    pairs = [tuple(pair) for pair in result.pairs.tolist()]
    is_true = np.array([pair in design.true_pairs for pair in pairs])
    rejected, withheld, p_value = result.p_value <= ALPHA, result.is_withheld, result.p_value
    focus = pairs.index(design.focus)
    is_null = ~is_true
    is_null[focus] = False
    found = result.select(ALPHA)
    has_both = is_true.any() and not is_true.all()
    return {
        "n_null": int(is_null.sum()),
        "null_rejected": int(rejected[is_null].sum()),
        "null_withheld": int(withheld[is_null].sum()),
        "focus_rejected": int(p_value[focus] <= ALPHA),
        "focus_withheld": int(withheld[focus]),
        "focus_value": f"{result.values[focus]:.6g}",
        "focus_error": f"{result.null_std_error[focus]:.6g}",
        "n_true": int(is_true.sum()),
        "true_found": int((found & is_true).sum()),
        "false_found": int((found & ~is_true).sum()),
        "auroc": f"{roc_auc_score(is_true, result.values):.4f}" if has_both else "",
        "seconds": f"{seconds:.3f}",
    }


def cover(design: Design, seed: int) -> dict[str, Any]:
    """Intervals of the reported pair; the expected score of a fitted model is its score on new rows."""
    sample = design.draw(seed)
    result = find_interactions(design, sample)
    pair, expected = result.find_pair(*design.focus), np.nan
    if design.rows == "heldout":
        X, y = design.draw_rows(np.random.default_rng([seed, 1]), N_NEW)
        expected = find_interactions(design, replace(sample, X=X, y=y)).values[pair]
    numbers = [result.values[pair], *(end[pair] for end in result.interval()), expected]
    return dict(zip(FIELDS["coverage"][2:], (f"{number:.6g}" for number in numbers), strict=True))


def compare(design: Design, seed_and_method: str) -> dict[str, Any]:
    """Rank the pairs with another method."""
    seed, method = seed_and_method.split(" ", 1)
    sample = design.draw(int(seed))
    pairs = list(combinations(range(sample.X.shape[1]), 2))
    start = time.process_time()
    scores = PEERS[method](sample, pairs)
    seconds = time.process_time() - start
    is_true = [pair in design.true_pairs for pair in pairs]
    return {"auroc": f"{roc_auc_score(is_true, scores):.4f}", "seconds": f"{seconds:.3f}"}


def list_keys(table: str, n_data_sets: int) -> Iterator[tuple[int, Design, str]]:
    """The number of the data set, the design and the second part of the key of all lines of a table."""
    if table == "peers":
        for seed in range(min(n_data_sets, N_PEER_DATA_SETS)):
            yield from ((seed, design, f"{seed} {method}") for design in PEER_DESIGNS for method in PEERS)
        return
    for design in DESIGNS:
        if table == "data_sets" or design.name in COVERAGE:
            yield from ((seed, design, str(seed)) for seed in range(min(n_data_sets, design.most)))


def run_one(table: str, name: str, key: str, stop: float) -> dict[str, Any] | None:
    """A line of a table, on one thread; None after the time is over."""
    if time.time() > stop:
        return None
    # Designs contain functions that cannot be sent to processes, but names can.
    design = next(own for own in (PEER_DESIGNS if table == "peers" else DESIGNS) if own.name == name)
    with threadpool_limits(1):
        if table == "peers":
            found = compare(design, key)
        else:
            found = score(design, int(key)) if table == "data_sets" else cover(design, int(key))
    return {FIELDS[table][0]: name, FIELDS[table][1]: key, **found}


def read_done(folder: Path, table: str) -> set[tuple[str, str]]:
    """Keys of the lines of a table."""
    path = folder / f"{table}.csv"
    if not path.exists():
        return set()
    with path.open(newline="") as file:
        return {(row["design"], row[FIELDS[table][1]]) for row in csv.DictReader(file)}


def add(folder: Path, table: str, row: dict[str, Any]) -> None:
    """Append a line to a table."""
    path = folder / f"{table}.csv"
    is_new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS[table], lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerow(row)


def run(
    tables: list[str], names: list[str] | None, n_data_sets: int, n_jobs: int, seconds: float, folder: Path
) -> None:
    """Append what is missing, the first data sets of all designs first."""
    missing = []
    for table in tables:
        done = read_done(folder, table)
        for seed, design, key in list_keys(table, n_data_sets):
            if (not names or design.name in names) and (design.name, key) not in done:
                missing.append((seed, table, design, key))
    missing.sort(key=lambda item: item[0])
    stop = time.time() + seconds
    lines = Parallel(n_jobs, return_as="generator", batch_size=1)(
        delayed(run_one)(table, design.name, key, stop) for _, table, design, key in missing
    )
    for (_, table, _, _), line in zip(missing, lines, strict=True):
        if line is not None:
            add(folder, table, line)


def merge(folder: Path) -> None:
    """Add the lines of the tables in a folder."""
    for table, fields in FIELDS.items():
        done = read_done(HERE, table)
        if (folder / f"{table}.csv").exists():
            with (folder / f"{table}.csv").open(newline="") as file:
                for row in csv.DictReader(file):
                    if (row["design"], row[fields[1]]) not in done:
                        add(HERE, table, row)


def summarize() -> None:
    table = pd.read_csv(HERE / "data_sets.csv")
    lines = []
    for name, own in table.groupby("design", sort=False):
        n_tested = own["n_null"] - own["null_withheld"]
        rates = (own["null_rejected"] / n_tested.where(n_tested > 0)).dropna()
        is_tested = own["focus_withheld"] == 0
        focus = own["focus_rejected"][is_tested]
        n_found = own["true_found"] + own["false_found"]
        lines.append(
            {
                "design": name,
                "data_sets": len(own),
                "null_pairs_rejected": round(100 * own["null_rejected"].sum() / max(n_tested.sum(), 1), 1),
                "null_error": round(100 * rates.std(ddof=1) / np.sqrt(len(rates)), 1) if len(rates) > 1 else np.nan,
                "focus_rejected": round(100 * focus.mean(), 1) if len(focus) else np.nan,
                "focus_error": round(100 * np.sqrt(focus.mean() * (1 - focus.mean()) / len(focus)), 1)
                if len(focus)
                else np.nan,
                "focus_withheld": round(100 * own["focus_withheld"].mean(), 1),
                "true_found": round(100 * own["true_found"].sum() / own["n_true"].sum(), 1)
                if own["n_true"].sum()
                else np.nan,
                "false_discoveries": round(100 * (own["false_found"] / n_found.where(n_found > 0)).fillna(0).mean(), 1),
                "auroc": round(own["auroc"].mean(), 3),
                "seconds": round(own["seconds"].median(), 2),
            }
        )
    summary = pd.DataFrame(lines)
    summary.to_csv(HERE / "summary.csv", index=False, lineterminator="\n")
    print(summary.to_string(index=False))
    path = HERE / "coverage.csv"
    if path.exists():
        # Out of bag, the expected score is that of new data sets: the mean.
        table = pd.read_csv(path)
        expected = table["expected"].fillna(table.groupby("design")["value"].transform("mean"))
        table["covered"] = (table["low"] <= expected) & (expected <= table["high"])
        print(table.groupby("design", sort=False)["covered"].agg(["mean", "sem", "count"]).round(3).to_string())
    path = HERE / "peers.csv"
    if path.exists():
        peers = pd.read_csv(path)
        peers["method"] = peers["seed_and_method"].str.split(" ", n=1).str[1]
        print(
            peers.groupby(["design", "method"])[["auroc", "seconds"]].agg(["mean", "sem", "count"]).round(3).to_string()
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    tasks = parser.add_subparsers(dest="task", required=True)
    running = tasks.add_parser("run")
    running.add_argument("tables", nargs="*", metavar="TABLE", help=f"of {', '.join(FIELDS)}; default: all")
    running.add_argument("--designs", nargs="+")
    running.add_argument("--data-sets", type=int, default=300)
    running.add_argument("--n-jobs", type=int, default=1)
    running.add_argument("--seconds", type=float, default=float("inf"))
    running.add_argument("--results", type=Path, default=HERE)
    tasks.add_parser("merge").add_argument("folder", type=Path)
    tasks.add_parser("summary")
    given = parser.parse_args()
    if given.task == "run":
        tables = given.tables or list(FIELDS)
        run(tables, given.designs, given.data_sets, given.n_jobs, given.seconds, given.results)
    elif given.task == "merge":
        merge(given.folder)
    else:
        summarize()


if __name__ == "__main__":
    main()
