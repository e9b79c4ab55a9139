"""Run cells in parallel, with a checkpoint file from which a stopped run continues."""

from __future__ import annotations

from pathlib import Path

from joblib import Parallel, delayed

from truewood._checkpoint import append_to, read_entries
from truewood._paper.experiments import Cell
from truewood._paper.methods import PEERS
from truewood._progress import show_progress

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
) -> Scores:
    """Run what is not in the checkpoint yet, and return all results by key.

    Parameters
    ----------
    cells : list of Cell
        The cells to run.
    title : str
        Title of the progress bar.
    record : path
        Checkpoint file with one line per result; read first, then appended to.
    repetitions : int
        Repetitions of each cell.
    seed : int
        Seed of the whole run.
    absent : set of str
        Methods to skip.
    n_jobs : int
        Number of processes; does not change the results.
    """
    done = {entry["key"]: entry["scores"] for entry in read_entries(record, keys={"key", "scores"}, label=str(record))}
    work = _list_work(cells, done, repetitions=repetitions, seed=seed, absent=absent)
    with show_progress(title, total=len(work)) as update, append_to(record) as append:
        steps = Parallel(n_jobs=n_jobs, return_as="generator_unordered")(
            delayed(cell.run)(methods, seed, numbers) for cell, methods, numbers in work
        )
        for n_done, results in enumerate(steps, start=1):
            append(*({"key": key, "scores": scores} for key, scores in results))
            done.update(results)
            update(n_done)
    return done


def _list_work(
    cells: list[Cell], done: Scores, *, repetitions: int, seed: int, absent: set[str]
) -> list[tuple[Cell, list[str], list[int]]]:
    """List what is not done yet: a cell, the methods to run, and the repetitions."""
    work = []
    for cell in cells:
        methods = [method for method in cell.methods if method not in absent]
        # Peers run on their own; our methods all score the same forest.
        batches = [[m for m in methods if m not in PEERS], *([m] for m in methods if m in PEERS)]
        for batch in filter(None, batches):
            for start in range(0, repetitions, _CHUNK):
                numbers = list(range(start, min(start + _CHUNK, repetitions)))
                missing = [m for m in batch if any(cell.key(seed, r, m) not in done for r in numbers)]
                if missing:
                    work.append((cell, missing, numbers))
    return work
