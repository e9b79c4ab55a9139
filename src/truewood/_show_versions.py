"""`show_versions`: installed versions for bug reports."""

from __future__ import annotations

import platform
import re
from importlib.metadata import requires, version

from rich.console import Console

from truewood._engines.selection import describe_engines


def show_versions() -> None:
    """Print the versions of truewood and its dependencies, the engine in use, and the GPU."""
    needed = [re.split(r"[^\w.-]", line)[0] for line in requires("truewood") or [] if "extra ==" not in line]
    lines = [f"truewood      {version('truewood')}"]
    lines += [f"{name:<13} {found}" for name, found in describe_engines().items()]
    lines += [f"python        {platform.python_version()}", f"platform      {platform.platform()}"]
    lines += [f"{name:<13} {version(name)}" for name in needed]
    Console(highlight=False).print("\n".join(lines), soft_wrap=True, markup=False)
