"""Modules: each is found under its name, and each room says what lives there."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pkgutil import walk_packages

import pytest

import truewood

OPTIONAL = ("catboost", "econml", "lightgbm", "sksurv", "treelite", "xgboost")


def list_modules():
    absent = {library for library in OPTIONAL if find_spec(library) is None}
    if find_spec("truewood.engines._kernel") is None:
        absent.add("native_engine")
    names = [module.name for module in walk_packages(truewood.__path__, "truewood.")]
    return [name for name in names if name.rpartition(".")[2] not in absent and not name.endswith("._kernel")]


@pytest.mark.parametrize("name", list_modules())
def test_no_function_hides_a_module(name):
    module = import_module(name)
    parent, _, own = name.rpartition(".")
    assert getattr(sys.modules[parent], own) is module
    assert module.__doc__
