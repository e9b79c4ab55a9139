"""The reference lists everything that is public."""

from __future__ import annotations

import re

import truewood
from docs_pages import DOCS
from truewood import tabular
from truewood.cli import make_parser


def test_the_api_page_is_complete():
    listed, module = {"truewood": set(), "truewood.tabular": set()}, ""
    for line in (DOCS / "reference" / "api.md").read_text(encoding="utf-8").splitlines():
        if line.startswith(".. currentmodule:: "):
            module = line.split()[-1]
        elif re.fullmatch(r"   [\w.]+", line):
            listed[module].add(line.strip())
    adapters = {name for name in listed["truewood"] if name.startswith("adapters.")}
    assert listed["truewood"] - adapters == set(truewood.__all__) - {"tabular"}
    assert {name.removeprefix("adapters.") for name in adapters} <= set(truewood.adapters.__all__)
    assert listed["truewood.tabular"] == set(tabular.__all__)


def test_every_command_has_its_help_on_the_page():
    text = (DOCS / "reference" / "command_line.md").read_text(encoding="utf-8")
    (commands,) = [action.choices for action in make_parser()._subparsers._group_actions]
    assert re.findall(r"^\.\. command-help::[ ]?(\w*)$", text, re.MULTILINE) == ["", *commands]


def test_the_measures_are_those_that_there_are():
    text = (DOCS / "choose.md").read_text(encoding="utf-8")
    table = text.partition("| name | what |")[2]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(truewood.measures())
