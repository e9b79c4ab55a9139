"""The pages of the documentation, and their code blocks."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MADE = (DOCS / "gallery", DOCS / "reference" / "generated")  # by the build of the site

PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "benchmarks").glob("*.md")),
    *sorted((ROOT / "experiments").glob("*/README.md")),
    *sorted(page for page in DOCS.rglob("*.md") if not any(page.is_relative_to(folder) for folder in MADE)),
]


class Block(NamedTuple):
    """A code block: its language ("" where none is given), its text, and its first line in the page."""

    language: str
    text: str
    line: int


def name_page(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def list_blocks(page: Path) -> list[Block]:
    tokens = MarkdownIt().parse(page.read_text(encoding="utf-8"))
    return [
        Block(token.info.strip(), token.content, token.map[0] + (token.type == "fence"))
        for token in tokens
        if token.type in ("fence", "code_block")
    ]
