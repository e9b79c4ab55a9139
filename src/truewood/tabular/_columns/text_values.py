"""Parse strings: numbers, booleans, dates and missing values."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

# Missing in any column. "none" and dashes are often levels of a category: they are missing only among numbers.
_MISSING = {"", "?", "na", "n/a", "nan", "null", "<na>", "#n/a", "nat"}
_MISSING_NUMBERS = {"none", "-", "--", ".", "missing", "unknown"}
_PAIRS = ({"true": True, "false": False}, {"yes": True, "no": False}, {"t": True, "f": False}, {"y": True, "n": False})

_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?")
_DECIMAL_COMMA = re.compile(r"[+-]?(\d+|[1-9]\d{0,2}(\.\d{3})+),\d+")
_THOUSANDS_BY_POINT = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+")
# An amount whose currency follows, as where points separate thousands: 1.234 €.
_ENDS_WITH_CURRENCY = re.compile(r".*\d\s*[€£¥₹₩₽₺₴₪₫฿₦$]")
# 1,234 is ambiguous; 1,234.5 and 1,234,567 are not.
_EITHER = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")
_UNITS = re.compile(r"^([+-]?)[$€£]\s*|\s*%$")
# Amounts of money: EUR 1,234.00, 1.234,00 €, -$5, CHF 1'234.50, US$ 12.5k.
_CODES = (
    "AED|ARS|AUD|BRL|CAD|CHF|CLP|CNY|COP|CZK|DKK|EGP|EUR|GBP|HKD|HUF|IDR|ILS|INR|JPY|KES|KRW|MXN|MYR|NGN|NOK|NZD|PEN|"
    "PHP|PKR|PLN|RON|RUB|SAR|SEK|SGD|THB|TRY|TWD|UAH|USD|VND|ZAR"
)
_SYMBOL = r"(?:[A-Z]{1,2})?\$|[€£¥₹₩₽₺₴₪₫฿₦]"
_MONEY = re.compile(
    rf"([+-]?)\s*({_CODES}|{_SYMBOL}|Rs\.?)?\s*([+-]?)(\d[\d.,'’\u00a0\u202f ]*)"
    rf"(?:([kKmMbB]|[mM]n|[bB]n)\b)?\s*({_SYMBOL})?"
)
_FACTORS = {"": 1.0, "k": 1e3, "m": 1e6, "mn": 1e6, "b": 1e9, "bn": 1e9}
# Thousands separators that never occur in a number otherwise.
_GAPS = re.compile(r"(?<=\d)['’\u00a0\u202f ](?=\d{3}(?!\d))")
_IN_PARENTHESES = re.compile(r"\(([^()]*\d[^()]*)\)")
# A number and its unit: 26 mpg, 11,622 sq ft.
_QUANTITY = re.compile(
    r"([+-]?[\d.,]*\d)\s*([^\W\d_][^\W\d_./²³°]*(?:[ ./][^\W\d_][^\W\d_./²³°]*){0,2}[²³]?|°\s*[A-Z])"
)
_FEET = re.compile(r"(\d+)\s*(?:'|′|’|ft|feet)\s*(?:(\d+(?:\.\d+)?)\s*(?:\"|″|”|''|in|inches)?)?")
_HAS_DATE = re.compile(r"\d[-/.: ]\d|\d[ -][A-Za-z]{3}|[A-Za-z]{3}[ -]\d|\d{4}[ -]?Q[1-4]|Q[1-4][ -]?\d{4}")
_QUARTER = re.compile(r"(?:(\d{4})[ -]?Q([1-4])|Q([1-4])[ -]?(\d{4}))", re.IGNORECASE)

# ISO 8601 comes first. If day and month are ambiguous, the month comes first, and the note says so.
_DATES = {
    "ISO8601": "year-month-day",
    "%Y/%m/%d": "year/month/day",
    "%m/%d/%Y": "month/day/year",
    "%d/%m/%Y": "day/month/year",
    "%m/%d/%y": "month/day/year",
    "%d/%m/%y": "day/month/year",
    "%d.%m.%Y": "day.month.year",
    "%d-%m-%Y": "day-month-year",
    "%m-%d-%Y": "month-day-year",
    "%d-%b-%Y": "day-month-year",
    "%d %b %Y": "day month year",
    "%b %d, %Y": "month day, year",
    "%d %B %Y": "day month year",
    "%B %d, %Y": "month day, year",
    "%b %d %Y": "month day year",
    "%B %d %Y": "month day year",
    "%d-%b-%y": "day-month-year",
    "%b-%y": "month-year",
    "%b-%Y": "month-year",
    "%b %Y": "month year",
    "%B %Y": "month year",
}
_QUARTERS = "year and quarter"
_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
# Range of YYYYMMDD dates; one in thirty integers between is a date.
_FIRST_DAY, _LAST_DAY, _FEWEST_DAYS = 1800_01_01, 2200_12_31, 3
# Formats are tried on this many strings before all strings are parsed.
_FIRST = 50


def is_missing(text: str) -> bool:
    """Whether a string means a missing value in any column."""
    return text.lower() in _MISSING


def parse_truth(texts: Sequence[str]) -> NDArray[np.float64] | None:
    """Parse true and false as 1 and 0; None unless both occur and nothing else does."""
    folded = [text.lower() for text in texts]
    for pair in _PAIRS:
        if set(folded) == set(pair):
            return np.array([float(pair[text]) for text in folded])
    return None


def parse_numbers(texts: Sequence[str]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Parse numbers, NaN for other strings; also return whether a string means a missing number."""
    numbers = np.array(pd.to_numeric(pd.Series(texts, dtype=object), errors="coerce"), dtype=np.float64)
    is_blank = np.array([text.lower() in _MISSING_NUMBERS for text in texts], dtype=np.bool_)
    others = np.flatnonzero(np.isnan(numbers) & ~is_blank).tolist()
    if others:
        bare, times = _strip_marks(texts)
        # Other numbers of the column resolve 1,234 and 1.234: 1,5 and 0,512 have decimal commas.
        has_comma = _points_separate_thousands(texts, bare) or any(
            _DECIMAL_COMMA.fullmatch(bare[k]) and not _THOUSANDS.fullmatch(bare[k]) for k in others
        )
        has_point = any("." in text and _is_decimal(text) for text in bare)
        chosen = range(len(texts)) if has_comma and not has_point else others
        numbers[chosen] = [times[k] * _read_marked(bare[k], has_comma, has_point) for k in chosen]
    return numbers, is_blank & np.isnan(numbers)


