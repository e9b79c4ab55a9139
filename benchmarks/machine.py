"""Describe the machine and the library versions behind the figures."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

LIBRARIES = ("scikit-learn", "numpy", "xgboost-cpu", "xgboost", "lightgbm", "catboost", "lleaves", "treelite", "shap")
QUICK_WORDS = "quick run, too small to mean anything"


def describe_machine() -> str:
    """Return processor, cores, Python and library versions in one line."""
    found = [f"{name} {number}" for name in LIBRARIES if (number := _find_version(name))]
    return f"{_find_processor()}, {os.cpu_count()} cores; Python {platform.python_version()}, {', '.join(found)}"


def _find_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _find_processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())
