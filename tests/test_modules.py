"""Modules: each is found under its name and has a docstring."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pkgutil import walk_packages

import pytest

import truewood

NEED_KERNEL = ("native_engine", "cuda_engine", "cuda_trees")
ADAPTERS = ("catboost", "econml", "lightgbm", "ngboost", "sksurv", "treelite", "xgboost", "ydf")
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


def test_what_importance_does_not_need_is_imported_on_first_use():
    code = "import sys, truewood; print(*(name for name in sys.modules if name.startswith('truewood')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "truewood._importance" in loaded
    assert not loaded & {"truewood.tabular", "truewood.testing", "truewood.datasets", "truewood._estimators"}


@pytest.mark.parametrize("name", truewood.__all__)
def test_every_public_name_is_found(name):
    assert getattr(truewood, name) is getattr(truewood, name)


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="importances"):
        truewood.importances  # noqa: B018
