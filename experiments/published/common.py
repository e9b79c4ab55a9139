"""What the tables share: a checkpoint that a stopped run goes on from, AUROC, and Markdown."""

from __future__ import annotations

import argparse
import os
from collections.abc import Hashable, Iterable
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from truewood._checkpoint import append_to, read_entries

FOLDER = Path(__file__).parent
Line = dict[str, object]
Cell = tuple[Hashable, ...]


def complete(name: str, cells: Iterable[Cell], checkpoint: Path, n_jobs: int) -> pd.DataFrame:
    """Have a module's `measure` measure the cells missing in the checkpoint; return the lines of all, in order.

    The module is named, since functions of a script that is running cannot always be sent to other processes.
    """
    cells = list(cells)
    done = {tuple(entry["cell"]) for entry in _read(checkpoint)}
    missing = [cell for cell in cells if cell not in done]
    calls = (delayed(_measure)(name, cell) for cell in missing)
    with append_to(checkpoint) as append:
        for count, entry in enumerate(Parallel(n_jobs=n_jobs, return_as="generator_unordered")(calls), start=1):
            append(entry)
            if count % 50 == 0 or count == len(missing):
                print(f"{count} of {len(missing)} cells", flush=True)
    lines = {tuple(entry["cell"]): entry["lines"] for entry in _read(checkpoint)}
    return pd.DataFrame([line for cell in cells for line in lines[cell]])


def _measure(name: str, cell: Cell) -> dict[str, object]:
    with threadpool_limits(1):
        return {"cell": cell, "lines": import_module(name).measure(*cell)}


def _read(checkpoint: Path) -> list[dict[str, object]]:
    return read_entries(checkpoint, keys={"cell", "lines"}, label=checkpoint.name)


def parse_options(
    description: str | None, name: str, repetitions: int, more: dict[str, str] | None = None
) -> argparse.Namespace:
    """Options of all tables, and more with their defaults; `checkpoint` and `table` are files."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n-jobs", type=int, default=1)
    parser.add_argument("--repetitions", type=int, default=repetitions)
    parser.add_argument("--output", type=Path, default=FOLDER, help="folder of the table and of the checkpoint")
    for option, default in (more or {}).items():
        parser.add_argument(option, default=default)
    options = parser.parse_args()
    options.checkpoint, options.table = options.output / f"{name}.jsonl", options.output / f"{name}.csv"
    return options


def find_auroc(is_signal: np.ndarray, scores: np.ndarray) -> float:
    """How often a signal scores above a column of noise."""
    return float(roc_auc_score(is_signal, scores))


def find_data(variable: str, name: str) -> Path:
    """A file of a folder that an environment variable names."""
    folder = os.environ.get(variable)
    if not folder or not (Path(folder) / name).exists():
        raise FileNotFoundError(f"{name} is not in the folder that the environment variable {variable} names")
    return Path(folder) / name


def has_data(variable: str, name: str) -> bool:
    """Whether `find_data` finds it."""
    return bool(os.environ.get(variable)) and (Path(os.environ[variable]) / name).exists()


def summarize(lines: pd.DataFrame, by: list[str], value: str) -> pd.DataFrame:
    """Mean and standard error over repetitions, groups in the order of the lines."""
    groups = lines.groupby(by, sort=False)[value]
    table = groups.agg(measured="mean", std_error="sem", repetitions="size")
    return table.reset_index()


def write_markdown(table: pd.DataFrame) -> str:
    """A table in Markdown; its first columns hold text, missing cells are empty."""
    rows = [list(table.columns), ["---"] * table.shape[1]]
    rows += table.astype(object).where(table.notna(), "").to_numpy().tolist()
    return "".join("| " + " | ".join(map(str, row)) + " |\n" for row in rows)


def write_parts(parts: dict[str, pd.DataFrame]) -> str:
    """Tables in Markdown, one below the other, each after its title: narrower than all columns in one."""
    return "\n".join(f"{title}:\n\n{write_markdown(table)}" for title, table in parts.items())


def write_table(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Write the table, and read it as whoever reads the file does."""
    table.to_csv(path, index=False, float_format="%.6g")
    return pd.read_csv(path)
