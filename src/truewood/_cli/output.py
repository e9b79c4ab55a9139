"""Print tables and JSON, and write files."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO
from warnings import catch_warnings, filterwarnings, simplefilter

import numpy as np
import pandas as pd
from rich import box
from rich.console import JustifyMethod, OverflowMethod
from rich.table import Table
from rich.text import Text

from truewood._cli.message_text import render, translate
from truewood._cli.streams import Console, write_message
from truewood._extras import explain_missing
from truewood._formatting import CI, align, count, format_p_value, in_one_line, list_names
from truewood._results.caveats import check_table, explain_intervals, explain_verdicts, list_caveats
from truewood._results.comparison import Comparison
from truewood._results.comparison_text import summarize_differences, write_differences
from truewood._results.explanation import Explanation
from truewood._results.importance_result import ImportanceResult
from truewood._results.importance_text import STARS
from truewood._results.interactions_text import summarize_pairs
from truewood._results.summary import (
    classify_features,
    explain_percent_of_total,
    explain_total,
    find_percent,
    find_shown,
    name_percent_column,
    name_share,
    name_unit,
    write_summary,
    write_total,
)
from truewood._results.trends import describe_levels, explain_directions, find_directions
from truewood._writing import check_writable, write_figure, write_file
from truewood.tabular import TableScore
from truewood.tabular._columns.columns import LEAK
from truewood.tabular._table_score import write_score_report

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_PICTURES = (".png", ".svg", ".pdf")
ENDINGS = (".html", ".csv", ".md", ".json", *_PICTURES)
ENDINGS_OF_COMPARISONS = (".html", ".csv", *_PICTURES)
# Modules that reports need.
REPORT_MODULES = ("altair", "vl_convert")
# First characters of spreadsheet formulas, as in the table of the report.
_FORMULA_MARKS = tuple("=+-@\t\r\n＝＋－＠")
# Width of tables that are not printed to a terminal.
_PLAIN_WIDTH = 160

# Markdown syntax; an underscore matters only at the ends of words.
_MARK = re.compile(r"[\\`*<>\[\]|~&]|(?<![^\W_])_|_(?![^\W_])")


def check_outputs(paths: list[Path], inputs: list[os.stat_result], endings: tuple[str, ...] = ENDINGS) -> None:
    """Refuse files that cannot be written, and files that are read, before the fit."""
    for path in paths:
        if path.suffix.lower() not in endings:
            raise ValueError(f"--output: {path} must end in one of {', '.join(endings)}.")
        if path.is_dir() or not path.parent.is_dir():
            reason = "is a folder" if path.is_dir() else f"cannot be written: folder {path.parent} does not exist"
            raise ValueError(f"--output: {path} {reason}.")
        problem = explain_missing("the report needs", REPORT_MODULES, "report")
        if path.suffix.lower() == ".html" and problem is not None:
            raise ValueError(f"--output: {problem}")
        if path.exists() and any(os.path.samestat(path.stat(), given) for given in inputs):
            raise ValueError(
                f"--output: {path} is an input of this command and would be overwritten; choose another name."
            )
        check_writable(path)


def can_write_reports() -> bool:
    """Whether the libraries that reports need are installed."""
    return explain_missing("", REPORT_MODULES, "report") is None


def write_output(score: TableScore, path: Path, *, alpha: float, title: str) -> None:
    """Write a score to a file in the format of its extension."""
    result, explanation = score.result, score.explanation
    match path.suffix.lower():
        case ".html":
            write_score_report(score, path, title=title, alpha=alpha, render=render)
        case ".csv":
            write_table(extend_frame(result, alpha, explanation), path)
        case ".md":
            write_file(path, _make_markdown(score, alpha, title).encode(errors="backslashreplace"))
        case ".json":
            result.save(path)
        case _:
            draw_into(path, partial(result.plot, "bar", alpha=alpha, title=title, explanation=explanation))


def _make_markdown(score: TableScore, alpha: float, title: str) -> str:
    columns = _list_cells(score.result, extend_frame(score.result, alpha, score.explanation), alpha)
    rows = list(zip(*columns.values(), strict=True))
    notes = [
        *_head(score, alpha),
        *score.notes,
        *(" ".join(line.split()) for line in _explain(score, 0, alpha)),
        *([] if score.interactions is None else [summarize_pairs(score.interactions, alpha)]),
    ]
    return format_markdown(title, list(columns), rows, notes, list(map(render, score.warnings)))


def write_comparison(comparison: Comparison, path: Path, *, alpha: float) -> None:
    """Write a comparison to a file in the format of its extension."""
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
    """Add an apostrophe to a name that a spreadsheet would interpret as a formula."""
    return f"'{name}" if name.startswith(_FORMULA_MARKS) else name


def draw_into(path: Path, plot: Callable[[], Axes]) -> None:
    """Write a plot to a file."""
    with catch_warnings(record=True) as caught:
        simplefilter("always")
        figure: Any = plot().figure
    for warning in caught:
        write_message(f"truewood: warning: {path}: {in_one_line(str(warning.message))}")
    with catch_warnings():
        # Missing characters were reported above.
        filterwarnings("ignore", r"Glyph \d+ .* missing from", UserWarning)
        write_figure(path, figure, dpi=150, bbox_inches="tight")


def extend_frame(result: ImportanceResult, alpha: float, explanation: Explanation | None = None) -> pd.DataFrame:
    """Add directions, adjusted p-values and significance to the table of the result."""
    frame, directions = result.frame(), find_directions(result, explanation, alpha)
    if directions is not None:
        frame["direction"] = [directions[j].short_text for j in result.order]
    if result.inference_unavailable is not None:
        return frame
    place = list(frame).index("p_value") + 1
    frame.insert(place, "adjusted_p_value", result.adjusted_p_value("bh")[result.order])
    frame.insert(place + 1, "significant", frame["adjusted_p_value"] <= alpha)
    return frame


def print_table(score: TableScore, *, top: int, alpha: float, title: str) -> None:
    """Print the features in order of importance to standard output, for terminals of 80 characters."""
    frame = extend_frame(score.result, alpha, score.explanation)
    columns = _list_cells(score.result, frame.head(top), alpha)
    headings = [heading.replace("biased ", "biased\n") for heading in list(columns)[2:]]
    table = _head_table(headings, aligned=headings[0])
    for place, name, *cells in zip(*columns.values(), strict=True):
        table.add_row(place, Text(in_one_line(name)), *map(in_one_line, cells))
    below = _explain(score, len(frame) - top, alpha)
    members = {} if score.feature_groups is None else score.feature_groups.several
    below += [
        f"{name}: {', '.join(map(str, columns))}"
        for name, columns in members.items()
        if name != " + ".join(map(str, columns))
    ]
    if score.interactions is not None:
        below.append(summarize_pairs(score.interactions, alpha))
    above = [f"{title} {score.describe()}", *_name_leaks(score), *_head(score, alpha)]
    show(["\n".join(map(in_one_line, above)), table, "\n".join(map(in_one_line, below))], sys.stdout)


def _name_leaks(score: TableScore) -> list[str]:
    """Say which columns are left out because they nearly determine the target."""
    names = [column.name for column in score.columns if column.dtype == LEAK]
    return [f"Left out because of possible target leakage: {list_names(names)}."] if names else []


def _head(score: TableScore, alpha: float) -> list[str]:
    """Write the summary, and what all features explain together with the performance of the model."""
    result, performance = score.result, score.performance
    answer = [write_summary(result, alpha, target=score.target)] if result.inference_unavailable is None else []
    own = "" if performance is None else f" Model performance: {performance.describe()}."
    return [*answer, write_total(result, find_percent(result, score.target)) + own]


def _list_cells(result: ImportanceResult, frame: pd.DataFrame, alpha: float) -> dict[str, list[str]]:
    """Make the columns of the table as text, in percent if possible."""
    percent, order = find_percent(result), result.order[: len(frame)].tolist()
    shown = find_shown(result, percent)
    values, intervals = shown.write_values(), shown.write_intervals()
    heading = "importance" if shown.unit is None else shown.unit.name("importance")
    columns = {"#": frame["rank"].astype(str).tolist(), "feature": frame["feature"].tolist()}
    columns[heading if percent is None else name_percent_column(percent)] = align([values[j] for j in order])
    if result.inference_unavailable is None:
        columns[CI] = [intervals[j] for j in order]
        columns["p-value"] = frame["p_value"].map(format_p_value).tolist()
        verdicts = classify_features(result, alpha)[result.order][: len(frame)]
        columns[""] = [STARS.get(verdict, "") for verdict in verdicts.tolist()]
    if "direction" in frame and frame["direction"].any():
        columns["direction"] = frame["direction"].tolist()
    return columns | {"biased rank": frame["mdi_rank"].astype(str).tolist()}


def print_comparison(comparison: Comparison, *, top: int, alpha: float) -> None:
    """Print the differences to standard output, largest first."""
    frame, cells = comparison.frame(), write_differences(comparison, alpha)
    table = _head_table(list(cells)[1:])
    for place, (name, *texts) in enumerate(zip(*cells.values(), strict=True), start=1):
        if place <= top:
            table.add_row(str(place), Text(in_one_line(name)), *texts)
    n_hidden = len(frame) - top
    lines = [f"{count(n_hidden, 'more feature')}; use --top N to show more."] * (n_hidden > 0)
    lines.append(f"Unit of importances: {name_unit(comparison)}.")
    if (frame["adjusted_p_value"] <= alpha).any():
        lines.append(f"*  Significant: adjusted two-sided p-value (Benjamini-Hochberg) at most {alpha:g}.")
    above = [f"{comparison.describe()}.", summarize_differences(comparison, alpha)]
    show(["\n".join(map(in_one_line, above)), table, "\n".join(lines)], sys.stdout)


def _head_table(headings: list[str], aligned: str | None = None) -> Table:
    """Make a table without lines; one column may be aligned at the decimal point already."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("#", justify="right")
    table.add_column("feature", overflow="fold", min_width=12)
    for heading in headings:
        # Directions name classes, which may be long.
        has_names = heading == "direction"
        overflow: OverflowMethod = "fold" if has_names else "ellipsis"
        justify: JustifyMethod = "left" if heading == aligned else "right"
        table.add_column(heading, justify=justify, no_wrap=not has_names, overflow=overflow)
    return table


