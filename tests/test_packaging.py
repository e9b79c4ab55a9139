"""The conda recipe says what pyproject.toml says."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

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


def _items(section: str) -> list[str]:
    return re.findall(r"^    - (.*)$", section, re.MULTILINE)
