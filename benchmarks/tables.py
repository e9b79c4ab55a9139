"""Write the tables of benchmarks/results into the pages that show them, between the marks that name them.

Run: python benchmarks/tables.py
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pandas as pd

HERE = Path(__file__).parent
PAGES = [
    HERE / "README.md",
    HERE.parent / "docs" / "performance.md",
    HERE.parent / "docs" / "performance_details.md",
]
TRUEWOOD = ("truewood", "truewood with inference")
FAMILIES = {"forest": "Random forest", "boosted": "Boosted trees"}


def write_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(cells) + " |" for cells in (header, *rows)]
    return "\n".join([lines[0], "|---" * len(header) + "|", *lines[1:]])


def write_targets(folder: Path, file: str = "targets.csv") -> str:
    """Case, measured, target, and whether it is met."""
    table = pd.read_csv(folder / file, keep_default_na=False)
    met = {"True": "yes", "False": "no"}
    rows = [(row.case, row.measured, row.target, met.get(str(row.met), "")) for row in table.itertuples()]
    return write_table(("case", "measured", "target", "met"), rows)


def write_sweep(folder: Path, name: str) -> str:
    """Seconds of each peer, one column per size; a star marks an extrapolation from part of the work."""
    table = pd.read_csv(folder / f"{name}.csv")
    parts = []
    for family, title in FAMILIES.items():
        cases = table[table["family"] == family]
        values = list(dict.fromkeys(cases[name]))
        rows = []
        for peer in cases["peer"].unique():
            cells = cases[cases["peer"] == peer].set_index(name)
            rows.append((peer, *(_write_seconds(cells.loc[value]) if value in cells.index else "" for value in values)))
        heads = [f"{value:,}" if value else "no limit" for value in values]
        fixed = [f"{cases[size].iloc[0]:,} {size}" for size in ("rows", "trees", "features") if size != name]
        parts.append(f"{title}, {', '.join(fixed)}:\n\n" + write_table((name, *heads), rows))
    return "\n\n".join(parts)


def _write_seconds(row: pd.Series) -> str:
    seconds = float(f"{row['seconds']:.3g}")
    return (f"{seconds:,.0f}" if seconds >= 1000 else f"{seconds:.3g}") + ("*" if row["part"] < 1 else "")


def write_small(folder: Path) -> str:
    """Best processor times of small trees: scores, with inference, and the library's own leaves."""
    table = pd.read_csv(folder / "timings.csv").query("group == 'small'")
    rows = []
    for case, peers in table.groupby("case", sort=False):
        plain, inferred, _, own = (f"{seconds:.3f} s" for seconds in peers["best"])
        rows.append((str(case), plain, inferred, own))
    return write_table(("model and held-out rows", "scores only", "with p-values", "leaves, by the library"), rows)


def write_boosted(folder: Path) -> str:
    """Seconds of boosted models: scores, with inference, and the library's own leaves."""
    table = pd.read_csv(folder / "timings.csv").query("group == 'boosted'")
    rows = []
    for case, peers in table[table["case"].str.contains(": ")].groupby("case", sort=False):
        library = str(case).partition(":")[0]
        plain, inferred = (peers.loc[peers["peer"] == f"{name}, {library}", "seconds"].item() for name in TRUEWOOD)
        own = peers.loc[peers["peer"].str.startswith(f"{library} "), "seconds"].item()
        rows.append((library, *(f"{seconds:.3g} s" for seconds in (plain, inferred, own))))
    return write_table(("library", "scores only", "with p-values", "leaves, by the library"), rows)


def write_growth(folder: Path) -> str:
    """Seconds of random forests at the smallest and the largest size of each sweep."""
    rows = []
    for name in ("rows", "trees", "features"):
        table = pd.read_csv(folder / f"{name}.csv").query("family == 'forest'")
        for size in (table[name].min(), table[name].max()):
            own = table[table[name] == size].set_index("peer")
            sizes = {part: f"{own[part].iloc[0]:,} {part}" for part in ("rows", "trees", "features")}
            words = [sizes.pop(name), *(words for part, words in sizes.items() if part != "features")]
            rows.append(
                (", ".join(words), *(_write_seconds(own.loc[peer]) for peer in ("fit of the forest", *TRUEWOOD)))
            )
    return write_table(("forest", "fit", "scores only", "with p-values"), rows)


