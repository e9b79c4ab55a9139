"""What a message has to name, whatever its wording."""

from __future__ import annotations

import re


def find_lacking(text: str, *facts: str) -> list[str]:
    """Find the facts (names, numbers, options) that do not occur in a text as whole words, in any order."""
    words = " ".join(text.replace("\N{NO-BREAK SPACE}", " ").split())
    return [fact for fact in facts if not re.search(_as_word(fact), words)]


def _as_word(fact: str) -> str:
    start = r"(?<!\w)" if re.match(r"\w", fact) else ""
    end = r"(?!\w)" if re.search(r"\w$", fact) else ""
    return start + re.escape(fact) + end
