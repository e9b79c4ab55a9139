"""What the command line shows: the progress of a fit, and of a result the table, the JSON object, and files."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO
from warnings import catch_warnings, filterwarnings

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from truewood.cli.markdown import format_markdown
from truewood.formulas.registry import get_measure
from truewood.result.comparison import Comparison
from truewood.result.correlated_groups import CorrelatedGroups
from truewood.result.importance_result import ImportanceResult
from truewood.words import count, format_p_value, in_one_line
from truewood.writing import check_writable, write_file, write_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PICTURES = (".png", ".svg", ".pdf")
ENDINGS = (".html", ".csv", ".md", ".json", *_PICTURES)
ENDINGS_OF_COMPARISONS = (".html", ".csv", *_PICTURES)
# What cells of formulas begin with, as in the table of the report.
_FORMULA_MARKS = tuple("=+-@\t\r\n＝＋－＠")
# Of a table that goes to a file or another program.
_PLAIN_WIDTH = 160


def check_outputs(paths: list[Path], inputs: list[os.stat_result], endings: tuple[str, ...] = ENDINGS) -> None:
    """Refuse files that could not be written, and those that are read, before anything that takes long."""
    for path in paths:
        if path.suffix.lower() not in endings:
            raise ValueError(f"--output: {path} must end in {', '.join(endings)}.")
        if path.is_dir() or not path.parent.is_dir():
            reason = "is a folder" if path.is_dir() else f"cannot be written: there is no folder {path.parent}"
            raise ValueError(f"--output: {path} {reason}.")
        if path.suffix.lower() == ".html" and not can_write_reports():
            raise ValueError("--output: the report needs altair and vl-convert: pip install 'truewood[report]'.")
        if path.exists() and any(os.path.samestat(path.stat(), given) for given in inputs):
            raise ValueError(f"--output: {path} is read by this command and would be lost; give it another name.")
        check_writable(path)


def can_write_reports() -> bool:
    """Whether the libraries are installed that reports need."""
    return all(find_spec(name) is not None for name in ("altair", "vl_convert"))


def write_output(
    result: ImportanceResult,
    path: Path,
    X: pd.DataFrame | None,
    *,
    groups: CorrelatedGroups | None = None,
    alpha: float,
    title: str,
    notes: list[str],
    warnings: list[str],
) -> None:
    """Write the result to a file, in the form that its name says."""
    match path.suffix.lower():
        case ".html":
            result.report(path, X=X, groups=groups, title=title, notes=notes, warnings=warnings, alpha=alpha)
        case ".csv":
            write_table(make_frame(result, alpha), path)
        case ".md":
            explained = [line.strip() for line in _explain(result, 0, alpha)]
            headings, rows = _list_cells(result, make_frame(result, alpha))
            page = format_markdown(title, ["#", "feature", *headings], rows, [*notes, *explained], warnings)
            write_file(path, page.encode(errors="backslashreplace"))
        case ".json":
            result.save(path)
        case _:
            draw_into(path, partial(result.plot, "bar", alpha=alpha))


def write_comparison(comparison: Comparison, path: Path, *, alpha: float) -> None:
    """Write a comparison to a file, in the form that its name says."""
    match path.suffix.lower():
        case ".html":
            comparison.report(path, alpha=alpha)
        case ".csv":
            write_table(comparison.frame(), path)
        case _:
            draw_into(path, partial(comparison.plot, alpha=alpha))


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """Write a table of features as CSV."""
    frame = frame.assign(feature=frame["feature"].map(_as_text_cell))
    write_file(path, frame.to_csv(index=False, lineterminator="\n").encode(errors="backslashreplace"))


def _as_text_cell(name: str) -> str:
    """A name that no spreadsheet takes for a formula: an apostrophe in front makes it text."""
    return f"'{name}" if name.startswith(_FORMULA_MARKS) else name


def draw_into(path: Path, plot: Callable[[], Axes]) -> None:
    """Draw a picture into a file."""
    with catch_warnings():
        # Letters that the font lacks become boxes, which everyone sees.
        filterwarnings("ignore", r"Glyph \d+ .* missing from", UserWarning)
        figure: Any = plot().figure
        write_picture(path, figure, dpi=150, bbox_inches="tight")


def make_frame(result: ImportanceResult, alpha: float) -> pd.DataFrame:
    """The table of the result, with adjusted p-values and whether they are small."""
    frame = result.frame()
    if result.no_inference is not None:
        return frame
    place = list(frame).index("p_value") + 1
    frame.insert(place, "adjusted_p_value", result.adjusted_p_value("bh")[result.order])
    frame.insert(place + 1, "significant", frame["adjusted_p_value"] <= alpha)
    return frame


def print_table(
    result: ImportanceResult, *, groups: CorrelatedGroups | None = None, top: int, alpha: float, title: str
) -> None:
    """Print the features, the most important first, to standard output; for a terminal of 80 characters."""
    frame = make_frame(result, alpha)
    headings, rows = _list_cells(result, frame.head(top))
    table = _head_table([heading.replace("biased ", "biased\n") for heading in headings])
    for place, name, *cells in rows:
        table.add_row(place, Text(in_one_line(name)), *cells)
    members = {} if groups is None else groups.several
    lines = [f"{name}: {', '.join(map(str, columns))}" for name, columns in members.items()]
    below = [*_explain(result, len(frame) - top, alpha), *map(in_one_line, lines)]
    show([in_one_line(title), table, "\n".join(below)], sys.stdout)


def _list_cells(result: ImportanceResult, frame: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Headings beside place and feature, and the cells of each row, as text."""
    has_share, has_errors = not np.isnan(result.share).all(), result.no_inference is None
    headings = ["importance", *["95 % interval", "p-value", ""] * has_errors, *["share"] * has_share, "biased rank"]
    n_digits = _count_decimals(result.values)
    rows = []
    for row in frame.to_dict("records"):
        cells = [str(row["rank"]), row["feature"], f"{row['importance']:,.{n_digits}f}"]
        if has_errors:
            interval = f"{row['ci_low']:,.{n_digits}f} to {row['ci_high']:,.{n_digits}f}"
            cells += [interval, format_p_value(row["p_value"]), "*" if row["significant"] else ""]
        cells += [f"{row['share']:.2%}"] * has_share
        rows.append([*cells, str(row["mdi_rank"])])
    return headings, rows


