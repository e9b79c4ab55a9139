"""The report's section on feature groups: columns, scores and p-values, and the dendrogram."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

from truewood._correlated_groups import CorrelatedGroups
from truewood._formatting import Unit, find_unit, format_p_value
from truewood._plotting.style import WIDTH, find_height

if TYPE_CHECKING:
    from truewood._results.importance_result import ImportanceResult

Groups = Mapping[str, Sequence[Any]]


def write_groups(result: ImportanceResult, groups: Groups) -> str:
    """Write the groups of several columns, the most important first, and their dendrogram as HTML."""
    frame, unit = result.frame(), find_unit(result.values.tolist())
    rows = [_write_row(row, groups[row["feature"]], unit) for row in frame.to_dict("records") if _is_group(row, groups)]
    table = (
        '<div class="scroll"><table id="groups"><thead><tr><th class="name">group</th><th class="name">columns</th>'
        f"<th>{unit.name('importance')}</th><th>p-value</th></tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )
    return (
        '<section aria-labelledby="groups-heading"><h2 id="groups-heading">Feature groups</h2>'
        f"<p>{'The columns of a group have one importance and one p-value.' if rows else 'No columns are grouped.'}</p>"
        f"{table if rows else ''}{_draw_dendrogram(groups) if isinstance(groups, CorrelatedGroups) else ''}</section>\n"
    )


def _is_group(row: dict[Any, Any], groups: Groups) -> bool:
    return row["feature"] in groups and len(groups[row["feature"]]) > 1


def _write_row(row: dict[Any, Any], columns: Sequence[Any], unit: Unit) -> str:
    p_value = format_p_value(row["p_value"]) if "p_value" in row else "–"
    cells = [escape(", ".join(map(str, columns))), unit.write(row["importance"]), escape(p_value)]
    head = f'<th scope="row" class="name">{escape(row["feature"])}</th>'
    return f'<tr>{head}<td class="name">{"</td><td>".join(cells)}</td></tr>'


def _draw_dendrogram(groups: CorrelatedGroups) -> str:
    """Draw the dendrogram as an image element."""
    image = io.BytesIO()
    with warnings.catch_warnings():
        # Characters that no font has become boxes, which every reader sees.
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from", UserWarning)
        figure = Figure(figsize=(WIDTH, find_height(len(groups.column_names))), layout="constrained")
        groups.plot(ax=figure.subplots())
        figure.savefig(image, format="png", dpi=120)
    source = base64.b64encode(image.getvalue()).decode()
    return (
        '<div class="dendrogram"><img id="dendrogram" alt="Dendrogram of correlated columns" '
        f'src="data:image/png;base64,{source}"></div>'
    )