def write_threads(folder: Path) -> str:
    """Seconds of the forest with one thread and with the most threads."""
    table = pd.read_csv(folder / "cores.csv").pivot_table(index="peer", columns="threads", values="seconds")
    most = max(table)
    rows = [
        (
            words,
            f"{table.loc[peer, 1]:.3g} s",
            f"{table.loc[peer, most]:.3g} s",
            f"{table.loc[peer, 1] / table.loc[peer, most]:.1f}",
        )
        for words, peer in zip(("scores only", "with p-values"), TRUEWOOD, strict=True)
    ]
    return write_table(("", "1 thread", f"{most} threads", "speedup"), rows)


def write_cores(folder: Path) -> str:
    """Seconds of each peer, one column per number of threads, and the speedup with the most threads."""
    table = pd.read_csv(folder / "cores.csv")
    counts = sorted(table["threads"].unique())
    wide = table.pivot_table(index="peer", columns="threads", values="seconds", sort=False)
    rows = [
        (peer, *(f"{seconds:.3g}" for seconds in row), f"{row[1] / row[counts[-1]]:.1f}")
        for peer, row in wide.iterrows()
    ]
    return write_table(("threads", *map(str, counts), "speedup"), rows)


def _read_gpu(folder: Path, trees: str) -> dict[str, str]:
    """What was measured on the GPU for one model, whose case starts with `trees`: the words of a case and the value."""
    table = pd.read_csv(folder / "gpu.csv")
    model = table["case"].str.extract(r"^([\d,]+ trees of [\d,]+ (?:nodes|leaves))", expand=False).ffill()
    own = table[model.str.startswith(trees)]
    words = own["case"].str.removeprefix(own["case"].iloc[0].rpartition(", ")[0] + ", ")
    return dict(zip(words, own["measured"], strict=True))


def _write_gpu(folder: Path, trees: str, header: str, rows: dict[str, str]) -> str:
    measured = _read_gpu(folder, trees)
    return write_table((header, "time"), [(words, measured[case]) for words, case in rows.items()])


def write_gpu_deep(folder: Path) -> str:
    """Times of deep trees on the GPU, by what is timed."""
    rows = {
        "kernel and sums": "kernel and sums",
        "kernel and sums, with contributions of all rows": "the same with contributions of all rows",
        "whole call, scores only": "the whole call, inference=False",
        "whole call, with inference": "the whole call, with inference",
        "rows not on the GPU yet: copy alone": "these rows in the host's memory: copy alone",
        "rows not on the GPU yet: copy, kernel and sums": "these rows in the host's memory: copy and sums",
        "compiled kernel, 16 threads, 1,000,000 of these rows, scores only": (
            "the compiled kernel, 16 threads, 1,000,000 of these rows, inference=False"
        ),
        "compiled kernel, 16 threads, 1,000,000 of these rows, with inference": "the same with inference",
    }
    header = "100 trees of 29,170 nodes, 10,000,000 held-out rows, 30 features"
    return _write_gpu(folder, "100 trees of 29,170", header, rows)


def write_gpu_small(folder: Path) -> str:
    """Times of small trees on the GPU, by what is timed."""
    rows = {
        "kernel and sums": "kernel and sums",
        "whole call, scores only": "the whole call, inference=False",
        "whole call, with inference": "the whole call, with inference",
    }
    return _write_gpu(folder, "1,000 trees", "1,000 trees of 31 leaves, 10,000,000 held-out rows, float64", rows)


