"""Count the modules and functions that a call visits, and how often it changes module.

    python benchmarks/call_walk.py

Each call runs once before it is counted, to exclude imports. A change of module is a call from a function in one
truewood module to a function in another.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd
import xgboost
from rich.console import Console
from rich.table import Table
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

import truewood as tw
from truewood.tabular import score_table

PACKAGE = str(Path(tw.__file__).parent)


def count_walk(call: Callable[[], Any]) -> tuple[int, int, int]:
    """Count the truewood modules and functions that a call visits, and its changes of module, over all threads."""
    functions: set[tuple[str, str]] = set()
    n_changes = 0

    def watch(frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal n_changes
        module = frame.f_code.co_filename
        if event != "call" or not module.startswith(PACKAGE):
            return
        functions.add((module, frame.f_code.co_qualname))
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(PACKAGE):
            caller = caller.f_back
        n_changes += caller is not None and caller.f_code.co_filename != module

    call()
    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return len({module for module, _ in functions}), len(functions), n_changes


def list_calls(folder: Path) -> dict[str, Callable[[], Any]]:
    """Return the calls to count, by name."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((600, 6)), columns=list("abcdef"))
    y = X["a"] + rng.standard_normal(600)
    forest = RandomForestRegressor(10, random_state=0).fit(X[:300], y[:300])
    booster = xgboost.XGBRegressor(n_estimators=10).fit(X[:300], y[:300])
    table = X.assign(price=y)
    table[300:].to_parquet(folder / "rows.parquet")
    return {
        "forest": lambda: tw.importance(forest, X[:300], y[:300], n_jobs=1),
        "XGBoost": lambda: tw.importance(booster, X[300:], y[300:], rows="heldout", n_jobs=1),
        "Parquet": lambda: tw.importance(booster, folder / "rows.parquet", "price", rows="heldout", n_jobs=1),
        "folds": lambda: tw.cross_importance(HistGradientBoostingRegressor(max_iter=10), X, y, cv=3),
        "score_table": lambda: score_table(table, "price"),
    }


def main() -> None:
    """Count and print."""
    shown = Table("call", "modules", "functions", "changes of module")
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, call in list_calls(Path(folder)).items():
            shown.add_row(name, *(f"{number:,}" for number in count_walk(call)))
    Console().print(shown)


if __name__ == "__main__":
    main()
