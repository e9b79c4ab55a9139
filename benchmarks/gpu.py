"""Measure the cuda engine and the native engine on all cores: prints a table of seconds and targets.

    python benchmarks/gpu.py [--quick]

Needs a GPU and CuPy, and no peers other than scikit-learn. Writes benchmarks/results/gpu.csv and gpu_machine.txt.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import cupy
import numpy as np
import pandas as pd
from machine import QUICK_WORDS, describe_machine
from rich.console import Console
from rich.table import Table
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier
from timing import clock

import truewood as tw
from truewood._engines import cuda_device
from truewood._engines.cuda_sums import Amounts, make_amounts, read_sums
from truewood._engines.cuda_trees import DeviceTerms, DeviceTrees, Roles, add_influence, sum_rows
from truewood._engines.native_engine import wrap_trees
from truewood._engines.records import InfluenceBuffers
from truewood._inputs.tables import FeatureMatrix, read_features
from truewood._inputs.target import NumberTarget, Target, TargetKind, encode_target
from truewood.adapters import open_model

RESULTS = Path(__file__).with_name("results")
N_CORES = os.cpu_count() or 1


@dataclass
class Sizes:
    """Sizes of the benchmarks."""

    rows: int = 10_000_000
    features: int = 30
    trees: int = 100
    fit: int = 100_000
    oob: int = 1_000_000
    leaf: int = 50
    boosted: int = 1_000
    rounds: int = 5


QUICK = Sizes(rows=200_000, trees=10, fit=10_000, oob=50_000, leaf=5, boosted=50, rounds=2)


def time_of(work: Callable[[], Any], rounds: int) -> float:
    """Return the median seconds after a warm-up round."""

    def run() -> None:
        work()
        cupy.cuda.Device().synchronize()

    run()
    return float(np.median([clock(run) for _ in range(rounds)]))


def draw_rows(n: int, p: int, dtype: Any = np.float32) -> tuple[Any, np.ndarray]:
    """Draw normal columns on the GPU, and two classes on the host that depend on three of them."""
    rng = cupy.random.default_rng(1)
    X = rng.standard_normal((n, p), dtype=dtype)
    return X, (X[:, 0] + X[:, 1] * X[:, 2] + 2 * rng.standard_normal(n) > 0).get()


class Measured:
    """Collects the rows of the table."""

    def __init__(self) -> None:
        self.rows: list[dict[str, object]] = []

    def add(  # noqa: D102
        self, case: str, measured: float, target: float | None = None, unit: str = "s", *, least: bool = False
    ) -> None:
        met = None if target is None else measured >= target if least else measured <= target
        words = "" if target is None else f"{'at least' if least else 'at most'} {target:g} {unit}"
        self.rows.append({"case": case, "measured": f"{measured:.3g} {unit}", "target": words, "met": met})
        print(self.rows[-1], flush=True)


def lay_out(model: Any, n_features: int) -> tuple[DeviceTrees, TargetKind]:
    view = open_model(model)
    ensemble = view.read(range(view.n_trees))
    forest, sizes = wrap_trees(ensemble), np.diff(ensemble.offset)
    return DeviceTrees.lay_out(forest, sizes, n_features, N_CORES, ensemble), ensemble.kind


def count_levels(trees: list[Any]) -> float:
    """Return the mean number of splits on the path of a training row."""
    weights = [(tree.weighted_n_node_samples, tree.children_left >= 0) for tree in trees]
    return float(np.mean([weight[is_split].sum() / weight[0] for weight, is_split in weights]))


def measure_deep(table: Measured, sizes: Sizes) -> None:
    X, y = draw_rows(sizes.fit, sizes.features)
    forest = RandomForestClassifier(sizes.trees, n_jobs=-1, random_state=0).fit(X.get(), y)
    nodes = np.mean([tree.tree_.node_count for tree in forest.estimators_])
    levels = count_levels([tree.tree_ for tree in forest.estimators_])
    X, y = draw_rows(sizes.rows, sizes.features)
    laid_out, kind = lay_out(forest, sizes.features)
    matrix = read_features(X, open_model(forest).table, on_device=True)
    target = encode_target(y, kind, np.zeros(kind.n_columns))
    amounts = make_amounts(kind, target, None, with_squares=True)
    words = f"{sizes.trees} trees of {nodes:,.0f} nodes x {sizes.rows:,} rows x {sizes.features} features on the GPU"

    def find_sums(rows: FeatureMatrix) -> Any:
        return read_sums(kind, amounts, sum_rows(laid_out, rows, amounts, Roles()))

    work = time_of(lambda: find_sums(matrix), sizes.rounds)
    table.add(f"{words}, held-out, kernel and sums", work, 0.25)
    rate = sizes.trees * sizes.rows / work
    table.add("the same, row-trees a second", rate / 1e9, unit="G")
    table.add(f"the same, nodes of 16 bytes a second ({levels:.1f} levels)", rate * levels * 16 / 1e12, unit="TB/s")
    drawn = np.random.default_rng(0).standard_normal((int(laid_out.sizes.sum()), 2))
    terms = DeviceTerms.join(laid_out, drawn, kind, target)
    buffers = InfluenceBuffers(cupy.zeros((sizes.rows, sizes.features)), None, None, first=0)
    add = partial(add_influence, laid_out, matrix, terms, Roles(), buffers)
    both = work + time_of(add, sizes.rounds)
    table.add("the same with contributions of all rows", both, 0.75)
    table.add("the same, times that without", both / work, 3, unit="times")
    del add, buffers, terms
    score = partial(tw.importance, forest, X, y, rows="heldout", n_jobs=N_CORES)
    table.add("the whole call, inference=False", time_of(partial(score, inference=False), sizes.rounds))
    table.add("the whole call, with inference", time_of(score, sizes.rounds))
    measure_host(table, sizes, matrix, find_sums, work)
    host = X[: sizes.oob].get()
    own = partial(tw.importance, forest, host, y[: sizes.oob], rows="heldout", n_jobs=N_CORES, engine="native")
    seconds = clock(partial(own, inference=False))
    table.add(f"the compiled kernel, {N_CORES} threads, {sizes.oob:,} of these rows, inference=False", seconds)
    table.add("the same with inference", clock(own))


def measure_host(
    table: Measured, sizes: Sizes, matrix: FeatureMatrix, find_sums: Callable[[FeatureMatrix], Any], work: float
) -> None:
    """Measure rows in host memory, which are copied while the GPU works."""
    on_host = FeatureMatrix(matrix.values.get(), matrix.names, matrix.has_missing)

    def copy() -> None:
        cuda_device._kept.clear()
        for _ in cuda_device.iterate_rows(on_host, 0, on_host.n_rows):
            pass

    def copy_and_sum() -> None:
        cuda_device._kept.clear()
        find_sums(on_host)

    alone, together = time_of(copy, sizes.rounds), time_of(copy_and_sum, sizes.rounds)
    cuda_device._kept.clear()
    table.add("these rows in the host's memory: copy alone", alone)
    table.add("these rows in the host's memory: copy and sums", together)
    table.add("the same, times the larger of copy and work", together / max(alone, work), 1.2, unit="times")


def measure_small(table: Measured, sizes: Sizes) -> None:
    X, y = draw_rows(sizes.fit, sizes.features, np.float64)
    model = HistGradientBoostingRegressor(max_iter=sizes.boosted, max_leaf_nodes=31, early_stopping=False)
    model.fit(X.get(), y + 0.1 * X[:, 3].get())
    X, y = draw_rows(sizes.rows, sizes.features, np.float64)
    laid_out, kind = lay_out(model, sizes.features)
    target: Target = NumberTarget.of_numbers(np.asarray(y, dtype=np.float64)[:, np.newaxis])
    matrix = read_features(X, open_model(model).table, on_device=True)
    amounts: Amounts = make_amounts(kind, target, None, with_squares=False)
    work = time_of(lambda: read_sums(kind, amounts, sum_rows(laid_out, matrix, amounts, Roles())), sizes.rounds)
    words = f"{sizes.boosted:,} trees of 31 leaves x {sizes.rows:,} rows of float64"
    table.add(f"{words}, kernel and sums", work, 0.5)
    score = partial(tw.importance, model, X, y.astype(float), rows="heldout", n_jobs=N_CORES)
    table.add("the whole call, inference=False", time_of(partial(score, inference=False), 1))
    table.add("the whole call, with inference", time_of(score, 1))


def measure_oob(table: Measured, sizes: Sizes) -> None:
    X, y = draw_rows(sizes.oob, sizes.features)
    X = X.get()
    forest = RandomForestClassifier(sizes.trees, min_samples_leaf=sizes.leaf, n_jobs=-1, random_state=0).fit(X, y)
    nodes = np.mean([tree.tree_.node_count for tree in forest.estimators_])
    for inference in (False, True):
        seconds = {}
        for engine in ("native", "cuda"):
            score = partial(tw.importance, forest, X, y, n_jobs=N_CORES, inference=inference, engine=engine)
            seconds[engine] = time_of(score, sizes.rounds)
            words = f"{sizes.trees} trees of {nodes:,.0f} nodes x {sizes.oob:,} rows out of bag, {engine}"
            table.add(f"{words}, inference={inference}", seconds[engine])
        ratio = seconds["native"] / seconds["cuda"]
        table.add(f"the same, faster than native with {N_CORES} threads", ratio, 5, unit="times", least=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, to try the command")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder to write the table to")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    sizes, table = QUICK if options.quick else Sizes(), Measured()
    machine = f"{cuda_device.describe_device()}; {describe_machine()}"
    machine += f" ({QUICK_WORDS})" if options.quick else ""
    for part in (measure_deep, measure_small, measure_oob):
        part(table, sizes)
        cupy.get_default_memory_pool().free_all_blocks()
    rows = pd.DataFrame(table.rows)
    if options.quick:
        rows["met"] = None
    options.results.mkdir(exist_ok=True)
    rows.to_csv(options.results / "gpu.csv", index=False)
    (options.results / "gpu_machine.txt").write_text(machine + "\n")
    printed = Table(title=machine)
    for heading in rows:
        printed.add_column(heading)
    for row in rows.itertuples(index=False):
        printed.add_row(row.case, row.measured, row.target, {True: "yes", False: "no"}.get(row.met, ""))
    Console(width=150).print(printed)


if __name__ == "__main__":
    main()
