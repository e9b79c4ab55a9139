"""Count the modules and functions that a call visits, and how often it changes module.

    python benchmarks/call_walk.py
    python benchmarks/call_walk.py --list forest     # the functions, by module, with their number of calls

Each call runs once before it is counted, so that imports do not count. A change of module is a call from a function of
one truewood module to a function of another.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import warnings
from collections import Counter
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


def walk(call: Callable[[], Any]) -> tuple[Counter[tuple[str, str]], int]:
    """Count the calls of each truewood function, by module and name, and the changes of module, over all threads."""
    functions: Counter[tuple[str, str]] = Counter()
    n_changes = 0

    def watch(frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal n_changes
        module = frame.f_code.co_filename
        if event != "call" or not module.startswith(PACKAGE):
            return
        functions[module, frame.f_code.co_qualname] += 1
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
    return functions, n_changes


def list_calls(folder: Path) -> dict[str, Callable[[], Any]]:
    """The calls to count."""
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


def count_all(calls: dict[str, Callable[[], Any]]) -> Table:
    """Count what each call visits."""
    shown = Table("call", "modules", "functions", "changes of module")
    for name, call in calls.items():
        functions, n_changes = walk(call)
        numbers = len({module for module, _ in functions}), len(functions), n_changes
        shown.add_row(name, *(f"{number:,}" for number in numbers))
    return shown


def list_functions(call: Callable[[], Any]) -> Table:
    """List the functions that a call visits."""
    shown = Table("module", "function", "calls")
    for (module, function), n_calls in sorted(walk(call)[0].items()):
        shown.add_row(module.removeprefix(f"{PACKAGE}/"), function, f"{n_calls:,}")
    return shown


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", metavar="CALL", help="list the functions that one of the calls visits")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calls = list_calls(Path(folder))
        if options.list is not None and options.list not in calls:
            parser.error(f"--list must be one of {', '.join(calls)}, got {options.list!r}.")
        shown = count_all(calls) if options.list is None else list_functions(calls[options.list])
    Console().print(shown)


if __name__ == "__main__":
    main()
