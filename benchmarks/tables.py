"""Put the tables of benchmarks/results into docs/performance.md, between the marks that name them.

Run: python benchmarks/tables.py
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pandas as pd

HERE = Path(__file__).parent
SWEEPS = ("rows", "trees", "features", "depth")
FAMILIES = {"forest": "random forest", "boosted": "boosted trees"}


def write_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(cells) + " |" for cells in (header, *rows)]
    return "\n".join([lines[0], "|---" * len(header) + "|", *lines[1:]])


def write_targets(folder: Path, file: str = "targets.csv") -> str:
    """Case, measured, target, and whether it is met."""
    table = pd.read_csv(folder / file, keep_default_na=False)
    met = {"True": "yes", "False": "no"}
    rows = [(row.case, row.measured, row.target, met.get(str(row.met), "")) for row in table.itertuples()]
    return write_table(("case", "measured", "target", "met"), rows)


def write_timings(folder: Path) -> str:
    """The seconds behind the targets."""
    table = pd.read_csv(folder / "timings.csv")
    rows, last = [], ""
    for row in table.itertuples():
        rows.append(
            (row.case if row.case != last else "", row.peer, f"{row.seconds:,.3g}", f"{row.best:,.3g}", row.how)
        )
        last = row.case
    return write_table(("case", "", "seconds", "best", "how"), rows)


def write_sweep(folder: Path, name: str) -> str:
    """Seconds of each peer, a column a size; a star where they were measured on a part and scaled."""
    table = pd.read_csv(folder / f"{name}.csv")
    parts = []
    for family, words in FAMILIES.items():
        cases = table[table["family"] == family]
        values = list(dict.fromkeys(cases[name]))
        rows = []
        for peer in cases["peer"].unique():
            cells = cases[cases["peer"] == peer].set_index(name)
            rows.append((peer, *(_write_seconds(cells.loc[value]) if value in cells.index else "" for value in values)))
        heads = [f"{value:,}" if value else "no limit" for value in values]
        fixed = [f"{cases[size].iloc[0]:,} {size}" for size in ("rows", "trees", "features") if size != name]
        parts.append(write_table((f"{words}, {', '.join(fixed)}; {name}:", *heads), rows))
    return "\n\n".join(parts)


def _write_seconds(row: pd.Series) -> str:
    return f"{row['seconds']:,.3g}" + ("*" if row["part"] < 1 else "")


def write_cores(folder: Path) -> str:
    """Seconds of each peer, a column a number of threads, and one thread over the most."""
    table = pd.read_csv(folder / "cores.csv")
    counts = sorted(table["threads"].unique())
    wide = table.pivot_table(index="peer", columns="threads", values="seconds", sort=False)
    rows = [
        (peer, *(f"{seconds:.3g}" for seconds in row), f"{row[1] / row[counts[-1]]:.1f}")
        for peer, row in wide.iterrows()
    ]
    return write_table(("threads:", *map(str, counts), f"1 / {counts[-1]}"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=HERE / "results", help="folder of the tables")
    parser.add_argument("--page", type=Path, default=HERE.parent / "docs" / "performance.md")
    options = parser.parse_args()
    writers: dict[str, tuple[str, Callable[[Path], str]]] = {
        "machine": ("machine.txt", lambda folder: (folder / "machine.txt").read_text().strip() + "."),
        "cores machine": ("cores_machine.txt", lambda folder: (folder / "cores_machine.txt").read_text().strip() + "."),
        "gpu machine": ("gpu_machine.txt", lambda folder: (folder / "gpu_machine.txt").read_text().strip() + "."),
        "gpu": ("gpu.csv", partial(write_targets, file="gpu.csv")),
        "targets": ("targets.csv", write_targets),
        "timings": ("timings.csv", write_timings),
        "cores": ("cores.csv", write_cores),
        **{name: (f"{name}.csv", partial(write_sweep, name=name)) for name in SWEEPS},
    }
    tables = {
        name: write(options.results) if (options.results / file).exists() else "Not measured yet."
        for name, (file, write) in writers.items()
    }
    page = options.page.read_text()
    for name, table in tables.items():
        before, begin, rest = page.partition(f"<!-- begin {name} -->\n")
        _, end, after = rest.partition(f"<!-- end {name} -->")
        if not end:
            raise SystemExit(f"{options.page} has no place for the table {name!r}")
        page = f"{before}{begin}{table}\n{end}{after}"
    options.page.write_text(page)


if __name__ == "__main__":
    main()
