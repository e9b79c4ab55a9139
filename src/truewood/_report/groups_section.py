"""The report's part about groups of columns: their members, scores and tests, and the tree they are from."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from truewood._correlated_groups import CorrelatedGroups
from truewood._formatting import format_p_value

if TYPE_CHECKING:
    from truewood._results.importance_result import ImportanceResult

Groups = Mapping[str, Sequence[Any]]


def write_groups(result: ImportanceResult, groups: Groups) -> str:
    """HTML of the groups of several columns, the most important first, and of the tree."""
    frame = result.frame()
    lines = [_write_line(row, groups[row["feature"]]) for row in frame.to_dict("records") if _is_group(row, groups)]
    table = (
        '<div class="box"><table id="groups"><thead><tr><th class="name">group</th><th class="name">columns</th>'
        f"<th>importance</th><th>p-value</th></tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )
    return (
        '<section aria-labelledby="groups-heading"><h2 id="groups-heading">Groups of columns</h2>'
        f"<p>{'Columns of a group have one score and one test.' if lines else 'Each column is for itself.'}</p>"
        f"{table if lines else ''}{_draw_tree(groups) if isinstance(groups, CorrelatedGroups) else ''}</section>\n"
    )


def _is_group(row: dict[Any, Any], groups: Groups) -> bool:
    return row["feature"] in groups and len(groups[row["feature"]]) > 1


def _write_line(row: dict[Any, Any], columns: Sequence[Any]) -> str:
    p_value = format_p_value(row["p_value"]) if "p_value" in row else "–"
    cells = [escape(", ".join(map(str, columns))), f"{row['importance']:.4g}", escape(p_value)]
    head = f'<th scope="row" class="name">{escape(row["feature"])}</th>'
    return f'<tr>{head}<td class="name">{"</td><td>".join(cells)}</td></tr>'


def _draw_tree(groups: CorrelatedGroups) -> str:
    """The picture as an element that holds it."""
    picture = io.BytesIO()
    with warnings.catch_warnings():
        # Letters that the font lacks become boxes, which everyone sees.
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from", UserWarning)
        figure: Any = groups.plot().figure
        figure.savefig(picture, format="png", dpi=120)
    source = base64.b64encode(picture.getvalue()).decode()
    return f'<img id="tree" alt="Tree of correlated columns" src="data:image/png;base64,{source}">'
