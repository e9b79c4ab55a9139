"""`truewood demo`: biased and unbiased importance on simulated data, or a real table and its report."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich import box
from rich.table import Table

from truewood._cli.output import can_write_reports
from truewood._cli.streams import Console
from truewood._formatting import count, find_unit, format_p_value, make_ordinal, state_p_value
from truewood._writing import check_writable, write_figure, write_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from truewood._results.importance_result import ImportanceResult

_N_TREES = 300
_MAX_DEPTH = 10
SIMULATED, DIABETES = "simulated", "diabetes"
# The columns of scikit-learn's diabetes data.
_DIABETES_NAMES = {
    "s1": "total cholesterol",
    "s2": "ldl",
    "s3": "hdl",
    "s4": "cholesterol to hdl",
    "s5": "log triglycerides",
    "s6": "blood sugar",
    "target": "progression",
}
# Narrow tables, for terminals of 80 characters.
_PLAIN: dict[str, Any] = {"box": box.SIMPLE_HEAD, "pad_edge": False, "padding": (0, 1, 0, 0)}


def add_command(commands: Any) -> None:
    """Add `demo` to the commands."""
    parser = commands.add_parser(
        "demo",
        help="compare biased and unbiased importance on simulated data, or analyze a real table",
        description="simulated: fit a forest to ten integer features with 2 to 11 levels, only the first of them "
        "informative, and print and plot biased and unbiased importance side by side. diabetes: write "
        "scikit-learn's table of 442 patients to a file, and run truewood importance on it. Both write a report if "
        "truewood[report] is installed.",
        epilog="example: truewood demo diabetes --output plots",
    )
    parser.add_argument(
        "data",
        nargs="?",
        choices=[SIMULATED, DIABETES],
        default=SIMULATED,
        help="data to use (default: %(default)s)",
    )
    parser.add_argument(
        "--task",
        choices=["classification", "regression"],
        help="task for simulated data (default: classification)",
    )
    parser.add_argument(
        "--output", type=Path, default=Path(), metavar="DIR", help="output folder (default: current folder)"
    )
    parser.add_argument(
        "--random-state", type=int, default=0, metavar="SEED", help="seed of data and forest (default: %(default)s)"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run the chosen demo."""
    if options.data == SIMULATED:
        _show_simulated(options, options.task or "classification")
        return
    if options.task is not None:
        raise ValueError(f"--task: applies to {SIMULATED} data only; {DIABETES} is a regression problem.")
    _show_diabetes(options)


def _show_diabetes(options: argparse.Namespace) -> None:
    """Write the table, and run `truewood importance` on it."""
    from sklearn.datasets import load_diabetes

    from truewood._cli import make_parser

    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "truewood-diabetes.csv"
    patients = load_diabetes(as_frame=True, scaled=False).frame.rename(columns=_DIABETES_NAMES)
    write_file(path, patients.to_csv(index=False).encode())
    arguments = ["importance", str(path), "--target", "progression", "--random-state", str(options.random_state)]
    for ending in ["png", *["html"] * can_write_reports()]:
        arguments += ["--output", str(path.with_suffix(f".{ending}"))]
    Console(highlight=False).print(f"$ truewood {shlex.join(arguments)}", soft_wrap=True, markup=False)
    chosen = make_parser().parse_args(arguments)
    chosen.run(chosen)
    if not can_write_reports():
        _print_report_hint()


