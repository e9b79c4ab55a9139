"""What is installed, found without an import of truewood: a worker's coverage begins after conftest.py is read."""

from __future__ import annotations

from importlib.machinery import PathFinder
from importlib.util import find_spec


def has_kernel() -> bool:
    """Whether the compiled kernel is there."""
    package = find_spec("truewood")
    folders = [f"{folder}/_engines" for folder in package.submodule_search_locations]
    return PathFinder.find_spec("_kernel", folders) is not None


def lacks_any(libraries: list[str]) -> bool:
    return any(find_spec(library) is None for library in libraries)
