"""The plot of the study."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from designs import DESIGNS
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from tables import ORACLE


def draw_selection(summary: pd.DataFrame, path: Path) -> None:
    """False discovery, power and score by method and design, and the cost of each method."""
    summary = summary[summary["method"] != ORACLE]
    methods = list(dict.fromkeys(summary["method"]))
    designs = [name for name in DESIGNS if name in set(summary["design"])]
    figure = Figure(figsize=(15, 1.9 + 0.36 * len(methods)), layout="constrained")
    panels = figure.subplots(1, 4, sharey=True, width_ratios=(10, 8, 10, 5))
    with_power = [name for name in designs if summary.loc[summary["design"] == name, "power"].notna().any()]
    for ax, column, names, title, limits, colors in (
        (panels[0], "false discovery", designs, "noise among the kept columns, %", (0, 40), "Reds"),
        (panels[1], "power", with_power, "signals kept, %", (0, 100), "Blues"),
        (panels[2], "score gain", designs, "R² or AUC of the refit, minus that of all columns, %", (-20, 20), "PuOr"),
    ):
        table = summary.pivot_table(column, "method", "design").reindex(index=methods, columns=names)
        _draw_numbers(ax, 100 * table, limits, colors)
        ax.set_title(title, fontsize=10, loc="left")
    panels[0].set_yticks(range(len(methods)), methods)
    _draw_costs(panels[3], summary, methods)
    figure.savefig(path, dpi=110)


def _draw_numbers(ax: Axes, table: pd.DataFrame, limits: tuple[float, float], colors: str) -> None:
    low, high = limits
    numbers = table.to_numpy(dtype=float)
    ax.imshow(numbers, cmap=colors, vmin=low, vmax=high, aspect="auto")
    for (row, column), number in np.ndenumerate(numbers):
        if np.isfinite(number):
            share = (number - low) / (high - low)
            is_dark = share > 0.6 if low == 0 else abs(share - 0.5) > 0.35
            color = "white" if is_dark else "black"
            ax.text(column, row, f"{round(number)}", ha="center", va="center", fontsize=8, color=color)
    ax.set_xticks(range(table.shape[1]), table.columns, rotation=40, ha="right", rotation_mode="anchor", fontsize=9)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def _draw_costs(ax: Axes, summary: pd.DataFrame, methods: list[str]) -> None:
    for row, method in enumerate(methods):
        costs = summary.loc[summary["method"] == method, "fits"]
        ax.plot(costs, np.full(len(costs), row), ".", color="#888888")
        ax.plot(costs.median(), row, "|", color="black", markersize=12, markeredgewidth=2)
    ax.set_xscale("log")
    ax.set_title("cost, in fits", fontsize=10, loc="left")
    ax.grid(axis="x", color="#dddddd")
    ax.spines[["top", "right"]].set_visible(False)
