"""Adapters of other packages: found by their entry points, imported when a model of theirs appears, and validated."""

from __future__ import annotations

import importlib
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from truewood._exceptions import AdapterError, warn
from truewood._formatting import in_one_line, list_names, quote
from truewood.adapters._tree_model import TreeModel

# Entry point group: class path = adapter module.
_GROUP = "truewood.adapters"


@cache
def list_plugins() -> dict[str, tuple[EntryPoint, ...]]:
    """The entry points of installed packages by class path; nothing is imported.

    A call for a model that no adapter reads clears the cache, so that a package installed meanwhile is found.
    """
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for point in entry_points(group=_GROUP):
        if "." in point.name.strip("."):
            found[point.name] = (*found.get(point.name, ()), point)
        else:
            warn(
                f"the entry point {quote(point.name)} of {_name_package(point)} in group {quote(_GROUP)} is ignored: "
                "its name must be a module and a class, such as 'lib.module.Class'."
            )
    return found


def open_with_plugin(class_path: str, model: Any) -> TreeModel:
    """Read a model by the adapter of an installed package."""
    points = list_plugins()[class_path]
    if len({point.value for point in points}) > 1:
        packages = list_names(sorted(f"{point.value} of {_name_package(point)}" for point in points))
        raise AdapterError(
            f"{class_path} has more than one adapter: {packages}; choose one with tw.register_adapter, or uninstall "
            "the other packages."
        )
    return open_with_module(points[0].value, model, f"the adapter of {class_path} in {_name_package(points[0])}")


def open_with_module(module: str, model: Any, adapter: str) -> TreeModel:
    """Read a model by a module of another package; `adapter` describes it in messages."""
    if not all(part.isidentifier() for part in module.split(".")):
        raise AdapterError(f"{adapter} must be the name of a module, such as 'package.module', got {quote(module)}.")
    try:
        imported = importlib.import_module(module)
    except Exception as error:
        raise AdapterError(f"{adapter} cannot import {module}: {_describe(error)}.") from error
    read = getattr(imported, "open_model", None)
    if not callable(read):
        raise AdapterError(f"{adapter} must define a function open_model(model) in {module}, which has none.")
    try:
        tree_model = read(model)
    except (ValueError, TypeError, MemoryError):
        raise  # a model that the package rejects, or one that is too large
    except Exception as error:
        raise AdapterError(f"{adapter} cannot read this {type(model).__name__}: {_describe(error)}.") from error
    if not isinstance(tree_model, TreeModel):
        raise AdapterError(
            f"{adapter} must return a truewood.adapters.TreeModel from open_model in {module}, got "
            f"{type(tree_model).__name__}."
        )
    return tree_model


def _name_package(point: EntryPoint) -> str:
    return "an installed package" if point.dist is None else f"{point.dist.name} {point.dist.version}"


def _describe(error: Exception) -> str:
    text = in_one_line(" ".join(str(error).split())).rstrip(".")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
