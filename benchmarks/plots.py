"""Draw benchmarks/results/*.csv: one call next to the fit, and cost against rows, trees and cores.

Run: python benchmarks/plots.py
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

RESULTS = Path(__file__).with_name("results")
OURS = ("#0b5d3b", "#57a773")  # truewood without and with inference; peers in other colors
FIT_COLOR, PEER_COLOR = "#30638e", "#b8b8b8"
PEER_COLORS = ("#d1495b", "#30638e", "#edae49", "#6a4c93", "#8d6a4f", "#00798c", "#5c5c5c", "#c77dba")
TITLES = {"forest": "random forest, out-of-bag rows", "boosted": "boosted trees, held-out rows"}


def read_results(folder: Path) -> dict[str, pd.DataFrame]:
    """The tables that exist, by what they vary, without the lines for reading the trees."""
    tables = {}
    for name, file in (("rows", "rows"), ("trees", "trees"), ("threads", "cores")):
        if (folder / f"{file}.csv").exists():
            table = pd.read_csv(folder / f"{file}.csv")
            tables[name] = table[~table["peer"].str.startswith("reading") & (table["seconds"] > 0)]
    return tables


def choose_styles(tables: dict[str, pd.DataFrame]) -> dict[str, dict[str, object]]:
    """A color and line for each peer, the same in all panels of a family."""
    names = pd.concat(tables.values())["peer"].unique()
    peers = [name for name in names if not name.startswith("truewood")]
    styles = {name: {"color": color, "lw": 1.3} for name, color in zip(peers, PEER_COLORS, strict=False)}
    for name in names:
        if name.startswith("truewood"):
            dashes = "--" if "XGBoost" in name else ":" if "Hist" in name else "-"
            styles[name] = {"color": OURS["inference" in name], "lw": 2.2, "ls": dashes}
    return styles


def write_number(value: int) -> str:
    """1000 as 1k."""
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return str(value)


def draw_panel(axes: Axes, table: pd.DataFrame, name: str, styles: dict[str, dict[str, object]]) -> None:
    """Seconds against one size, on log axes; hollow points are extrapolated from part of the work."""
    for peer, lines in table.groupby("peer", sort=False):
        lines = lines.sort_values(name)
        axes.plot(lines[name], lines["seconds"], **styles[peer])
        is_part = lines["part"] < 1 if "part" in lines else np.zeros(len(lines), dtype=bool)
        color = styles[peer]["color"]
        axes.scatter(
            lines[name], lines["seconds"], s=16, zorder=3, c=np.where(is_part, "white", color), edgecolors=color
        )
    axes.set(xscale="log", yscale="log", xlabel=name)
    sizes = [f"{table[size].iloc[0]:,} {size}" for size in ("rows", "trees") if size != name]
    axes.set_title(", ".join(sizes), fontsize=9)
    ticks = sorted(table[name].unique())
    axes.set_xticks(ticks, [write_number(tick) for tick in ticks])
    axes.set_xticks([], minor=True)
    if name == "threads":
        start = table[(table[name] == 1) & table["peer"].str.fullmatch(r"truewood(, \w+)?")]["seconds"].iloc[0]
        axes.plot(ticks, start / np.array(ticks), color="#999999", lw=0.8, zorder=0)
        axes.annotate(
            "truewood, ideal", (ticks[-1], start / ticks[-1]), fontsize=7, color="#777777", ha="right", va="top"
        )
    axes.grid(alpha=0.25, lw=0.5)
    axes.spines[["top", "right"]].set_visible(False)


def label_lines(axes: Axes, tables: dict[str, pd.DataFrame], styles: dict[str, dict[str, object]]) -> None:
    """A legend next to the panels, in the order of the largest values."""
    order = pd.concat(tables.values()).groupby("peer")["seconds"].max().sort_values(ascending=False)
    handles = [axes.plot([], [], label=peer, **styles[peer])[0] for peer in order.index]
    axes.legend(handles=handles, loc="center left", bbox_to_anchor=(0, 0.5), frameon=False, fontsize=8)
    axes.set_axis_off()


def draw(folder: Path) -> Figure:
    tables = read_results(folder)
    figure = Figure(figsize=(13, 7.6), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(2, len(tables) + 1, squeeze=False, width_ratios=[1] * len(tables) + [0.75])
    for row, (family, title) in zip(grid, TITLES.items(), strict=True):
        parts = {name: table[table["family"] == family] for name, table in tables.items()}
        styles = choose_styles(parts)
        for axes, (name, table) in zip(row, parts.items(), strict=False):
            draw_panel(axes, table, name, styles)
        row[0].set_ylabel(f"{title}\nseconds")
        label_lines(row[-1], parts, styles)
    quick = ": QUICK RUN, TO BE REPLACED" if "quick" in (folder / "machine.txt").read_text() else ""
    words = f"Seconds of one call, one thread except in the last column; hollow points are extrapolated{quick}"
    figure.suptitle(words, fontsize=11)
    return figure


def write_duration(seconds: float) -> str:
    """Seconds in the unit that people would use."""
    for size, unit in ((3600, "hours"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.3g} {unit}"
    return f"{seconds:.3g} s"


def draw_cost(folder: Path) -> Figure:
    """Time of one call next to the fit of the forest and to other methods, on a log axis."""
    table = pd.read_csv(folder / "timings.csv")
    names = {
        "truewood": "truewood, scores only",
        "truewood with inference": "truewood, with p-values",
        "ranger, corrected minus uncorrected": "ranger, corrected impurity*",
        "fit of the forest": "fit of the forest",
        "permutation_importance": "permutation_importance*",
        "published definitions, dense": "published definitions, dense*",
        "shap.TreeExplainer": "shap.TreeExplainer*",
    }
    lines = table[(table["group"] == "forest") & table["peer"].isin(names)].sort_values("seconds", ascending=False)
    colors = dict(zip(("truewood", "truewood with inference"), OURS, strict=True)) | {"fit of the forest": FIT_COLOR}
    figure = Figure(figsize=(5.6, 3.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.barh(
        [names[peer] for peer in lines["peer"]],
        lines["seconds"],
        color=[colors.get(peer, PEER_COLOR) for peer in lines["peer"]],
    )
    for place, seconds in enumerate(lines["seconds"]):
        axes.annotate(write_duration(seconds), (seconds, place), xytext=(4, 0), textcoords="offset points", va="center")
    axes.set(xscale="log", xlim=(0.1, 2e7), xlabel="time (log scale)")
    ticks = {0.1: "0.1 s", 1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3600: "1 hour", 86400: "1 day"}
    axes.set_xticks(list(ticks), list(ticks.values()), rotation=45, ha="right", fontsize=8)
    axes.set_xticks([], minor=True)
    figure.suptitle(f"{lines['case'].iloc[0]}, one thread", fontsize=10)
    axes.grid(axis="x", alpha=0.25, lw=0.5)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the tables")
    options = parser.parse_args()
    draw(options.results).savefig(options.results / "performance.png", dpi=130)
    draw_cost(options.results).savefig(options.results / "cost.png", dpi=160)


if __name__ == "__main__":
    main()
