"""Pictures of the studies."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill

import numpy as np
import pandas as pd
from design import KINDS
from designs_signal import PEERS
from matplotlib.figure import Figure
from peers import FIT

ALPHA = 0.05
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#555555")


def draw_qq(p_values: dict[str, dict[str, np.ndarray]], path: Path) -> None:
    """P-values found over uniform ones, by design and kind of feature."""
    n_columns = 6
    n_rows = -(-len(p_values) // n_columns)
    height = 2.4 * n_rows + 1.0
    figure = Figure(figsize=(2.5 * n_columns, height))  # an automatic layout of this many panels takes minutes
    figure.subplots_adjust(0.06, 0.7 / height, 0.99, 1 - 0.3 / height, wspace=0.08, hspace=0.25)
    axes = figure.subplots(n_rows, n_columns, sharex=True, sharey=True, squeeze=False).ravel()
    for ax in axes[len(p_values) :]:
        ax.set_visible(False)
    for ax, (name, by_kind) in zip(axes, p_values.items(), strict=False):
        ax.plot([1e-3, 1], [1e-3, 1], color="black", linewidth=0.8)
        for kind, found in by_kind.items():
            place = next((j for j, base in enumerate(KINDS) if base in kind), 3)
            p = np.sort(found)
            expected = (np.arange(len(p)) + 0.5) / len(p)
            dash = ("-", "--", ":", "-.")[place] if kind in KINDS else "-."
            label = kind if kind in KINDS else None
            ax.plot(expected, np.maximum(p, 1e-4), color=COLORS[place], linestyle=dash, label=label)
        ax.set(xscale="log", yscale="log", xlim=(1e-3, 1), ylim=(1e-3, 1))
        ax.set_title(fill(name, 45), fontsize=7)
    axes[0].legend(fontsize=7, frameon=False)
    figure.supxlabel("uniform p-value", y=0.15 / height)
    figure.supylabel("observed p-value (below the line: too many rejections)", x=0.005)
    figure.savefig(path, dpi=110 if n_rows < 10 else 80)


def draw_coverage(table: pd.DataFrame, path: Path) -> None:
    """Share of intervals that contain the expected score."""
    designs = list(dict.fromkeys(table["design"]))
    figure = Figure(figsize=(10, 1.0 + 0.36 * len(designs)), layout="constrained")
    ax = figure.subplots()
    ax.axvspan(0.90, 0.98, color="#dddddd", zorder=0)
    ax.axvline(0.95, color="black", linewidth=0.8)
    kinds = list(dict.fromkeys([*KINDS, *table["signal"]]))
    for kind, marker, color, shift in zip(kinds, "os^D", COLORS, (-0.2, 0.0, 0.2, 0.0), strict=False):
        part = table[table["signal"] == kind]
        places = [designs.index(design) + shift for design in part["design"]]
        ax.plot(part["coverage_95"], places, marker, color=color, label=kind)
    labels = [name.replace(" %", "%").replace("centred", "centered") for name in designs]
    ax.set_yticks(range(len(designs)), labels)
    ax.invert_yaxis()
    ax.set_xlim(table["coverage_95"].min() - 0.02, 1.005)
    ax.set_xlabel("share of 95% intervals that contain the expected score")
    ax.legend(title="kind of feature", frameon=False, loc="upper left")
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)


def draw_power(table: pd.DataFrame, path: Path) -> None:
    """Share of data sets in which each test rejects, for designs with several tests."""
    table = table[(table["design"] == PEERS) & (table["test"] != FIT)]
    figure = Figure(figsize=(11, 3.8), layout="constrained")
    axes = figure.subplots(1, len(KINDS), sharey=True)
    for ax, kind in zip(axes, KINDS, strict=True):
        for test, color, marker in zip(dict.fromkeys(table["test"]), COLORS, "os^vD", strict=False):
            part = table[(table["signal"] == kind) & (table["test"] == test)]
            ax.plot(part["strength"], part["rejected_5"], color=color, marker=marker, label=test)
        ax.axhline(ALPHA, color="black", linewidth=0.8, linestyle=":")
        ax.set(title=kind, xlabel="strength of the signal", ylim=(-0.02, 1.02))
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("share rejected at 5%")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, dpi=110)
