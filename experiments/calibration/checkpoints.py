"""Checkpoints of runs on several machines, and tables that keep the rows of designs that a run left out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from truewood._checkpoint import append_to, read_entries

Record = dict[str, Any]


def read_runs(checkpoint: Path, others: Iterable[Path], keys: Sequence[str]) -> list[Record]:
    """The entries of a checkpoint, after appending those that only checkpoints of other machines have.

    Entries are the same data set if their `keys` are the same.
    """
    entries = read_entries(checkpoint, keys=set(keys), label=str(checkpoint))
    known = {tuple(entry[key] for key in keys) for entry in entries}
    with append_to(checkpoint) as append:
        for other in others:
            for entry in read_entries(other, keys=set(keys), label=str(other)):
                place = tuple(entry[key] for key in keys)
                if place not in known:
                    known.add(place)
                    append(entry)
                    entries.append(entry)
    return entries


def write_table(table: pd.DataFrame, path: Path, keys: Sequence[str], known: Collection[tuple[str, ...]]) -> None:
    """Write a table in place of the one in a file, and keep the rows there of designs that the table lacks.

    `keys` are the columns that name a design, and `known` are the designs that still exist, in their order.
    """
    order = {place: number for number, place in enumerate(known)}
    if path.exists():
        committed, measured = pd.read_csv(path), name_rows(table, keys)
        named = name_rows(committed, keys)
        is_kept = [place in order and place not in set(measured) for place in named]
        table = pd.concat([committed[is_kept], table], ignore_index=True)
    places = [order[place] for place in name_rows(table, keys)]
    table = table.iloc[pd.Series(places).argsort(kind="stable")]
    table.to_csv(path, index=False, float_format="%.4g")


def name_rows(table: pd.DataFrame, keys: Sequence[str]) -> list[tuple[str, ...]]:
    """What each row has in the columns that name a design."""
    return [tuple(map(str, place)) for place in table[list(keys)].itertuples(index=False)]
