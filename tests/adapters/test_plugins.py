"""Adapters of other packages, found by their entry points: which one is chosen, when it is imported, how it fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

import truewood as tw
from helpers.installed import lacks_any
from truewood.adapters import _plugins, _registry

pytestmark = pytest.mark.any_engine

EXAMPLE = Path(__file__).parents[2] / "examples" / "toy_trees"

rng = np.random.default_rng(0)
X = rng.standard_normal((60, 3))
y = X[:, 0] + rng.standard_normal(60)

READS_FIRST_TREE = "import truewood.adapters\ndef open_model(model):\n    return truewood.adapters.open_model({})\n"


class Wrapped:
    """A model that only an adapter of its own can read."""

    def __init__(self) -> None:
        self.forest = RandomForestRegressor(3, random_state=0).fit(X, y)


class WrappedForest(RandomForestRegressor):
    """A model that truewood reads by its base class."""


PATH = f"{Wrapped.__module__}.Wrapped"


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a package with one entry point, and the module that it names."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(_registry, "_REGISTRY", dict(_registry._REGISTRY))
    _plugins.list_plugins.cache_clear()
    modules = []

    def write(package, name, value, code=None):
        folder = tmp_path / f"{package}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text(f"[truewood.adapters]\n{name} = {value}\n")
        if code is not None:
            (tmp_path / f"{value}.py").write_text(code)
            modules.append(value)
        _plugins.list_plugins.cache_clear()

    yield write
    _plugins.list_plugins.cache_clear()
    for module in modules:
        sys.modules.pop(module, None)


def test_an_installed_adapter_is_imported_when_its_model_appears(install):
    forest = RandomForestRegressor(3, random_state=0).fit(X, y)
    install("wrapped", PATH, "wrapped_adapter", READS_FIRST_TREE.format("model.forest"))
    tw.importance(forest, X, y)
    assert "wrapped_adapter" not in sys.modules
    np.testing.assert_array_equal(tw.importance(Wrapped(), X, y).values, tw.importance(forest, X, y).values)
    assert "wrapped_adapter" in sys.modules


def test_a_package_that_is_installed_later_is_found(install, tmp_path):
    with pytest.raises(TypeError, match="Wrapped"):
        tw.to_ensemble(Wrapped())
    known = _plugins.list_plugins()
    install("wrapped", PATH, "wrapped_adapter", READS_FIRST_TREE.format("model.forest"))
    assert not known  # what this process has seen so far
    assert tw.to_ensemble(Wrapped()).n_trees == 3


def test_the_adapter_of_the_nearest_class_is_used_and_a_registered_one_before_an_installed_one(install, tmp_path):
    forest = RandomForestRegressor(3, random_state=0).fit(X, y)
    derived = WrappedForest(3, random_state=0).fit(X, y)
    assert tw.to_ensemble(derived).n_trees == 3
    first = READS_FIRST_TREE.format("model.estimators_[0]")
    install("derived", f"{WrappedForest.__module__}.WrappedForest", "derived_adapter", first)
    assert tw.to_ensemble(derived).n_trees == 1
    # No package changes how truewood itself reads a class.
    install("rival", "sklearn.ensemble.BaseForest", "rival_adapter", "raise RuntimeError")
    assert tw.to_ensemble(forest).n_trees == 3
    (tmp_path / "chosen_adapter.py").write_text(READS_FIRST_TREE.format("model.estimators_[1]"))
    tw.register_adapter(f"{WrappedForest.__module__}.WrappedForest", "chosen_adapter")
    np.testing.assert_array_equal(tw.to_ensemble(derived).threshold, tw.to_ensemble(derived.estimators_[1]).threshold)


BROKEN = {
    "absent module": ("no_such_module", None, r"ModuleNotFoundError: .*'no_such_module'"),
    "not a module": ("broken_adapter:open_model", None, r"module.*'broken_adapter:open_model'"),
    "error on import": ("broken_adapter", "raise RuntimeError('two\\nlines.')", r"RuntimeError: two lines\.$"),
    "no function": ("broken_adapter", "", r"open_model.*broken_adapter"),
    "another result": ("broken_adapter", "def open_model(model):\n    return model", r"TreeModel.*got Wrapped"),
    "a bug": ("broken_adapter", "def open_model(model):\n    return {}['trees']", r"Wrapped.*KeyError: 'trees'"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_adapter_is_one_line_that_names_its_package(case, install):
    module, code, message = BROKEN[case]
    install("broken", PATH, module, code)
    with pytest.raises(tw.AdapterError, match=message) as caught:
        tw.importance(Wrapped(), X, y)
    assert "\n" not in str(caught.value)
    assert "broken 1.0" in str(caught.value)
    assert PATH in str(caught.value)
    # Other models do not suffer from it.
    assert tw.to_ensemble(RandomForestRegressor(2).fit(X, y)).n_trees == 2


def test_a_broken_registered_adapter_is_one_line_as_well(install):
    tw.register_adapter(PATH, "no_such_module")
    with pytest.raises(tw.AdapterError, match=rf"{PATH}.*'no_such_module'") as caught:
        tw.importance(Wrapped(), X, y)
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_a_model_that_an_adapter_rejects_keeps_the_message_of_the_adapter(install):
    install("strict", PATH, "strict_adapter", "def open_model(model):\n    raise ValueError('fit it first')")
    with pytest.raises(ValueError, match=r"^fit it first$"):
        tw.importance(Wrapped(), X, y)


def test_two_packages_for_one_class_are_refused(install, tmp_path):
    code = READS_FIRST_TREE.format("model.forest")
    install("first", PATH, "first_adapter", code)
    install("second", PATH, "second_adapter", code)
    with pytest.raises(tw.AdapterError, match=r"first 1\.0.*second 1\.0.*register_adapter"):
        tw.to_ensemble(Wrapped())
    tw.register_adapter(PATH, "second_adapter")
    assert tw.to_ensemble(Wrapped()).n_trees == 3


def test_an_entry_point_without_a_module_is_reported_and_ignored(install):
    install("nameless", "Wrapped", "wrapped_adapter")
    with pytest.warns(UserWarning, match=r"'Wrapped'.*nameless 1\.0.*lib\.module\.Class"):
        assert tw.to_ensemble(RandomForestRegressor(2).fit(X, y)).n_trees == 2


def test_the_example_package_is_read_once_it_is_installed(tmp_path):
    if lacks_any(["pip", "setuptools"]):
        pytest.skip("needs pip and setuptools")
    package, site = tmp_path / "toy_trees", tmp_path / "site"
    shutil.copytree(EXAMPLE, package, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    offline = ("--no-index", "--no-deps", "--no-build-isolation", "--quiet", "--disable-pip-version-check")
    run([sys.executable, "-m", "pip", "install", *offline, "--target", str(site), str(package)])
    program = (
        "import sys, numpy as np, toy_trees, truewood as tw\n"
        "X = np.random.default_rng(0).standard_normal((200, 3))\n"
        "forest = toy_trees.StumpForest(50).fit(X, X[:, 1])\n"
        "assert 'toy_trees.truewood_adapter' not in sys.modules\n"
        "print(tw.importance(forest, X, X[:, 1]).order[0], toy_trees.__file__)"
    )
    source = str(Path(tw.__file__).parents[1])
    places = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), source])}
    printed = run([sys.executable, "-W", "ignore:.*compiled kernel:UserWarning", "-c", program], places)
    assert printed.split() == ["1", str(site / "toy_trees" / "__init__.py")]
    # The tests of the package itself, which call check_adapter.
    shutil.rmtree(package / "src")
    printed = run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(package / "tests")], places, package)
    assert "3 passed" in printed


def run(command, places=None, folder=None):
    done = subprocess.run(command, env=places, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
