"""Speed targets: rows `case | measured | target` of one table."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import pandas as pd
import peers as p
from cases import BoostedCase, ForestCase, make_boosted, make_forest
from timing import Measure, Report, whole

import truewood as tw


@dataclass(frozen=True)
class Sizes:
    """Sizes of the benchmarks."""

    rows: int = 100_000
    trees: int = 100
    features: int = 30
    boosted_rows: int = 100_000
    boosted_trees: int = 1_000
    small_rows: int = 50_000
    small_trees: int = 400
    hist_rows: int = 500_000
    hist_trees: int = 500
    level_rows: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    level_trees: int = 10
    starts: int = 7


QUICK = Sizes(2_000, 10, 10, 2_000, 20, 2_000, 20, 5_000, 20, (500, 1_000, 2_000), 5, 2)


@dataclass(frozen=True)
class Row:
    """One row of the table, and whether its target, if any, is met."""

    case: str
    measured: str
    target: str = ""
    met: bool | None = None


def _at_most(case: str, value: float, limit: float, unit: str = "", digits: int = 2) -> Row:
    return Row(case, f"{value:.{digits}f}{unit}", f"at most {limit:g}{unit}", value <= limit)


def _at_least(case: str, value: float, limit: float, unit: str = " times") -> Row:
    return Row(
        case,
        f"{value:,.2f}{unit}" if value < 100 else f"{value:,.0f}{unit}",
        f"at least {limit:,g}{unit}",
        value >= limit,
    )


def _next_to(name: str, seconds: float, ours: float, limit: int | None) -> Row:
    """Give the time of a slow peer in units that people wait in, instead of a ratio."""
    unit, length = next((u for u in (("hours", 3600), ("minutes", 60)) if seconds >= u[1]), ("seconds", 1))
    row = Row(f"{name}, where truewood takes {ours:.2f} seconds", f"{seconds / length:.1f} {unit}")
    if limit is None:
        return row
    return replace(row, target=f"at least {limit:,} times as long", met=seconds >= limit * ours)


# Groups that can be measured separately, in the order of the table.
GROUPS = ("forest", "cores", "boosted", "small", "levels", "start")


def list_rows(
    group: str, sizes: Sizes, missing: list[str], time_all: Measure, report: Report, results: Path
) -> Iterator[Row]:
    """Iterate over the rows of a group; `report` receives the timings behind them."""
    if group == "forest":
        case = make_forest(sizes.rows, sizes.trees, sizes.features)
        yield from _compare_forest(case, missing, time_all, report)
        yield from _measure_memory(case)
    elif group == "cores":
        yield from _read_cores(results)
    elif group == "boosted":
        for library in ("XGBoost", "LightGBM", "CatBoost", "GradientBoosting"):
            if library not in missing:
                boosted = make_boosted(library, sizes.boosted_rows, sizes.boosted_trees)
                yield from _compare_boosted(boosted, library, missing, time_all, report)
        hist = make_boosted("HistGradientBoosting", sizes.hist_rows, sizes.hist_trees)
        yield from _compare_hist(hist, time_all, report)
    elif group == "small":
        for library in ("XGBoost", "LightGBM"):
            if library not in missing:
                small = make_boosted(library, sizes.small_rows, sizes.small_trees, sizes.features)
                yield from _compare_small(small, library, time_all, report)
    elif group == "levels":
        yield _compare_levels(sizes, time_all)
    else:
        yield from _measure_start(sizes.starts)


def _compare_forest(case: ForestCase, missing: list[str], time_all: Measure, report: Report) -> Iterator[Row]:
    words = f"{case.n_trees} trees x {len(case.X):,} rows x {case.X.shape[1]} features"
    threaded = p.score_forest(case, n_jobs=2)
    single = whole("truewood permutation", lambda: tw.importance(case.forest, case.X, case.y, measure="permutation"))
    timings = [*time_all([*p.list_forest_peers(case, missing), *threaded, single]), case.fit]
    report(words, timings)
    seconds = {timing.peer: timing.seconds for timing in timings}
    ours, inferred = seconds[p.TRUEWOOD], seconds[p.TRUEWOOD_INFERENCE]
    yield _at_most(
        f"{words}, out-of-bag, one thread, against tree_.apply(X[oob]) summed", ours / seconds[p.APPLY], 0.45
    )
    yield _at_most("the same with inference", inferred / seconds[p.APPLY], 1.4)
    yield Row(
        "the same against the fit, without and with inference",
        f"{ours / case.fit.seconds:.2%}, {inferred / case.fit.seconds:.2%}",
    )
    if (os.cpu_count() or 1) >= 2:
        for name, peer in zip((p.TRUEWOOD, p.TRUEWOOD_INFERENCE), threaded, strict=True):
            yield _at_least(
                f"{name}: two threads against one, {os.cpu_count()} cores", seconds[name] / seconds[peer.name], 1.85
            )
    for name, limit in ((p.PERMUTATION, 300), (p.SHAP, 1_000), (p.PUBLISHED, 200), (p.RANGER, None)):
        if name in seconds:
            yield _next_to(name, seconds[name], ours, limit)
    ratio = seconds[p.PERMUTATION] / 5 / seconds[single.name]
    yield Row("truewood's permutation against permutation_importance of one repeat", f"{ratio:,.1f} times faster")


def _measure_memory(case: ForestCase) -> Iterator[Row]:
    """Measure the peak memory of Python and numpy; this does not include the kernel's own memory."""
    for words, inference in (("", False), (" with inference", True)):
        tracemalloc.start()
        tw.importance(case.forest, case.X, case.y, inference=inference)
        peak = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
        yield Row(f"peak extra memory{words}", f"{peak:.1f} MB next to X of {case.X.nbytes / 1e6:.1f} MB")