def _show_simulated(options: argparse.Namespace, task: str) -> None:
    """Fit and score a forest, and print and plot the result."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    from truewood._importance import importance
    from truewood._paper.data import draw_ten

    options.output.mkdir(parents=True, exist_ok=True)
    plot, report = (options.output / f"truewood-demo.{ending}" for ending in ("png", "html"))
    for path in (plot, report):
        check_writable(path)
    console = Console(highlight=False)
    problem = draw_ten(np.random.default_rng(options.random_state), task=task)
    names = [f"{name} ({levels} levels)" for levels, name in enumerate(problem.X, start=2)]
    forest = (RandomForestClassifier if task == "classification" else RandomForestRegressor)(
        n_estimators=_N_TREES, max_depth=_MAX_DEPTH, n_jobs=-1, random_state=options.random_state
    )
    with console.status(f"Fitting {_N_TREES} trees to {len(problem.y)} rows ..."):
        forest.fit(problem.X, problem.y)
        result = importance(forest, problem.X, problem.y, feature_groups=names, n_jobs=-1)
    console.print(_make_table(result))
    console.print(_explain(result))
    _draw(result, task, plot)
    console.print(f"[dim]wrote {plot}[/dim]", soft_wrap=True)
    if can_write_reports():
        result.report(report, title="Ten features, one informative", notes=[_explain(result)], data="simulated data")
        console.print(f"[dim]wrote {report}[/dim]", soft_wrap=True)
    else:
        _print_report_hint()


def _print_report_hint() -> None:
    hint = "[dim]For an HTML report: pip install 'truewood\\[report]'[/dim]"
    Console(highlight=False).print(hint, soft_wrap=True)


def _make_table(result: ImportanceResult) -> Table:
    table = Table(title=f"Ten features, one informative: {result.task}", title_justify="left", **_PLAIN)
    table.caption, table.caption_justify = "* informative; all other features are noise", "left"
    table.add_column("feature")
    for heading in ("biased\n(mdi)", "rank", f"unbiased\n({result.measure})", "95% CI", "adjusted\np-value", "rank"):
        table.add_column(heading, justify="right")
    frame = result.frame().set_index("feature").loc[result.feature_names.tolist()]
    unit = find_unit([*result.values.tolist(), *result.mdi.tolist()])
    for row, p_value in zip(frame.itertuples(), result.adjusted_p_value().tolist(), strict=True):
        is_signal = row.Index == result.feature_names[0]
        cells = [
            f"{row.Index}{' *' * is_signal}",
            unit.write(row.mdi),
            str(row.mdi_rank),
            unit.write(row.importance, sign="+"),
            f"{unit.write(row.ci_low)} to {unit.write(row.ci_high)}",
            format_p_value(p_value),
            str(row.rank),
        ]
        table.add_row(*cells, style="bold green" if is_signal else "")
    return table


def _explain(result: ImportanceResult) -> str:
    """Explain what the numbers show: the rank of the signal, and that noise is not significant."""
    frame = result.frame()
    signal = frame[frame["feature"] == result.feature_names[0]]
    biased_rank, rank = int(signal["mdi_rank"].iloc[0]), int(signal["rank"].iloc[0])
    n_noise, n_false = len(frame) - 1, int(np.count_nonzero(result.select()[1:]))
    higher = f", below {count(biased_rank - 1, 'noise feature')} with more possible splits" if biased_rank > 1 else ""
    n_above = int(np.count_nonzero((result.interval()[0] > 0)[1:] & ~result.select()[1:]))
    interval, verb = ("interval", "is") if n_above == 1 else ("intervals", "are")
    above = (
        f" The {interval} of {count(n_above, 'noise feature')} {verb} above zero by chance; adjusted p-values account "
        f"for testing {len(frame)} features at once."
        if n_above
        else ""
    )
    return (
        "Biased: scored on the training rows, the only informative feature ranks "
        f"{make_ordinal(biased_rank)} of {len(frame)}{higher}. Unbiased: scored on out-of-bag rows, it ranks "
        f"{make_ordinal(rank)} (adjusted p-value {format_p_value(float(result.adjusted_p_value()[0]))}), noise "
        f"features score about zero, and {n_false} of {count(n_noise, 'noise feature')} "
        f"{'is' if n_false == 1 else 'are'} significant "
        f"(adjusted p-value at most 0.05). P-values are one-sided: they test whether importance is above zero.{above}"
    )


def _draw(result: ImportanceResult, task: str, path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from truewood._plotting.style import BIASED, UNBIASED

    figure = Figure(figsize=(10.0, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 2, sharey=True)
    titles = ["Biased: scored on training rows", "Unbiased: out-of-bag rows, 95% CIs, adjusted p-values"]
    for ax, scores, title, color in zip(panels, (result.mdi, result.values), titles, (BIASED, UNBIASED), strict=True):
        ax.barh(range(len(scores)), scores, color=[color, *["#BBBBBB"] * (len(scores) - 1)])
        ax.locator_params(axis="x", nbins=5)
        if scores is result.values:
            ax.hlines(range(len(scores)), *result.interval(), color="black", linewidth=1.0)
        ax.axvline(0, color="black", linewidth=0.8)
        ax.set_title(title, fontsize="medium")
        ax.set_xlabel("importance")
        ax.spines[["top", "right"]].set_visible(False)
    panels[0].set_yticks(range(len(result.feature_names)), result.feature_names)
    panels[0].invert_yaxis()
    _write_p_values(panels[1], result)
    figure.suptitle(f"Only X1 is informative ({task}, {count(result.n_rows, 'row')}, {count(_N_TREES, 'tree')})")
    write_figure(path, figure, dpi=150)


def _write_p_values(ax: Axes, result: ImportanceResult) -> None:
    """Write adjusted p-values in a column next to the bars."""
    for place, p_value in enumerate(result.adjusted_p_value().tolist()):
        text = state_p_value(p_value)
        ax.text(1.01, place, text, transform=ax.get_yaxis_transform(), va="center", fontsize=8)