def show(parts: Sequence[str | Table], stream: TextIO) -> None:
    """Print lines and tables in the width of the terminal."""
    console = Console(file=stream, highlight=False, markup=False)
    is_plain = not console.is_terminal
    if is_plain:
        console = Console(file=stream, highlight=False, markup=False, width=_PLAIN_WIDTH)
    with console.capture() as captured:
        for part in parts:
            # Wrap at words in a terminal; elsewhere, keep each sentence in one line.
            console.print(part, soft_wrap=is_plain and isinstance(part, str))
    stream.write(captured.get())


def _explain(score: TableScore, n_hidden: int, alpha: float) -> list[str]:
    """Write the legend and the caveats."""
    result = score.result
    lines = [f"{count(n_hidden, 'more feature')}; use --top N to show more."] * (n_hidden > 0)
    if result.inference_unavailable is None:
        n_shown = len(result.values) - max(n_hidden, 0)
        found = classify_features(result, alpha)[result.order[:n_shown]]
        texts = explain_verdicts(result, alpha, score.target)
        meanings = {verdict: text for verdict, text in texts.items() if verdict in found}
        lines += [f"{STARS[verdict]:<3} {text}" for verdict, text in meanings.items()]
        lines += explain_intervals(result, alpha)
    else:
        lines.append(f"No p-values: {translate(result.inference_unavailable)}.")
    percent = find_percent(result)
    if percent is not None and percent.is_share:
        share = name_share(result)
        lines.append(" ".join([f"Share: {share[0].lower()}{share[1:]}", *explain_total(result)]))
    elif percent is not None:
        total = explain_percent_of_total(result)
        lines.append(f"% of total: {total[0].lower()}{total[1:]}")
    # Boosting libraries and survival forests rank features in other ways, or not at all.
    is_basis = not result.is_additive and result.task != "survival"
    basis = ", the basis of feature_importances_" if is_basis else ""
    lines.append(f"Biased rank: rank by mean decrease in impurity on the training rows{basis}.")
    check = check_table(result, score.X, score.feature_groups)
    lines += map(str, list_caveats(result, check))
    if check is not None and check.correlations.pairs and score.feature_groups is None:
        lines.append("To score correlated features as groups, pass --group-correlated.")
    directions = find_directions(result, score.explanation, alpha)
    if score.explanation is None or directions is None or not any(direction.word for direction in directions):
        return lines
    with_inference = result.inference_unavailable is None
    meaning = explain_directions(score.explanation, with_inference=with_inference)
    return [*lines, *describe_levels(result, directions), meaning]


def print_json(content: dict[str, Any]) -> None:
    """Print a JSON object; NaN and infinite numbers become null."""
    sys.stdout.write(json.dumps(_make_plain(content), allow_nan=False, indent=2, ensure_ascii=True) + "\n")


def _make_plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _make_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_make_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def escape_markdown(text: str) -> str:
    """Escape Markdown syntax."""
    return _MARK.sub(r"\\\g<0>", in_one_line(text))


def format_markdown(
    title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str], warnings: Sequence[str]
) -> str:
    """Format a heading, warnings, a table with text in the second column, and a list of notes."""
    rules = ["---" if place == 1 else "--:" for place in range(len(headings))]
    lines = [f"# {escape_markdown(title)}", ""]
    lines += [line for warning in warnings for line in (f"> **Warning:** {escape_markdown(warning)}", "")]
    lines += [_join(map(escape_markdown, headings)), _join(rules), *(_join(map(escape_markdown, row)) for row in rows)]
    lines += ["", *(f"- {escape_markdown(note)}" for note in notes)]
    return "\n".join(lines) + "\n"


def _join(cells: map[str] | list[str]) -> str:
    return f"| {' | '.join(cells)} |"
