"""Fonts for names in any script: matplotlib's own has no letters for many of them, other installed fonts may."""

from __future__ import annotations

import warnings
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def give_fonts(ax: Axes) -> None:
    """Give the texts of a picture fonts that have their letters; a warning names letters that no font has."""
    from matplotlib.font_manager import FontProperties, findfont
    from matplotlib.text import Text

    texts = [text for text in ax.findobj(Text) if isinstance(text, Text)]
    letters = {letter for text in texts for letter in text.get_text() if ord(letter) > 127 and letter.isprintable()}
    missing = letters - _list_letters(findfont(FontProperties()))
    if not missing:
        return
    families = []
    for family, path in _list_fonts():
        found = missing & _list_letters(path)
        if found:
            families.append(family)
            missing -= found
        if not missing:
            break
    for text in texts:
        text.set_fontfamily([*text.get_fontfamily(), *families])
    if missing:
        shown = "".join(sorted(missing)[:10])
        warnings.warn(
            f"no installed font has the letters {shown}, which are drawn as boxes; install one that does, such as "
            "Noto Sans.",
            UserWarning,
            stacklevel=4,
        )


@cache
def _list_fonts() -> list[tuple[str, str]]:
    """Upright fonts by family, those without serifs first."""
    from matplotlib.font_manager import fontManager

    entries = [entry for entry in fontManager.ttflist if entry.style == "normal" and entry.name != "Last Resort"]
    return [(entry.name, entry.fname) for entry in sorted(entries, key=lambda entry: "Sans" not in entry.name)]


@cache
def _list_letters(path: str) -> frozenset[str]:
    from matplotlib.ft2font import FT2Font

    return frozenset(map(chr, FT2Font(path).get_charmap()))
