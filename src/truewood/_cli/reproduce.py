"""`truewood reproduce`: rerun the experiments of the paper and compare with the published numbers."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from truewood._cli.arguments import jobs, not_negative, positive
from truewood._cli.streams import Console
from truewood._writing import check_writable, write_file

if TYPE_CHECKING:
    import pandas as pd

_NAMES = ("bias", "ranking", "table1", "rna", "adult", "boston")
_DESCRIPTION = """Rerun an experiment of Zhou & Hooker's paper, print published and measured
numbers, and write tables and plots. An interrupted run continues where it
stopped."""
_EXAMPLES = """examples:
  truewood reproduce table1 --repetitions 20 --peers none
  truewood reproduce bias --encoding ordinal --output results
"""
_WITHOUT_PEERS = ("bias", "ranking")
_LOADERS = {"rna": "load_rna", "adult": "load_adult", "boston": "load_boston"}


def add_command(commands: Any) -> None:
    """Add `reproduce` to the commands."""
    parser = commands.add_parser(
        "reproduce",
        help="rerun the experiments of the paper",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "name",
        choices=[*_NAMES, "all"],
        metavar="EXPERIMENT",
        help="table1: average rank of the informative feature among ten; bias: features without signal; ranking: weak "
        "signal in a binary feature; rna, adult, boston: real data; all: all of these",
    )
    parser.add_argument(
        "--encoding",
        choices=["dummy", "ordinal"],
        default="dummy",
        help="encoding of categories in bias and ranking: dummy columns, or ordered integers as in the appendix "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--task",
        choices=["classification", "regression", "both"],
        default="both",
        help="task of the simulations (default: %(default)s)",
    )
    parser.add_argument(
        "--repetitions", type=positive, default=100, metavar="N", help="number of repetitions (default: %(default)s)"
    )
    parser.add_argument(
        "--n-estimators", type=positive, metavar="N", help="trees per forest (default: as in the paper)"
    )
    parser.add_argument(
        "--n-jobs",
        type=jobs,
        default=-1,
        metavar="N",
        help="number of processes; -1 for all cores (default: %(default)s)",
    )
    parser.add_argument(
        "--random-state", type=not_negative, default=0, metavar="SEED", help="seed (default: %(default)s)"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("truewood-paper"),
        metavar="DIR",
        help="folder for tables and plots (default: %(default)s)",
    )
    parser.add_argument(
        "--peers",
        choices=["auto", "none"],
        default="auto",
        help="auto also runs R's cforest and ranger if they are installed; none does not (default: %(default)s)",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run one experiment, or all."""
    from truewood import datasets
    from truewood._paper.methods import INSTALL_PEERS, PEERS, find_peers

    options.output.mkdir(parents=True, exist_ok=True)
    console = Console(highlight=False)
    names = _NAMES if options.name == "all" else (options.name,)
    has_peers = not set(names) <= set(_WITHOUT_PEERS)
    peers = find_peers() if has_peers and options.peers == "auto" else dict.fromkeys(PEERS, False)
    state = "not installed" if options.peers == "auto" else "not run"
    absent = {peer: state for peer, is_there in peers.items() if not is_there}
    for load in [_LOADERS[name] for name in names if name in _LOADERS]:
        getattr(datasets, load)()  # download before long computations
    for name in names:
        _run_one(name, options, absent, console)
    if has_peers and options.peers == "auto" and absent:
        console.print(f"{', '.join(absent)}: not installed; on Debian: {INSTALL_PEERS}", soft_wrap=True)


def _run_one(name: str, options: argparse.Namespace, absent: dict[str, str], console: Console) -> None:
    from truewood._paper import figures
    from truewood._paper.experiments import TASKS, make_cells
    from truewood._paper.runs import run_cells
    from truewood._paper.summaries import list_claims, make_table1, summarize, tidy

    folder: Path = options.output
    stem = f"{name}_{options.encoding}" if name in _WITHOUT_PEERS else name
    check_writable(folder / f"{stem}.csv")
    tasks = TASKS if options.task == "both" else (options.task,)
    cells = make_cells(name, tasks=tasks, encoding=options.encoding, trees=options.n_estimators)
    scores = run_cells(
        cells,
        title=name,
        record=folder / f"{name}.jsonl",
        repetitions=options.repetitions,
        seed=options.random_state,
        absent=set(absent),
        n_jobs=options.n_jobs,
    )
    table = tidy(cells, scores, repetitions=options.repetitions, seed=options.random_state, absent=set(absent))
    summary = summarize(table)
    if name == "table1":
        result = make_table1(table, cells[0].methods)
        console.print(_show_table1(result, absent))
        _write_csv(folder / "table1.csv", result)
        paths = figures.draw_ranks(result, folder, stem)
    else:
        console.print(_show_claims(name, list_claims(name, summary), {} if name in _WITHOUT_PEERS else absent))
        _write_csv(folder / f"{stem}.csv", summary)
        if name == "bias":
            paths = figures.draw_bias(table, folder, stem)
        elif name == "ranking":
            paths = figures.draw_ranking(summary, folder, stem)
        else:
            paths = figures.draw_bars(summary, folder, stem)
    console.print(f"[dim]{folder / stem}.csv, {', '.join(path.name for path in paths)}[/dim]", soft_wrap=True)


def _write_csv(path: Path, table: pd.DataFrame) -> None:
    write_file(path, table.to_csv(index=False, float_format="%.6g", lineterminator="\n").encode())


def _show_table1(result: pd.DataFrame, absent: dict[str, str]) -> Table:
    table = Table(title="Average rank of the informative feature, measured (published)", title_justify="left")
    table.add_column("method")
    for depth, task in result[["depth", "task"]].drop_duplicates().to_numpy().tolist():
        table.add_column(f"{task}\ndepth {depth}", justify="right", no_wrap=True)
    for method, part in result.groupby("method", sort=False):
        cells = [str(method)]
        for mean, error, published in part[["mean_rank", "std_error", "published"]].to_numpy(dtype=float):
            measured = absent.get(str(method)) or f"{mean:.2f}" + ("" if np.isnan(error) else f" ± {error:.2f}")
            cells.append(measured + ("" if np.isnan(published) else f"\n({published:.2f})"))
        table.add_row(*cells, style="bold" if method == "UFI" else "")
    return table


def _show_claims(name: str, claims: list[tuple[str, str, str]], absent: dict[str, str]) -> Table:
    table = Table(title=f"{name}: claims of the paper", title_justify="left")
    for heading in ("claim", "published", "measured"):
        table.add_column(heading)
    for claim in claims:
        table.add_row(*claim)
    for peer, state in absent.items():
        table.add_row(peer, "", state)
    return table
