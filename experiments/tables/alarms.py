"""How often leaks and identifiers are found in tables that have them, and how often in tables that do not.

    python experiments/tables/alarms.py

Writes alarms.csv beside this file, in a few minutes of one core: no model is fit. `generated` tables (generated.py)
have known leaks and identifiers, or none; 20 tables of each kind are drawn. A leak within free text counts as left
out, because free text is left out. In `shuffled` tables, the target is permuted, so that no column can determine it. In
`every column` tables, each column of a public table is the target in turn, and findings are listed for the reader.
The three data sets of the paper are read by `truewood.datasets`, from the folder that TRUEWOOD_DATA names.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from generated import IDENTIFIERS, LEAKS, TARGETS, make
from sklearn import datasets as sklearn_datasets

from truewood import datasets
from truewood.tabular import TableError, describe_table

FOLDER = Path(__file__).parent
N_TABLES = 20
IDENTIFYING = ("identifier", "group identifier")
FIELDS = [
    "kind",
    "table",
    "tables",
    "leaks",
    "leaks_left_out",
    "identifiers",
    "identifiers_left_out",
    "false_alarms",
    "which",
]


def load_public() -> Iterator[tuple[str, pd.DataFrame]]:
    """Tables of scikit-learn, and those of the paper."""
    for name in ("iris", "wine", "breast_cancer", "diabetes", "linnerud"):
        yield f"sklearn/{name}", getattr(sklearn_datasets, f"load_{name}")(as_frame=True).frame
    for name in ("adult", "boston", "rna"):
        X, y = getattr(datasets, f"load_{name}")()
        yield f"paper/{name}", pd.DataFrame(X).assign(target=np.asarray(y))


def find(table: pd.DataFrame, target: str) -> tuple[set[str], set[str], set[str]]:
    """Columns that are left out as leaks, as identifiers, and for any reason."""
    others = [column for column in describe_table(table, target=target) if column.name != target]
    leaks = {column.name for column in others if column.dtype == "possible leak"}
    identifiers = {column.name for column in others if column.dtype in IDENTIFYING}
    return leaks, identifiers, {column.name for column in others if not column.is_used}


def count(
    kind: str, name: str, tables: list[pd.DataFrame], target: str, leaks: set[str], identifiers: set[str]
) -> list:
    found = [find(table, target) for table in tables]
    wrong = [sorted((leaked - leaks) | (identified - identifiers)) for leaked, identified, _ in found]
    return [
        kind,
        name,
        len(tables),
        len(leaks) * len(tables),
        sum(len(left_out & leaks) for _, _, left_out in found),
        len(identifiers) * len(tables),
        sum(len(identified & identifiers) for _, identified, _ in found),
        sum(map(bool, wrong)),
        "; ".join(sorted({column for columns in wrong for column in columns})),
    ]


def shuffle(table: pd.DataFrame, target: str, rng: np.random.Generator) -> pd.DataFrame:
    return table.assign(**{target: rng.permutation(table[target].to_numpy())})


def try_targets(name: str, table: pd.DataFrame) -> list:
    """Take each column as the target."""
    n_tables, named = 0, []
    for target in table:
        try:
            leaks, _, _ = find(table, str(target))
        except TableError:  # a constant, for example
            continue
        n_tables += 1
        if leaks:
            named.append(f"{target}: {', '.join(sorted(leaks))}")
    return ["every column", name, n_tables, "", "", "", "", len(named), "; ".join(named)]


def start() -> None:
    lines = []
    for name, target in TARGETS.items():
        rng = np.random.default_rng(0)
        with_leaks = [make(name, rng) for _ in range(N_TABLES)]
        without = [make(name, rng, has_leaks=False) for _ in range(N_TABLES)]
        lines.append(count("generated", name, with_leaks, target, LEAKS[name], IDENTIFIERS[name]))
        lines.append(count("generated without leaks", name, without, target, set(), IDENTIFIERS[name]))
        shuffled = [shuffle(table, target, rng) for table in with_leaks]
        lines.append(count("shuffled", name, shuffled, target, set(), IDENTIFIERS[name]))
    for name, table in load_public():
        lines.append(try_targets(name, table))
    with (FOLDER / "alarms.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(FIELDS)
        writer.writerows(lines)


if __name__ == "__main__":
    start()
