"""The report's section on pairs of features: which of them interact. User text is always escaped."""

from __future__ import annotations

from collections.abc import Collection
from html import escape

from truewood._formatting import count
from truewood._report.pair_curves import draw_pair
from truewood._results.interactions import Interactions
from truewood._results.interactions_text import make_pairs_table, summarize_pairs

_N_SHOWN = 10
# Significant pairs whose effects are drawn.
_N_DRAWN = 4
_MEANING = (
    "Two features interact if the effect of one depends on the value of the other. Scores measure how much of the "
    "target's variation the joint effect of a pair explains beyond the separate effects of its two features. They are "
    "not clipped, so they may be negative."
)


def write_pairs_section(interactions: Interactions, alpha: float) -> str:
    """Write the summary and the pairs with the highest scores as HTML."""
    table = make_pairs_table(interactions, alpha, top=_N_SHOWN)
    rows = "".join(f"<tr>{_write_cells('td', row)}</tr>" for row in table.itertuples(index=False, name=None))
    head = _write_cells("th", table.columns.astype(str).tolist())
    n_left = len(interactions.values) - len(table)
    notes = ["* Significant."] * ("" in table and "*" in table[""].tolist())
    notes += [f"{count(n_left, 'more pair')} with lower scores."] * (n_left > 0)
    note = f'<p class="note">{" ".join(notes)}</p>' if notes else ""
    return (
        '<section aria-labelledby="pairs-heading"><h2 id="pairs-heading">Interactions</h2>'
        f"<p>{escape(summarize_pairs(interactions, alpha))} {_MEANING}</p>"
        f'<div class="scroll"><table id="pairs"><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>{note}{_draw_pairs(interactions, alpha)}</section>\n"
    )


def _draw_pairs(interactions: Interactions, alpha: float) -> str:
    """Draw the significant pairs with the highest scores."""
    if interactions.inference_unavailable is not None:
        return ""
    is_found = interactions.select(alpha)
    found = [k for k in interactions.order.tolist() if is_found[k]][:_N_DRAWN]
    drawn = "".join(draw_pair(interactions, k) for k in found)
    return f'<div class="pairs">{drawn}</div>' if drawn else ""


def _write_cells(tag: str, texts: Collection[str]) -> str:
    """Write a row of a table; its first two cells are names."""
    kinds = [' class="name"', ' class="name"', *[""] * (len(texts) - 2)]
    return "".join(f"<{tag}{kind}>{escape(text)}</{tag}>" for kind, text in zip(kinds, texts, strict=True))
