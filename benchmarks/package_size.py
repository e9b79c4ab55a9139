"""Measure the size of a package, and how much of it looks public.

    python benchmarks/package_size.py src/truewood SITE_PACKAGES/narwhals ...

Lines are those of Python files. A name looks public if neither it nor any part of its path starts with an underscore;
a name is exported if the package lists it in `__all__`.
"""

from __future__ import annotations

import argparse
import ast
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

SHORT = 40


def list_names(tree: ast.Module) -> list[str]:
    """List the functions and classes that a module defines."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [node.name for node in tree.body if isinstance(node, kinds)]


def list_exports(tree: ast.Module) -> list[str]:
    """List the names in `__all__`."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            return [element.value for element in ast.walk(node) if isinstance(element, ast.Constant)]
    return []


def measure(package: Path) -> list[str]:
    """Count modules, lines, lines of the median module, short modules, names that look public, and exports."""
    paths = [path for path in sorted(package.rglob("*.py")) if "tests" not in path.relative_to(package).parts]
    lines, n_public, n_private = [], 0, 0
    for path in paths:
        text = path.read_text(encoding="utf-8")
        lines.append(len(text.splitlines()))
        parts = [*path.relative_to(package).parent.parts, path.stem.replace("__init__", "init")]
        is_public = not any(part.startswith("_") for part in parts)
        n_public += sum(is_public and not name.startswith("_") for name in list_names(ast.parse(text)))
        n_private += not is_public
    exports = list_exports(ast.parse((package / "__init__.py").read_text(encoding="utf-8")))
    n_short = sum(n < SHORT for n in lines)
    figures = (len(paths), n_private, sum(lines), int(median(lines)), n_short, n_public, len(exports))
    return [f"{figure:,}" for figure in figures]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="+", type=Path)
    columns = ("modules", "private", "lines", "median module", f"below {SHORT}", "names that look public", "exported")
    table = Table("package", *columns)
    for package in parser.parse_args().packages:
        table.add_row(package.name, *measure(package))
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
