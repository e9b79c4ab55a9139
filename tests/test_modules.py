"""Modules: each is found under its name, and each room says what lives there."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pkgutil import walk_packages

import pytest

import truewood

NEED_KERNEL = ("native_engine", "cuda_engine", "cuda_trees")
ADAPTERS = ("catboost", "econml", "lightgbm", "sksurv", "treelite", "xgboost")
# Modules that cannot be imported without what they need.
NEEDED = {
    **{f"truewood.adapters._{library}": library for library in ADAPTERS},
    "truewood.adapters._cuml": "treelite",
    "truewood._app.token_middleware": "nicegui",
    "truewood._app.column_table": "nicegui",
    "truewood._app.page": "nicegui",
    "truewood._app.routes": "nicegui",
    **{f"truewood._engines.{name}": "truewood._engines._kernel" for name in NEED_KERNEL},
}


def list_modules():
    names = [module.name for module in walk_packages(truewood.__path__, "truewood.")]
    absent = {name for name, needed in NEEDED.items() if find_spec(needed) is None}
    return [name for name in names if name not in absent and not name.endswith("._kernel")]


@pytest.mark.parametrize("name", list_modules())
def test_no_function_hides_a_module(name):
    module = import_module(name)
    parent, _, own = name.rpartition(".")
    assert getattr(sys.modules[parent], own) is module
    assert module.__doc__
