"""Runs cells in parallel and keeps every result in a file, so that a stopped run goes on where it was."""

from __future__ import annotations

import json
from pathlib import Path

from joblib import Parallel, delayed
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from truewood.paper.experiments import Cell
from truewood.paper.methods import PEERS

Scores = dict[str, list[float]]

# Repetitions per step: enough to pay for the start of R, few enough to lose little when stopped.
_CHUNK = 5


def run_cells(
    cells: list[Cell],
    *,
    title: str,
    record: Path,
    repetitions: int,
    seed: int,
    absent: set[str],
    n_jobs: int,
    console: Console,
) -> Scores:
    """Run what the record does not hold yet, and return all results by key.

    Parameters
    ----------
    cells : list of Cell
        What to run.
    title : str
        What the progress bar says.
    record : path
        File of results, a line each; read first, and appended to.
    repetitions : int
        Repetitions of each cell.
    seed : int
        Seed of the whole run.
    absent : set of str
        Methods to leave out.
    n_jobs : int
        Number of processes; changes nothing but the time.
    console : Console
        Where the progress bar goes.
    """
    done = _read(record)
    work = []
    for cell in cells:
        methods = [method for method in cell.methods if method not in absent]
        # A peer runs apart from our methods, which are scores of one forest.
        groups = [[m for m in methods if m not in PEERS], *([m] for m in methods if m in PEERS)]
        for group in filter(None, groups):
            for start in range(0, repetitions, _CHUNK):
                numbers = list(range(start, min(start + _CHUNK, repetitions)))
                missing = [m for m in group if any(cell.key(seed, r, m) not in done for r in numbers)]
                if missing:
                    work.append((cell, missing, numbers))
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console) as progress, record.open("a", encoding="utf-8") as file:
        bar = progress.add_task(title, total=len(work))
        steps = Parallel(n_jobs=n_jobs, return_as="generator_unordered")(
            delayed(cell.run)(group, seed, numbers) for cell, group, numbers in work
        )
        for results in steps:
            file.write("".join(json.dumps({"key": key, "scores": scores}) + "\n" for key, scores in results))
            file.flush()
            done.update(results)
            progress.advance(bar)
    return done


def _read(record: Path) -> Scores:
    """Results in the file; a last line that was cut off is dropped from it."""
    done: Scores = {}
    if not record.exists():
        return done
    lines = record.read_text(encoding="utf-8").splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines.pop()
        record.write_text("".join(lines), encoding="utf-8")
    for number, line in enumerate(lines, start=1):
        try:
            entry = json.loads(line)
            done[entry["key"]] = entry["scores"]
        except (ValueError, KeyError) as error:
            raise ValueError(f"{record}, line {number}, is damaged; remove the line or the file.") from error
    return done
