"""Doctests are collected from every module that can be imported here."""

from __future__ import annotations

import os

from helpers.installed import lacks_any

ADAPTERS = ("catboost", "econml", "lightgbm", "ngboost", "sksurv", "treelite", "xgboost", "ydf")
collect_ignore = [f"src/truewood/adapters/_{library}.py" for library in ADAPTERS if lacks_any([library])]
if lacks_any(["treelite"]):
    collect_ignore.append("src/truewood/adapters/_cuml.py")
if lacks_any(["nicegui"]):
    collect_ignore += ["src/truewood/_app/token_middleware.py", "src/truewood/_app/page.py"]
collect_ignore_glob = ["src/truewood/_engines/*.py"]  # without doctests; some cannot be imported without the kernel


def pytest_configure(config):
    """One thread of OpenMP for each worker: threads wait for each other in a loop, slow where others work too."""
    if getattr(config.option, "numprocesses", None):
        os.environ.setdefault("OMP_NUM_THREADS", "1")
