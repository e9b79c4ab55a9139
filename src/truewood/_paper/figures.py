"""The paper's figures, with the same panels and axes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from truewood._plotting.style import UNBIASED
from truewood._writing import write_figure

TITLES = {"SI": "split improvement (SI)", "UFI": "unbiased feature importance (UFI)"}
_LINES = {"X1": "-", "X2": "-", "X3": "--", "X4": "-.", "X5": ":"}
_COLORS = {"X1": "#E69F00", "X2": "#0072B2", "X3": "#009E73", "X4": "#CC79A7", "X5": "#555555"}
_LEVELS = {"X1": "continuous", "X2": "2", "X3": "4", "X4": "10", "X5": "20"}


def _make_panels(
    n_rows: int, n_columns: int, *, width: float, height: float, share_y: bool = False
) -> tuple[Figure, Any]:
    figure = Figure(figsize=(width * n_columns, height * n_rows), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(n_rows, n_columns, squeeze=False, sharey=share_y)


def _save(figure: Figure, folder: Path, name: str) -> list[Path]:
    paths = [folder / f"{name}.png", folder / f"{name}.svg"]
    write_figure(paths[0], figure, dpi=120)
    # Without dates and random ids, so that the same run writes the same file.
    with rc_context({"svg.hashsalt": "truewood"}):
        write_figure(paths[1], figure, metadata={"Date": None})
    return paths


def draw_bias(table: pd.DataFrame, folder: Path, name: str) -> list[Path]:
    """Draw box plots of five predictors without signal, one file per method and one panel per task."""
    paths = []
    for method, title in TITLES.items():
        tasks = list(table["task"].unique())
        figure, axes = _make_panels(1, len(tasks), width=4.6, height=3.6)
        for ax, task in zip(axes[0], tasks, strict=True):
            part = table[(table["task"] == task) & (table["method"] == method)]
            features = list(part["feature"].unique())
            ax.boxplot(
                [part.loc[part["feature"] == feature, "score"] for feature in features],
                tick_labels=[f"{feature}\n({_LEVELS[feature]})" for feature in features],
                medianprops={"color": UNBIASED, "linewidth": 1.8},
                flierprops={"marker": ".", "markersize": 4},
            )
            if part["score"].min() < 0:
                ax.axhline(0, color="black", linewidth=0.8)
            ax.set_title(task)
            ax.set_xlabel("predictor (number of categories)")
        axes[0][0].set_ylabel("importance")
        figure.suptitle(f"Five predictors without signal: {title}")
        paths += _save(figure, folder, f"{name}_{method.lower()}")
    return paths


def draw_ranking(summary: pd.DataFrame, folder: Path, name: str) -> list[Path]:
    """Draw average ranks of five predictors by signal strength, one file per method and one panel per task."""
    paths = []
    for method, title in TITLES.items():
        tasks = list(summary["task"].unique())
        figure, axes = _make_panels(1, len(tasks), width=4.6, height=3.6, share_y=True)
        for ax, task in zip(axes[0], tasks, strict=True):
            part = summary[(summary["task"] == task) & (summary["method"] == method)]
            for feature, one in part.groupby("feature"):
                key = str(feature)
                label = f"{key}, signal" if key == "X2" else key
                style = {"color": _COLORS[key], "linestyle": _LINES[key], "linewidth": 2.6 if key == "X2" else 1.5}
                ax.plot(one["rho"], one["mean_rank"], label=label, marker="o", markersize=3, **style)
            ax.set_title(task)
            ax.set_xlabel("signal strength rho")
            ax.set_xticks([0, 0.2, 0.4, 0.6, 0.8, 1.0])
        axes[0][0].set_ylabel("average rank")
        axes[0][0].set_ylim(5.2, 0.8)
        axes[0][-1].legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
        figure.suptitle(f"Rank by signal in the binary X2: {title}")
        paths += _save(figure, folder, f"{name}_{method.lower()}")
    return paths


def draw_bars(summary: pd.DataFrame, folder: Path, name: str) -> list[Path]:
    """Draw bars with one standard deviation, one panel per method; the added random feature is black."""
    methods = [method for method in ("SI", "UFI", "cforest", "ranger") if method in set(summary["method"])]
    features = list(summary["feature"].unique())
    is_wide = len(features) > 20
    figure, axes = _make_panels((len(methods) + 1) // 2, 2, width=7.5 if is_wide else 5.0, height=3.4)
    for ax, method in zip(axes.flat, methods, strict=False):
        part = summary[summary["method"] == method].set_index("feature").loc[features]
        colors = ["black" if feature == "random" else UNBIASED for feature in features]
        error_style = {"ecolor": "#D55E00", "elinewidth": 1.4, "capsize": 2}
        ax.bar(range(len(features)), part["mean"], yerr=part["std"], color=colors, error_kw=error_style)
        ax.axhline(0, color="black", linewidth=0.8)
        ax.set_xticks(range(len(features)), features, rotation=90, fontsize=7 if is_wide else 9)
        ax.set_title(TITLES.get(method, f"{method} (R)"))
    for ax in list(axes.flat)[len(methods) :]:
        ax.set_visible(False)
    for row in axes:
        row[0].set_ylabel("importance")
    return _save(figure, folder, name)


def draw_ranks(table1: pd.DataFrame, folder: Path, name: str) -> list[Path]:
    """Draw measured (with standard errors) and published average ranks of the informative feature."""
    settings = table1[["depth", "task"]].drop_duplicates().to_numpy().tolist()
    figure, axes = _make_panels(1, len(settings), width=3.0, height=3.4, share_y=True)
    methods = list(table1["method"].unique())[::-1]
    for ax, (depth, task) in zip(axes[0], settings, strict=True):
        part = table1[(table1["depth"] == depth) & (table1["task"] == task)].set_index("method").loc[methods]
        places = range(len(methods))
        ax.errorbar(
            part["mean_rank"], places, xerr=part["std_error"], fmt="o", color=UNBIASED, capsize=2, label="measured"
        )
        ax.plot(part["published"], places, "x", color="#D55E00", markersize=7, label="published")
        ax.set_yticks(places, methods)
        ax.set_xlim(0.5, 10.5)
        ax.set_title(f"{task}, depth {depth}", fontsize=10)
        ax.set_xlabel("average rank (1 is correct)")
    axes[0][-1].legend(frameon=False, fontsize="small")
    return _save(figure, folder, name)
