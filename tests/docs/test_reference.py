"""The reference lists everything that is public."""

from __future__ import annotations

import inspect
import itertools
import re

import pytest

import truewood
from helpers.docs_pages import DOCS, ROOT
from truewood import tabular
from truewood._cli import make_parser

pytestmark = pytest.mark.any_engine

MODULES = {"adapters", "datasets", "integrations", "tabular", "testing"}


def test_public_names_alone_are_visible():
    assert sorted(dir(truewood)) == sorted([*truewood.__all__, "__version__"])
    for name in MODULES:
        module = getattr(truewood, name)
        assert sorted(dir(module)) == sorted(module.__all__)


def test_the_api_page_is_complete():
    listed, module = {"truewood": set(), "truewood.tabular": set()}, ""
    for line in (DOCS / "reference" / "api.md").read_text(encoding="utf-8").splitlines():
        if line.startswith(".. currentmodule:: "):
            module = line.split()[-1]
        elif re.fullmatch(r"   [\w.]+", line):
            listed[module].add(line.strip())
    below = {name for name in listed["truewood"] if "." in name}
    assert listed["truewood"] - below == set(truewood.__all__) - MODULES
    also_above = {name for name in truewood.adapters.__all__ if name in truewood.__all__}
    assert below == {
        *(f"adapters.{name}" for name in set(truewood.adapters.__all__) - also_above),
        *(f"datasets.{name}" for name in truewood.datasets.__all__),
        *(f"integrations.{name}" for name in truewood.integrations.__all__),
        *(f"testing.{name}" for name in truewood.testing.__all__),
    }
    assert listed["truewood.tabular"] == set(tabular.__all__)


@pytest.mark.parametrize("module", [truewood, tabular], ids=lambda module: module.__name__)
def test_arguments_that_functions_share_come_in_one_order(module):
    functions = [found for name in module.__all__ if inspect.isfunction(found := getattr(module, name))]
    functions += [truewood.ImportanceAccumulator, truewood.UnbiasedSelector] * (module is truewood)
    orders = {}
    for function in functions:
        parameters = inspect.signature(function).parameters.values()
        names = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
        for pair in itertools.combinations(names, 2):
            orders.setdefault(frozenset(pair), {}).setdefault(pair, []).append(function.__name__)
    assert not [order for order in orders.values() if len(order) > 1]
    assert any(len(found) > 1 for order in orders.values() for found in order.values())


def test_every_command_has_its_help_on_the_page():
    text = (DOCS / "reference" / "command_line.md").read_text(encoding="utf-8")
    (commands,) = [action.choices for action in make_parser()._subparsers._group_actions]
    assert re.findall(r"^\.\. command-help::[ ]?(\w*)$", text, re.MULTILINE) == ["", *commands]


def test_the_measures_are_those_that_there_are():
    text = (DOCS / "choose.md").read_text(encoding="utf-8")
    table = text.partition("| name | definition |")[2]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(truewood.measures())


def test_every_promise_names_a_test_that_exists():
    text = (DOCS / "reliability.md").read_text(encoding="utf-8")
    files = list((ROOT / "tests").rglob("*.py"))
    functions = {name for path in files for name in re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8"))}
    names = re.findall(r"`(tests/[\w/.]+|test_\w+(?:\.py)?)`", text)
    for name in names:
        exists = (ROOT / name).exists() or any(path.name == name for path in files)
        assert exists or name in functions, name
    assert len(names) > 30