def _read_cores(results: Path) -> Iterator[Row]:
    """Read the results of `benchmarks/cores.py`, which may come from another machine."""
    file = results / "cores.csv"
    if not file.exists():
        yield Row("16 threads against one", "run benchmarks/cores.py on 16 cores", "at least 10 times")
        return
    table = pd.read_csv(file).query("family == 'forest'").pivot_table(index="threads", columns="peer", values="seconds")
    most = 16 if 16 in table.index else int(table.index.max())
    for name in (p.TRUEWOOD, p.TRUEWOOD_INFERENCE):
        row = _at_least(f"{name}: {most} threads against one (cores.csv)", table[name][1] / table[name][most], 10)
        yield row if most == 16 else replace(row, target="at least 10 times with 16", met=None)


def _compare_boosted(
    case: BoostedCase, library: str, missing: list[str], time_all: Measure, report: Report
) -> Iterator[Row]:
    own = p.find_own_leaves(case, library, missing)
    timings = time_all([*p.score_boosted(case, library), *own])
    words = f"{case.n_trees:,} trees of {case.leaves} leaves, {len(case.X):,} held-out rows, one thread"
    report(f"{library}: {words}", timings)
    seconds = {timing.peer: timing.seconds for timing in timings}
    ours = seconds[f"{p.TRUEWOOD}, {library}"]
    for peer in own:
        case_words = f"{library}, {words}, against {peer.name}"
        if peer.name in ("XGBoost pred_leaf", "LightGBM pred_leaf"):
            yield _at_most(case_words, ours / seconds[peer.name], 0.10)
        else:
            yield Row(case_words, f"{ours / seconds[peer.name]:.2f}")


def _compare_small(case: BoostedCase, library: str, time_all: Measure, report: Report) -> Iterator[Row]:
    """Compare the best processor times, which other processes disturb least."""
    own = p.find_own_leaves(case, library, ["lleaves", "treelite"], time.process_time)
    timings = time_all([*p.score_boosted(case, library, time.process_time), *own])
    words = f"{library}, {case.n_trees} trees of {case.leaves} leaves, {case.X.shape[1]} features, {len(case.X):,} rows"
    report(words, timings)
    best = {timing.peer: timing.best for timing in timings}
    for name, what, limit in ((p.TRUEWOOD, "", 0.10), (p.TRUEWOOD_INFERENCE, " with inference", 0.30)):
        yield _at_most(
            f"{words}, processor time{what} against {own[0].name}",
            best[f"{name}, {library}"] / best[own[0].name],
            limit,
        )


def _compare_hist(case: BoostedCase, time_all: Measure, report: Report) -> Iterator[Row]:
    library = "HistGradientBoosting"
    (own,) = p.find_own_leaves(case, library, [])
    timings = time_all([*p.score_boosted(case, library), own])
    words = f"{library}, {case.n_trees:,} trees x {len(case.X):,} rows, float64"
    report(words, timings)
    seconds = {timing.peer: timing.seconds for timing in timings}
    ours = seconds[f"{p.TRUEWOOD}, {library}"]
    rate = case.n_trees * len(case.X) / 1e6 / ours
    yield _at_least(f"{words}: row-trees per second and core", rate, 38.1, " M")
    yield Row(f"{words}, against its own predict", f"{ours / seconds[own.name]:.2f}")


def _compare_levels(sizes: Sizes, time_all: Measure) -> Row:
    """Compare the time per row, tree and level for different numbers of rows."""
    costs = []
    for n_rows in sizes.level_rows:
        case = make_forest(n_rows, sizes.level_trees, sizes.features, n_jobs=-1)
        costs.append(time_all(p.score_forest(case)[:1])[0].seconds / case.steps * 1e9)
    case_words = "time per (row, tree, level), " + ", ".join(f"{n:,}" for n in sizes.level_rows) + " rows: "
    case_words += ", ".join(f"{cost:.2f}" for cost in costs)
    case_words += f" ns; the largest relative to that of {sizes.level_rows[0]:,} rows"
    return _at_most(case_words, max(costs) / costs[0], 2)


_IMPORT = "import time, sklearn.ensemble; t = time.perf_counter(); import truewood; print(time.perf_counter() - t)"
_FIRST_CALL = """
import time
import truewood as tw
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
X, y = load_iris(return_X_y=True)
forest = RandomForestClassifier(100, random_state=0).fit(X, y)
start = time.perf_counter()
tw.importance(forest, X, y)
print(time.perf_counter() - start)
"""


def _measure_start(n_times: int) -> Iterator[Row]:
    """Time fresh processes; take the best of several, because other load can only add time."""
    for case, code, limit in (
        ("import truewood, after sklearn.ensemble", _IMPORT, 0.25),
        ("first call in a fresh process (iris, 100 trees, with inference)", _FIRST_CALL, 0.05),
    ):
        command = [sys.executable, "-c", code]
        taken = [
            float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(n_times)
        ]
        yield _at_most(f"{case}, best of {n_times} (median {median(taken):.3f} s)", min(taken), limit, " s", 3)