def write_gpu_oob(folder: Path) -> str:
    """Times of out-of-bag scores, by engine."""
    table = pd.read_csv(folder / "gpu.csv").set_index("case")["measured"]
    case = "100 trees of 19,367 nodes x 1,000,000 rows out of bag"
    rows = [
        (words, *(table[f"{case}, {engine}, inference={inference}"] for engine in ("native", "cuda")))
        for words, inference in (("scores only", False), ("with inference", True))
    ]
    header = "100 trees of 19,367 nodes, 1,000,000 rows, out of bag"
    return write_table((header, "compiled kernel, 16 threads", "GPU"), rows)


def write_gpu_summary(folder: Path) -> str:
    """Times of whole calls on the GPU, and of the compiled kernel on a tenth of the rows."""
    measured = _read_gpu(folder, "100 trees of 29,170")
    oob = pd.read_csv(folder / "gpu.csv").set_index("case")["measured"]
    case = "100 trees of 19,367 nodes x 1,000,000 rows out of bag"
    kernel = "the compiled kernel, 16 threads, 1,000,000 of these rows, inference=False"
    rows = [
        (
            "10,000,000 held-out rows, GPU",
            measured["the whole call, inference=False"],
            measured["the whole call, with inference"],
        ),
        ("1,000,000 of these rows, 16 CPU threads", measured[kernel], measured["the same with inference"]),
        *(
            (f"1,000,000 out-of-bag rows, {words}", *(oob[f"{case}, {engine}, inference={on}"] for on in (False, True)))
            for words, engine in (("GPU", "cuda"), ("16 CPU threads", "native"))
        ),
    ]
    return write_table(("100 deep trees", "scores only", "with p-values"), rows)


def write_machine(folder: Path, file: str = "machine.txt") -> str:
    return (folder / file).read_text().strip() + "."


def fill_page(page: str, tables: dict[str, str]) -> str:
    """Replace what is between the marks of each table that the page has a place for."""
    for name, table in tables.items():
        marks = (f"<!-- begin {name} -->\n", f"<!-- end {name} -->")
        if marks[0] in page:
            before, _, rest = page.partition(marks[0])
            _, end, after = rest.partition(marks[1])
            if not end:
                raise SystemExit(f"The table {name!r} begins but does not end")
            page = f"{before}{marks[0]}{table}\n{end}{after}"
    return page


def write_tables(folder: Path) -> dict[str, str]:
    """All tables by name."""
    writers: dict[str, tuple[str, Callable[[Path], str]]] = {
        "machine": ("machine.txt", write_machine),
        "cores machine": ("cores_machine.txt", partial(write_machine, file="cores_machine.txt")),
        "gpu machine": ("gpu_machine.txt", partial(write_machine, file="gpu_machine.txt")),
        "gpu": ("gpu.csv", partial(write_targets, file="gpu.csv")),
        "gpu deep": ("gpu.csv", write_gpu_deep),
        "gpu small": ("gpu.csv", write_gpu_small),
        "gpu oob": ("gpu.csv", write_gpu_oob),
        "gpu summary": ("gpu.csv", write_gpu_summary),
        "targets": ("targets.csv", write_targets),
        "boosted": ("timings.csv", write_boosted),
        "growth": ("features.csv", write_growth),
        "threads": ("cores.csv", write_threads),
        "small": ("timings.csv", write_small),
        "cores": ("cores.csv", write_cores),
        "rows": ("rows.csv", partial(write_sweep, name="rows")),
    }
    return {
        name: write(folder) if (folder / file).exists() else "Not measured yet."
        for name, (file, write) in writers.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=HERE / "results", help="folder of the tables")
    parser.add_argument("--pages", type=Path, nargs="+", default=PAGES)
    options = parser.parse_args()
    tables = write_tables(options.results)
    pages = {path: path.read_text() for path in options.pages}
    places = {name for page in pages.values() for name in re.findall(r"<!-- begin (.+) -->", page)}
    if missing := sorted(set(tables) - places):
        raise SystemExit(f"No page has a place for these tables: {', '.join(missing)}")
    for path, page in pages.items():
        path.write_text(fill_page(page, tables))


if __name__ == "__main__":
    main()