def print_comparison(comparison: Comparison, *, top: int, alpha: float) -> None:
    """Print the differences, the largest first, to standard output."""
    frame = comparison.frame()
    table = _head_table(["difference", "95 % interval", "p-value", "", "a", "b"])
    n_digits = _count_decimals(np.concatenate([comparison.values_a, comparison.values_b]))
    for place, row in enumerate(frame.head(top).to_dict("records"), start=1):
        table.add_row(
            str(place),
            Text(in_one_line(row["feature"])),
            f"{row['difference']:+,.{n_digits}f}",
            f"{row['ci_low']:,.{n_digits}f} to {row['ci_high']:,.{n_digits}f}",
            format_p_value(row["p_value"]),
            "*" if row["adjusted_p_value"] <= alpha else "",
            f"{row['importance_a']:,.{n_digits}f}",
            f"{row['importance_b']:,.{n_digits}f}",
        )
    n_hidden = len(frame) - top
    lines = [f"{count(n_hidden, 'more feature')}; --top N shows {'it' if n_hidden == 1 else 'them'}."] * (n_hidden > 0)
    lines.append(f"*  significant: adjusted two-sided p-value (Benjamini & Hochberg) at most {alpha:g}.")
    lines.append(f"a is {in_one_line(comparison.names[0])}, b is {in_one_line(comparison.names[1])}.")
    show([in_one_line(comparison.describe()), table, "\n".join(lines)], sys.stdout)


def _head_table(headings: list[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("#", justify="right")
    table.add_column("feature", overflow="fold", min_width=12)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def show(parts: Sequence[str | Table], stream: TextIO) -> None:
    """Print lines and tables, as wide as the terminal."""
    console = Console(file=stream, highlight=False, markup=False)
    if not console.is_terminal:
        console = Console(file=stream, highlight=False, markup=False, width=_PLAIN_WIDTH)
    with console.capture() as captured:  # rich itself would end the program when the reader has gone
        for part in parts:
            console.print(part, soft_wrap=isinstance(part, str))
    stream.write(captured.get())


def _count_decimals(values: NDArray[np.float64]) -> int:
    """Decimals that show four digits of the largest value, and line up the others with it."""
    largest = float(np.abs(values).max())
    return max(0, 3 - math.floor(math.log10(largest))) if largest > 0 else 4


def _explain(result: ImportanceResult, n_hidden: int, alpha: float) -> list[str]:
    lines = [f"{count(n_hidden, 'more column')}; --top N shows {'it' if n_hidden == 1 else 'them'}."] * (n_hidden > 0)
    if result.no_inference is None:
        lines.append(f"*  significant: adjusted p-value (Benjamini & Hochberg) at most {alpha:g}.")
        lines.append(
            "   Features that tell the same stand in for each other, so that none of them may be significant."
            if get_measure(result.measure).is_given_others
            else "   Features that are only correlated with useful ones may be significant, too."
        )
    else:
        lines.append(f"No p-values: {result.no_inference}.")
    lines += ["biased rank: by mdi, what feature_importances_ is made of.", *map(in_one_line, result.notes)]
    return lines


def print_json(content: dict[str, Any]) -> None:
    """Print one JSON object; numbers that JSON does not have become null."""
    sys.stdout.write(json.dumps(_make_plain(content), allow_nan=False, indent=2, ensure_ascii=True) + "\n")


def _make_plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _make_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_make_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