def _strip_marks(texts: Sequence[str]) -> tuple[list[str], list[float]]:
    """Strip currencies and units; also return factors: -1 for parentheses, 1,000 for a k."""
    bare, times, currencies = [_UNITS.sub(r"\1", text) for text in texts], [1.0] * len(texts), set()
    amounts = {}
    for k, text in enumerate(texts):
        bracketed = _IN_PARENTHESES.fullmatch(text)
        match = _MONEY.fullmatch(bracketed[1].strip() if bracketed else text)
        if match is None:
            continue
        sign, before, inner_sign, number, multiplier, after = (part or "" for part in match.groups())
        currency, number = before or after, number.strip()
        if (before and after) or (sign and inner_sign) or (multiplier and not currency):
            continue
        if (" " in number or multiplier) and not currency:
            continue  # several numbers, or a unit
        currencies |= {currency} - {""}
        amounts[k] = (
            sign + inner_sign + _GAPS.sub("", number),
            (-1.0 if bracketed else 1.0) * _FACTORS[multiplier.lower()],
        )
    if len(currencies) <= 1:  # amounts in several currencies are not comparable
        for k, (number, factor) in amounts.items():
            bare[k], times[k] = number, factor
    return bare, times


def parse_quantities(texts: Sequence[str]) -> tuple[NDArray[np.float64], str] | None:
    """Parse numbers with a unit, NaN for other strings, and describe them; None without a unit, or with several."""
    feet = [_FEET.fullmatch(text) for text in texts]
    if any(match and match[2] for match in feet):
        inches = [12.0 * float(match[1]) + float(match[2] or 0) if match else np.nan for match in feet]
        return np.array(inches), "feet and inches converted to inches"
    matches = [_QUANTITY.fullmatch(text) for text in texts]
    units = Counter(_fold_unit(match[2]) for match in matches if match)
    if len(units) != 1:
        return None
    bare = [match[1] if match else text for match, text in zip(matches, texts, strict=True)]
    return parse_numbers(bare)[0], f"numbers (unit: {next(match[2] for match in matches if match)})"


def _fold_unit(unit: str) -> str:
    """Ignore case and plural: Year and years are one unit."""
    return unit.lower().rstrip("s.")


