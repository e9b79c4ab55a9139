"""Tables in Markdown, as GitHub and notebooks show them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from truewood.words import in_one_line

# Marks that would change how the rest looks; an underscore does so at the ends of words only.
_MARK = re.compile(r"[\\`*<>\[\]|~&]|(?<![^\W_])_|_(?![^\W_])")


def escape_markdown(text: str) -> str:
    """Text that is shown as it is."""
    return _MARK.sub(r"\\\g<0>", in_one_line(text))


def format_markdown(
    title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str], warnings: Sequence[str]
) -> str:
    """A heading, warnings, a table whose second column is text and the others numbers, and a list of notes."""
    rules = ["---" if place == 1 else "--:" for place in range(len(headings))]
    lines = [f"# {escape_markdown(title)}", ""]
    lines += [line for warning in warnings for line in (f"> **Warning:** {escape_markdown(warning)}", "")]
    lines += [_join(map(escape_markdown, headings)), _join(rules), *(_join(map(escape_markdown, row)) for row in rows)]
    lines += ["", *(f"- {escape_markdown(note)}" for note in notes)]
    return "\n".join(lines) + "\n"


def _join(cells: map[str] | list[str]) -> str:
    return f"| {' | '.join(cells)} |"
