"""Formatting of names, values and counts in messages."""

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

# Smaller p-values are shown as below this.
_SMALLEST = 0.001
_MOST_NAMES = 12
# Most characters of a user's name or value in a message.
_LONGEST = 80


def count(number: int, noun: str) -> str:
    """A count with its noun: "1 row", "1,200 rows"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def list_names(names: Sequence[str], most: int = 12) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(shorten(name, _LONGEST) for name in names[:most]) + more


def format_p_value(p_value: float) -> str:
    """A p-value in few characters."""
    if math.isnan(p_value):
        return "-"
    return f"<{_SMALLEST:g}" if p_value < _SMALLEST else f"{p_value:.2g}"


def format_number(number: float) -> str:
    """A number in four significant digits, or as a whole number if it is large: 0.01234, 1990, 660,500."""
    return f"{number:,.0f}" if 1e4 <= abs(number) < 1e15 else f"{number:.4g}"


def make_ordinal(number: int) -> str:
    """An ordinal number: 1st, 2nd, 11th, 1,203rd."""
    is_teen = 11 <= number % 100 <= 13
    return f"{number:,}{'th' if is_teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def in_one_line(text: str) -> str:
    """Text with unprintable characters, which column names may contain, escaped."""
    return "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in text)


def shorten(name: str, most: int = 36) -> str:
    """Shorten a name in the middle, as long names often differ at their ends; escape unprintable characters."""
    name = in_one_line(name)
    if len(name) <= most:
        return name
    n_last = most // 3
    return f"{name[: most - n_last - 1]}…{name[-n_last:]}"


def quote(value: object, most: int = _LONGEST) -> str:
    """A value in a message: its repr in one line, shortened in the middle.

    Examples
    --------
    >>> from truewood._formatting import quote
    >>> quote("auto"), len(quote("x" * 1_000_000))
    ("'auto'", 80)
    """
    text = repr(value)
    return shorten(" ".join(text.split()) if "\n" in text else text, most)


def enumerate_names(names: Sequence[str], word: str = "and") -> str:
    """Join names as in a sentence, and count the rest of many."""
    shown = [shorten(name) for name in names[:_MOST_NAMES]]
    if len(names) > _MOST_NAMES:
        shown = [*shown[: _MOST_NAMES - 2], f"{len(names) - _MOST_NAMES + 2:,} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} {word} {shown[-1]}"
