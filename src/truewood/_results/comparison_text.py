"""The text of a comparison: its table in a terminal and a notebook, verdicts by feature, and a summary sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood._formatting import CI, Unit, count, enumerate_names, find_unit, format_p_value, in_one_line, shorten
from truewood._results.notebook_view import LINES, draw_bars, write_table, write_view
from truewood._results.summary import NOT_SIGNIFICANT, name_level

if TYPE_CHECKING:
    from truewood._results.comparison import Comparison

_N_SHOWN = 10
_ALPHA = 0.05
# Characters of a result's name in the heading of a column.
_LONGEST = 16


def write_text(comparison: Comparison) -> str:
    """Write the largest differences as text."""
    table = pd.DataFrame(write_differences(comparison, _ALPHA)).head(_N_SHOWN)
    table = table.assign(feature=table["feature"].map(in_one_line))
    lines = [f"Comparison: {comparison.describe()}", table.to_string(index=False)]
    if table[""].any():
        lines.append(f"* significant (adjusted p-value at most {_ALPHA:g}).")
    return "\n".join([*lines, *_count_hidden(comparison)])


def write_html(comparison: Comparison) -> str:
    """Write the view of a notebook: the largest differences, with bars."""
    table, columns = comparison.frame().head(_N_SHOWN), write_differences(comparison, _ALPHA)
    are_found = (table["adjusted_p_value"] <= _ALPHA).tolist()
    columns = {title: texts[:_N_SHOWN] for title, texts in columns.items()}
    notes = [f"* significant (adjusted p-value at most {_ALPHA:g})."] * any(are_found)
    notes += [LINES, *_count_hidden(comparison)]
    bars = draw_bars(table["difference"].tolist(), are_found, (table["ci_low"].tolist(), table["ci_high"].tolist()))
    return write_view("Comparison", comparison.describe(), write_table(columns, bars), notes)


def _count_hidden(comparison: Comparison) -> list[str]:
    n_hidden = len(comparison.difference) - _N_SHOWN
    return [f"{count(n_hidden, 'more feature')}; see .frame()."] * (n_hidden > 0)


def find_difference_unit(comparison: Comparison, alpha: float) -> Unit:
    """Find the unit that differences and importances share, in which the smallest significant difference has digits."""
    numbers = (comparison.difference, comparison.values_a, comparison.values_b)
    is_found = comparison.adjusted_p_value() <= alpha
    smallest = np.min(np.abs(comparison.difference), where=is_found, initial=np.inf)
    return find_unit(np.concatenate(numbers).tolist(), smallest=float(smallest))


def write_differences(comparison: Comparison, alpha: float) -> dict[str, list[str]]:
    """Write the differences as the text columns of a table, all numbers in one unit, the largest difference first."""
    order = comparison.order
    low, high = (end[order].tolist() for end in comparison.interval())
    numbers = (comparison.difference[order], comparison.values_a[order], comparison.values_b[order])
    unit = find_difference_unit(comparison, alpha)
    p_values = comparison.adjusted_p_value()[order].tolist()
    a, b = (in_one_line(shorten(name, _LONGEST)) for name in comparison.names)
    a, b = (a, b) if a != b else ("the first", "the second")
    return {
        "feature": comparison.feature_names[order].tolist(),
        unit.name("difference"): [unit.write(number, sign="+") for number in numbers[0].tolist()],
        CI: [f"{unit.write(first)} to {unit.write(last)}" for first, last in zip(low, high, strict=True)],
        "adjusted p": [format_p_value(p_value) for p_value in p_values],
        "": ["*" if p_value <= alpha else "" for p_value in p_values],
        f"in {a}": [unit.write(number) for number in numbers[1].tolist()],
        f"in {b}": [unit.write(number) for number in numbers[2].tolist()],
    }


def classify_differences(comparison: Comparison, alpha: float) -> NDArray[np.str_]:
    """Classify features as higher in one of two results, or not significant, shape (n_features,)."""
    is_found = comparison.adjusted_p_value() <= alpha
    verdicts: NDArray[np.str_] = np.where(
        is_found, np.where(comparison.difference > 0, *name_differences(comparison)), NOT_SIGNIFICANT
    )
    return verdicts


def name_differences(comparison: Comparison) -> tuple[str, str]:
    """Name the verdicts for features that score higher in the first result, and in the second."""
    a, b = (shorten(name, 24) for name in comparison.names)
    return (f"higher in {a}", f"higher in {b}") if a != b else ("higher", "lower")


def summarize_differences(
    comparison: Comparison, alpha: float, *, with_names: bool = True, with_level: bool = True
) -> str:
    """Summarize a comparison in a sentence or two: how many features differ, and which."""
    verdicts, names = classify_differences(comparison, alpha)[comparison.order], comparison.feature_names
    n_found, n_features = int(np.count_nonzero(verdicts != NOT_SIGNIFICANT)), len(verdicts)
    level = f" ({name_level(alpha)})" if with_level else ""
    if not n_found:
        return f"No evidence that any feature differs{level}."
    verb = "differs" if n_found == 1 else "differ"
    sentences = [f"{n_found:,} of {count(n_features, 'feature')} {verb}{level}."]
    for verdict in name_differences(comparison) if with_names else ():
        found = names[comparison.order][verdicts == verdict].tolist()
        if found:
            sentences.append(f"{verdict[0].upper()}{verdict[1:]}: {enumerate_names(found)}.")
    return " ".join(sentences)