def _points_separate_thousands(texts: Sequence[str], bare: Sequence[str]) -> bool:
    """Whether all points separate thousands: 1.234.567 does, and so does 1.234 €, as money has no three decimals."""
    marked = [k for k, number in enumerate(bare) if "." in number]
    return all(_THOUSANDS_BY_POINT.fullmatch(bare[k]) for k in marked) and any(
        bare[k].count(".") > 1 or (bare[k] != texts[k] and _ENDS_WITH_CURRENCY.fullmatch(texts[k])) for k in marked
    )


def _is_decimal(text: str) -> bool:
    """Whether a point is a decimal point, not a thousands separator."""
    is_number = re.fullmatch(r"[+-]?(\d+\.\d*|\.\d+)", text) is not None or _THOUSANDS.fullmatch(text) is not None
    return is_number and not _THOUSANDS_BY_POINT.fullmatch(text)


def prefer_decimal_comma(values: pd.Series[Any]) -> pd.Series[Any]:
    """Read 1,234 as 1.234 if no number of the column resolves it: for files with semicolons between fields."""
    texts = [str(text).strip() for text in values.unique()]
    marked = [text for text in texts if "," in text]
    if not marked or any("." in text for text in texts) or not all(map(_EITHER.fullmatch, marked)):
        return values
    return values.str.replace(",", ".", regex=False)


def _read_marked(text: str, has_comma: bool, has_point: bool) -> float:
    """Parse a number with thousands separators or a decimal comma; NaN for anything else."""
    if has_comma and (_DECIMAL_COMMA.fullmatch(text) or (not has_point and _THOUSANDS_BY_POINT.fullmatch(text))):
        return float(text.replace(".", "").replace(",", "."))
    if _THOUSANDS.fullmatch(text):
        return float(text.replace(",", ""))
    try:
        return float(text) if text.isascii() and "_" not in text else np.nan
    except ValueError:
        return np.nan


def parse_dates(texts: Sequence[str]) -> tuple[pd.DatetimeIndex, str] | None:
    """Parse dates, without time zone, and describe their format; None if the strings are not dates."""
    first = texts[:_FIRST]
    if not first or sum(bool(_HAS_DATE.search(text)) for text in first) < len(first):
        return None
    quarters = [_QUARTER.fullmatch(text) for text in texts]
    if all(quarters):
        days = [f"{match[1] or match[4]}-{3 * int(match[2] or match[3]) - 2:02}-01" for match in quarters if match]
        return pd.DatetimeIndex(days), _QUARTERS
    fitting = [form for form in _list_forms() if read_dates(first, form) is not None]
    read = [(form, dates) for form in fitting if (dates := read_dates(texts, form)) is not None]
    if not read:
        return None
    form, dates = read[0]
    words = _DATES.get(form, _DATES.get(re.sub(r" %[HI].*", "", form), "hours:minutes"))
    others = [other_form for other_form, other in read if not other.equals(dates)]
    if others:
        words += f" (day and month are ambiguous; to read them the other way, set the type to date:{others[0]})"
    return dates, words


def parse_day_numbers(numbers: NDArray[np.float64]) -> NDArray[Any] | None:
    """Parse YYYYMMDD numbers, NaT for NaN; None unless all are dates and at least three are distinct."""
    is_there = ~np.isnan(numbers)
    if not ((numbers[is_there] >= _FIRST_DAY) & (numbers[is_there] <= _LAST_DAY)).all():
        return None
    different, places = np.unique(numbers[is_there], return_inverse=True)
    if len(different) < _FEWEST_DAYS or (different != np.floor(different)).any():
        return None
    read = read_dates([f"{day:.0f}" for day in different], "%Y%m%d")
    if read is None:
        return None
    dates = np.full(len(numbers), "NaT", dtype=read.to_numpy().dtype)
    dates[is_there] = read.to_numpy()[places]
    return dates


def _list_forms() -> list[str]:
    dated = [form + time for form in _DATES for time in (_TIMES if form != "ISO8601" else ("",))]
    return [*dated, "%H:%M", "%H:%M:%S"]


def read_dates(texts: Sequence[str], form: str) -> pd.DatetimeIndex | None:
    """Parse dates in one format, such as "%d.%m.%Y"; None unless all strings have it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dates = pd.to_datetime(np.array(texts, dtype=object), format=form, utc=True)
    except (ValueError, OverflowError):
        return None
    return pd.DatetimeIndex(dates).tz_localize(None)
