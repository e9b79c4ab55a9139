"""Words that several messages share."""

from __future__ import annotations

import math
from collections.abc import Sequence

ROWS_IN_WORDS = {
    "oob": "out-of-bag rows",
    "heldout": "held-out rows",
    "folds": "rows held out in folds",
    "lists": "rows from lists",
    "training": "training rows",
}

# Smaller p-values are not told apart.
_SMALLEST = 1e-16


def count(number: int, noun: str) -> str:
    """A number of things: "1 row", "1,200 rows"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def list_names(names: Sequence[str], most: int = 12) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def format_p_value(p_value: float) -> str:
    """A p-value in few characters."""
    if math.isnan(p_value):
        return "-"
    return f"<{_SMALLEST:.0e}" if p_value < _SMALLEST else f"{p_value:.2g}"


def in_one_line(text: str) -> str:
    """Text without characters that would move the cursor, which names of columns may hold: they are written out."""
    return "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in text)
