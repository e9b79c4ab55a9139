"""Groups of encoded columns: those that derive from the same column of the caller's table are scored together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from truewood._formatting import list_names
from truewood._inputs.groups import Grouping, read_feature_groups
from truewood._pipelines.provenance import ColumnProvenance

# Names listed in a note.
_LISTED = 5


@dataclass(frozen=True, eq=False)
class Encoding:
    """How preprocessing encodes the caller's table.

    Parameters
    ----------
    inputs : list of str
        Names of the caller's columns.
    columns : ColumnProvenance
        The encoded columns, and the inputs that each derives from.
    """

    inputs: list[str]
    columns: ColumnProvenance


def group_columns(encoding: Encoding, combined: Sequence[str], feature_groups: Any) -> tuple[Grouping, tuple[str, ...]]:
    """Group encoded columns by the caller's columns, or by groups of these.

    Parameters
    ----------
    encoding : Encoding
        The encoded columns.
    combined : sequence of str
        Features that the model itself computes from several columns; each forms its own group.
    feature_groups : None, dict or sequence
        Groups of the caller's columns.

    Returns
    -------
    grouping : Grouping
        Groups in the order of the caller's columns, then columns that mix several of them.
    notes : tuple of str
        Notes for the user.
    """
    traced, inputs = encoding.columns, encoding.inputs
    own = read_feature_groups(feature_groups, np.asarray(inputs, dtype=np.str_))
    found = [{int(own.group_of[j]) for j in sources} for sources in traced.sources]
    single = [next(iter(labels)) if len(labels) == 1 else None for labels in found]
    kept = sorted({label for label in single if label is not None})
    place = {label: g for g, label in enumerate(kept)}
    names = [str(own.names[label]) for label in kept]
    taken = {*inputs, *names}
    group_of = []
    for name, label in zip([*traced.names, *combined], [*single, *[None] * len(combined)], strict=True):
        group_of.append(len(names) if label is None else place[label])
        if label is None:
            names.append(_find_free_name(name, inputs, taken))
            taken.add(names[-1])
    mixed = [names[group_of[column]] for column, labels in enumerate(found) if len(labels) > 1]
    blended = {str(own.names[label]): None for labels in found if len(labels) > 1 for label in sorted(labels)}
    notes = _note_mixed(mixed, list(blended)) + _note_unused(encoding)
    return Grouping(np.asarray(names, dtype=np.str_), np.array(group_of, dtype=np.int32)), notes


def _note_mixed(mixed: list[str], blended: list[str]) -> tuple[str, ...]:
    """Note features that derive from several columns."""
    if not mixed:
        return ()
    return (f"Scored as separate features because they combine several columns ({_list(blended)}): {_list(mixed)}.",)


def _note_unused(encoding: Encoding) -> tuple[str, ...]:
    """Note columns that no encoded column is known to derive from."""
    traced = encoding.columns
    used = frozenset[int]().union(*traced.sources)
    constant = [name for j, name in enumerate(encoding.inputs) if j not in used and j in traced.unknown]
    dropped = [name for j, name in enumerate(encoding.inputs) if j not in used | traced.unknown]
    notes = []
    if dropped:
        notes.append(f"Not used by the pipeline, and left out: {_list(dropped)}.")
    if constant:
        listed = _list(constant)
        notes.append(f"Constant in the rows sampled to trace the pipeline, and left out: {listed}.")
    return tuple(notes)


def _list(names: Sequence[str]) -> str:
    return list_names(names, _LISTED)


def _find_free_name(name: str, inputs: Sequence[str], taken: set[str]) -> str:
    """Unique name for a mixture, different from all columns, groups and other mixtures."""
    free = own = f"{name} (encoded)" if name in inputs else name
    number = 2
    while free in taken:
        free = f"{own} ({number})"
        number += 1
    return free
