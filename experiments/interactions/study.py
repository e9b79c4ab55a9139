"""Level, power and ranking of `truewood.interactions`, on simulated data sets with known interactions.

    python experiments/interactions/study.py run [--designs NAME ...] [--data-sets N]
    python experiments/interactions/study.py coverage [--data-sets N]
    python experiments/interactions/study.py peers [--data-sets N]
    python experiments/interactions/study.py summary

`run` appends one line per data set to data_sets.csv, `coverage` to coverage.csv, `peers` to peers.csv; all continue
where they stopped. `summary` writes summary.csv and prints all results.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from designs import COVERAGE, DESIGNS, PEER_DESIGNS, Design, Sample
from peers import PEERS
from sklearn.metrics import roc_auc_score

import truewood as tw

HERE = Path(__file__).parent
ALPHA = 0.05
FIELDS = [
    "design", "seed", "n_null", "null_rejected", "null_withheld", "focus_rejected", "focus_withheld", "focus_value",
    "focus_error", "n_true", "true_found", "false_found", "auroc", "seconds",
]  # fmt: skip


@dataclass
class Progress:
    """A CSV file that grows by one line per finished step."""

    path: Path
    fields: list[str]

    def read_done(self) -> set[tuple[str, ...]]:
        """Keys (the first two fields) of finished steps."""
        if not self.path.exists():
            return set()
        with self.path.open(newline="") as file:
            return {(row[self.fields[0]], row[self.fields[1]]) for row in csv.DictReader(file)}

    def add(self, row: dict[str, Any]) -> None:
        """Append one line."""
        is_new = not self.path.exists()
        with self.path.open("a", newline="") as file:
            writer = csv.DictWriter(file, self.fields, lineterminator="\n")
            if is_new:
                writer.writeheader()
            writer.writerow(row)


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
    start = time.perf_counter()
    result = find_interactions(design, sample)
    seconds = time.perf_counter() - start
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


def run(names: list[str] | None, n_data_sets: int) -> None:
    progress = Progress(HERE / "data_sets.csv", FIELDS)
    done = progress.read_done()
    for seed in range(n_data_sets):
        for design in DESIGNS:
            if (names and design.name not in names) or (design.name, str(seed)) in done or seed >= design.most:
                continue
            progress.add({"design": design.name, "seed": seed, **score(design, seed)})


def run_coverage(n_data_sets: int) -> None:
    """Intervals of the reported pair; the expected score of a fitted model is its score on 8,000 new rows."""
    progress = Progress(HERE / "coverage.csv", ["design", "seed", "value", "low", "high", "expected"])
    done = progress.read_done()
    for seed in range(n_data_sets):
        for design in DESIGNS:
            if design.name not in COVERAGE or (design.name, str(seed)) in done:
                continue
            sample = design.draw(seed)
            result = find_interactions(design, sample)
            pair, expected = result.find_pair(*design.focus), np.nan
            if design.rows == "heldout":
                X, y = design.draw_rows(np.random.default_rng([seed, 1]), 8000)
                expected = find_interactions(design, replace(sample, X=X, y=y)).values[pair]
            numbers = [result.values[pair], *(end[pair] for end in result.interval()), expected]
            names = progress.fields[2:]
            lines = dict(zip(names, (f"{number:.6g}" for number in numbers), strict=True))
            progress.add({"design": design.name, "seed": seed, **lines})


def run_peers(n_data_sets: int) -> None:
    progress = Progress(HERE / "peers.csv", ["design", "seed_and_method", "auroc", "seconds"])
    done = progress.read_done()
    for seed in range(n_data_sets):
        for design in PEER_DESIGNS:
            for name, rank in PEERS.items():
                key = f"{seed} {name}"
                if (design.name, key) not in done:
                    progress.add({"design": design.name, "seed_and_method": key, **_rank(design, seed, rank)})


def _rank(design: Design, seed: int, rank: Callable[..., np.ndarray]) -> dict[str, Any]:
    sample = design.draw(seed)
    pairs = list(combinations(range(sample.X.shape[1]), 2))
    start = time.perf_counter()
    scores = rank(sample, pairs)
    seconds = time.perf_counter() - start
    is_true = [pair in design.true_pairs for pair in pairs]
    return {"auroc": f"{roc_auc_score(is_true, scores):.4f}", "seconds": f"{seconds:.3f}"}


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
    parser.add_argument("task", choices=["run", "coverage", "peers", "summary"])
    parser.add_argument("--designs", nargs="+")
    parser.add_argument("--data-sets", type=int, default=60)
    given = parser.parse_args()
    if given.task == "run":
        run(given.designs, given.data_sets)
    elif given.task == "coverage":
        run_coverage(given.data_sets)
    elif given.task == "peers":
        run_peers(given.data_sets)
    summarize()


if __name__ == "__main__":
    main()
