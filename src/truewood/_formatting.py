"""Formatting of names, numbers and counts in messages, tables and reports."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

ROWS_IN_WORDS = {
    "oob": "out-of-bag rows",
    "heldout": "held-out rows",
    "folds": "rows held out in folds",
    "lists": "rows from lists",
    "training": "training rows",
}
# Confidence level of the intervals in tables, plots and reports, and what these call them.
LEVEL = 0.95
CI, INTERVALS = f"{LEVEL:.0%} CI", f"{LEVEL:.0%} intervals"

# Smaller p-values and percentages are shown as below these.
_SMALLEST_P_VALUE = 0.001
_SMALLEST_PERCENT = 0.01
# Numbers from the first to the second are written out, others in units of a power of 1,000.
_LEAST, _MOST = 1e-3, 1e6
# Digits of the largest number of a column, at most, for the sake of smaller ones.
_MOST_DIGITS = 9
_MOST_NAMES = 12
# Smaller whole numbers, which may be years, have no comma.
_LARGE = 1e4
# Maximum number of characters of a user's name or value in a message.
_LONGEST = 80


def count(number: int, noun: str) -> str:
    """A count with its noun: "1 row", "1,200 rows"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def list_names(names: Sequence[str], most: int = 12) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(shorten(name, _LONGEST) for name in names[:most]) + more


def format_p_value(p_value: float) -> str:
    """A p-value with three decimals, so that all numbers of a column have the same number of digits."""
    if math.isnan(p_value):
        return "-"
    return f"<{_SMALLEST_P_VALUE:g}" if p_value < _SMALLEST_P_VALUE else f"{p_value:.3f}"


def state_p_value(p_value: float) -> str:
    """A p-value in a sentence: p = 0.053, p < 0.001."""
    return f"p = {format_p_value(p_value)}".replace("= <", "< ")


def format_percent(percent: float) -> str:
    """A percentage in a sentence: 63%, 3.4%, 0.26%, <0.01%."""
    return f"{_write_percent(percent, 0)}%"


def format_percents(percents: Iterable[float]) -> list[str]:
    """Percentages of a table column, in two or three digits: 63.4, 3.4, 0.26, <0.01, >-0.01."""
    return [_write_percent(percent, 1) for percent in percents]


def _write_percent(percent: float, n_decimals: int) -> str:
    """Write a percentage without its unit; `n_decimals` from 10 on."""
    if percent < 0:
        return f"-{_write_percent(-percent, n_decimals)}".replace("-<", ">-")
    if percent == 0:
        return "0"
    if percent < _SMALLEST_PERCENT:
        return f"<{_SMALLEST_PERCENT:g}"
    if round(percent, 1) >= 100:
        return f"{percent:,.0f}"
    return f"{percent:.{2 if round(percent, 2) < 1 else 1 if round(percent, 1) < 10 else n_decimals}f}"


@dataclass(frozen=True)
class Unit:
    """The power of ten and the decimals that all numbers of a column share.

    Parameters
    ----------
    exponent : int
        Numbers are written in units of 10 to this power.
    n_decimals : int
        Decimals of every number.
    """

    exponent: int
    n_decimals: int

    def write(self, number: float, *, sign: str = "") -> str:
        """Write a number; one that rounds to zero becomes 0."""
        if math.isnan(number):
            return "-"
        text = f"{number / 10.0**self.exponent:{sign},.{self.n_decimals}f}"
        return text if text.strip("+-0.,") else "0"

    def name(self, title: str) -> str:
        """Add the unit to the title of the column, unless it is one."""
        return f"{title} (in 1e{self.exponent})" if self.exponent else title


def find_unit(numbers: Iterable[float], *, smallest: float = math.inf) -> Unit:
    """Find the unit in which the largest of these numbers, and `smallest`, have three or more digits.

    Examples
    --------
    >>> from truewood._formatting import find_unit
    >>> unit = find_unit([0.2431, -0.0312])
    >>> unit.write(0.2431), unit.write(-0.0312), find_unit([4.2e17]).write(4.2e17)
    ('0.243', '-0.031', '420')
    >>> find_unit([1200.0, 0.43], smallest=0.43).write(0.43)
    '0.430'
    """
    largest = max((abs(number) for number in numbers if math.isfinite(number)), default=0.0)
    if largest == 0:
        return Unit(0, 3)
    magnitude = math.floor(math.log10(largest))
    exponent = 0 if _LEAST <= largest < _MOST else 3 * (magnitude // 3)
    if 0 < smallest < largest:
        magnitude = max(math.floor(math.log10(smallest)), magnitude + 3 - _MOST_DIGITS)
    return Unit(exponent, max(0, 2 - magnitude + exponent))


def align(texts: Sequence[str]) -> list[str]:
    """Pad numbers with spaces so that their decimal points are below each other."""
    n_after = [len(text) - (text.find(".") if "." in text else len(text)) for text in texts]
    padded = [text + " " * (max(n_after) - n) for text, n in zip(texts, n_after, strict=True)]
    return [text.rjust(max(map(len, padded))) for text in padded]


def format_number(number: float) -> str:
    """A number in four significant digits, or as a whole number if it is large: 0.01234, 1990, 660,500."""
    return f"{number:,.0f}" if _LARGE <= abs(number) < 1e15 else f"{number:.4g}"


def format_range(low: float, high: float) -> tuple[str, str]:
    """The ends of a range; numbers such as 7,900 have a comma if the other end has one, but not in 1990 to 2010."""
    has_comma = max(abs(low), abs(high)) >= _LARGE
    first, last = (f"{end:,.0f}" if has_comma and 1e3 <= abs(end) < 1e15 else format_number(end) for end in (low, high))
    return first, last


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


def enumerate_names(names: Sequence[str], word: str = "and", longest: int = 36) -> str:
    """Join names as in a sentence, shorten those of more than `longest` characters, and count the rest of many."""
    shown = [shorten(name, longest) for name in names[:_MOST_NAMES]]
    if len(names) > _MOST_NAMES:
        shown = [*shown[: _MOST_NAMES - 2], f"{len(names) - _MOST_NAMES + 2:,} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} {word} {shown[-1]}"
