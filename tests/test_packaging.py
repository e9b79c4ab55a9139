"""The conda recipe, the citation and the workflows agree with pyproject.toml and with each other."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_the_recipe_has_the_version_and_the_dependencies_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    recipe = (ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    assert re.search(r'^  version: "(.*)"$', recipe, re.MULTILINE).group(1) == project["project"]["version"]
    sections = dict(re.findall(r"^  (host|run):\n((?:    - .*\n)+)", recipe, re.MULTILINE))
    for section, needed in (
        ("host", project["build-system"]["requires"]),
        ("run", project["project"]["dependencies"]),
    ):
        stated = {line.replace(" ", "").replace("matplotlib-base", "matplotlib") for line in _items(sections[section])}
        assert stated - {"python", "pip"} == set(needed)


def test_the_citation_has_the_version_and_the_repository_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.*)$", citation, re.MULTILINE).group(1) == project["version"]
    assert re.search(r"^repository-code: (.*)$", citation, re.MULTILINE).group(1) == project["urls"]["Repository"]


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=lambda path: path.stem)
def test_workflows_pin_actions_by_hash_and_ask_for_few_permissions(path):
    text = path.read_text(encoding="utf-8")
    used = [name for name in re.findall(r"uses: (\S+)", text) if not name.startswith("./")]
    assert used
    assert [name for name in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", name)] == []
    assert re.search(r"^permissions:\n  contents: read$", text, re.MULTILINE)


def test_every_work_that_the_paper_cites_is_in_its_bibliography():
    cited = set(re.findall(r"@([\w-]+)", (ROOT / "paper" / "paper.md").read_text(encoding="utf-8")))
    listed = set(
        re.findall(r"^@\w+\{([\w-]+),", (ROOT / "paper" / "paper.bib").read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert cited == listed


def _items(section: str) -> list[str]:
    return re.findall(r"^    - (.*)$", section, re.MULTILINE)
