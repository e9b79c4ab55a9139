"""Measure the speed of truewood and its peers: prints tables of seconds and ratios, all measured in one run.

    python benchmarks/performance.py targets       # speed targets and measured values
    python benchmarks/performance.py targets --groups boosted start  # some groups; keeps the others
    python benchmarks/performance.py rows          # cost by number of rows; also trees, features, depth
    python benchmarks/performance.py all --quick   # everything at tiny sizes, to try the command

Tables are written to benchmarks/results, from which benchmarks/plots.py draws. Peers that are not installed are left
out: pip install -e '.[benchmarks]', and experiments/install_peers.sh for R's ranger.
"""

from __future__ import annotations

import os

# All peers use one thread. The libraries that numpy uses read these variables when they are imported.
os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import warnings
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import pandas as pd
import peers
import published
import sweeps
import targets
from machine import QUICK_WORDS, describe_machine
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from timing import Timing, measure

RESULTS = Path(__file__).with_name("results")
CONSOLE = Console(width=150)


def print_timings(title: str, timings: list[Timing]) -> None:
    """Print the seconds of every peer, and their ratio to the first, truewood."""
    table = Table(title=title)
    for heading in ("", "seconds", "best", "times the first", "how"):
        table.add_column(heading, justify="left" if heading in ("", "how") else "right")
    for timing in timings:
        ratio = timing.seconds / timings[0].seconds
        table.add_row(
            timing.peer,
            f"{timing.seconds:,.4g}",
            f"{timing.best:,.4g}",
            f"{ratio:,.2f}" if ratio < 100 else f"{ratio:,.0f}",
            timing.how,
        )
    CONSOLE.print(table)


def print_targets(rows: list[targets.Row], quick: bool) -> None:
    table = Table(title=f"targets ({QUICK_WORDS})" if quick else "targets")
    for heading in ("case", "measured", "target", "met"):
        table.add_column(heading)
    for row in rows:
        table.add_row(escape(row.case), row.measured, row.target, {None: "", True: "yes", False: "no"}[row.met])
    CONSOLE.print(table)


def run_targets(groups: list[str], missing: list[str], folder: Path, quick: bool) -> None:
    """Measure, write and print targets, keeping other groups; a quick run does not judge them."""
    sizes = targets.QUICK if quick else targets.Sizes()
    time_all = partial(measure, rounds=2, cap=0.5) if quick else partial(measure, rounds=5, cap=60)
    rows: list[targets.Row] = []
    for group in groups:
        timings: list[dict[str, object]] = []

        def report(case: str, behind: list[Timing], into: list[dict[str, object]] = timings) -> None:
            print_timings(case, behind)
            into += [{"case": case, **asdict(timing), "how": timing.how} for timing in behind]

        found = [
            replace(row, met=None) if quick else row
            for row in targets.list_rows(group, sizes, missing, time_all, report, folder)
        ]
        _replace_group(group, found, folder / "targets.csv")
        if timings:
            _replace_group(group, timings, folder / "timings.csv")
        rows += found
    print_targets(rows, quick)


def _replace_group(group: str, measured: Sequence[object], file: Path) -> None:
    """Replace the rows of this group in the file."""
    table = pd.DataFrame(measured).assign(group=group)
    if file.exists():
        known = pd.read_csv(file, keep_default_na=False)
        table = pd.concat([known[known["group"] != group], table])
    order = table["group"].map(targets.GROUPS.index)
    table.iloc[order.argsort(kind="stable")].to_csv(file, index=False, float_format="%.6g")


def run_sweep(name: str, missing: list[str], folder: Path, quick: bool) -> None:
    """Measure, write and print all cases of one sweep."""
    sweep = (sweeps.QUICK if quick else sweeps.SWEEPS)[name]
    time_all = partial(measure, rounds=2, cap=0.5) if quick else partial(measure, rounds=5, cap=20)
    records: list[dict[str, object]] = []
    for case in sweeps.run_sweep(name, sweep, missing, time_all, print_timings):
        records += case
        pd.DataFrame(records).to_csv(folder / f"{name}.csv", index=False, float_format="%.6g")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["targets", *sweeps.SWEEPS, "all"], nargs="?", default="targets")
    parser.add_argument("--groups", nargs="+", choices=targets.GROUPS, default=targets.GROUPS, help="groups of targets")
    parser.add_argument("--quick", action="store_true", help="small sizes, to try the command")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder to write tables to")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    options.results.mkdir(exist_ok=True)
    machine = describe_machine() + (f" ({QUICK_WORDS})" if options.quick else "")
    (options.results / "machine.txt").write_text(machine + "\n")
    CONSOLE.print(machine)
    CONSOLE.print(f"The published definitions, transcribed, give truewood's scores to {published.check():.0e}.")
    missing = peers.find_missing()
    for name in missing:
        CONSOLE.print(f"{name} is not installed, and left out.")
    if options.what in ("targets", "all"):
        run_targets(list(options.groups), missing, options.results, options.quick)
    for name in sweeps.SWEEPS:
        if options.what in (name, "all"):
            run_sweep(name, missing, options.results, options.quick)


if __name__ == "__main__":
    main()
