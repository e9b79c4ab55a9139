"""Links between pages lead somewhere, and so do those to parts of a page."""

from __future__ import annotations

import re

import pytest

from helpers.docs_pages import DOCS, PAGES, ROOT, list_blocks, name_page

pytestmark = pytest.mark.any_engine

EXAMPLES = ROOT / "examples"


def list_anchors(page):
    """Names of a page's headings, as MyST and GitHub make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=name_page)
def test_links(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if target.parent == DOCS / "gallery":  # made of the examples
            assert target.stem == "index" or (EXAMPLES / f"{target.stem}.py").exists(), link
            continue
        assert target.exists(), link
        assert not anchor or anchor in list_anchors(target), link


def test_contributing_names_files_that_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`([\w/]+\.(?:py|hpp|cpp|md))`", text))
    files = [
        f"/{path.relative_to(ROOT).as_posix()}"
        for kind in ("py", "hpp", "cpp", "md")
        for path in ROOT.rglob(f"*.{kind}")
    ]
    assert len(names) > 40
    assert not [name for name in names if not any(file.endswith(f"/{name}") for file in files)]


def test_every_answer_of_the_faq_has_a_link():
    for entry in (DOCS / "faq.md").read_text(encoding="utf-8").split("\n### ")[1:]:
        question, _, answer = entry.partition("\n")
        assert re.search(r"\]\([^)\s]+\)", answer.partition("\n## ")[0]), question


def test_every_page_is_in_a_list_of_pages():
    listed = {DOCS / "index.md"}
    for page in PAGES:
        for block in list_blocks(page):
            for line in block.text.splitlines() if block.language == "{toctree}" else ():
                if line and not line.startswith(":"):
                    name = re.sub(r".*<(.*)>", r"\1", line)
                    listed.add((page.parent / f"{name}.md").resolve())
    assert {page for page in PAGES if page.is_relative_to(DOCS)} <= listed
