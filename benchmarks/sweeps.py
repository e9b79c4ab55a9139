"""Cost by rows, trees, features and depth: one size varies while the others are fixed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

import peers as p
from cases import make_boosted, make_forest
from timing import Measure, Report, Timing


@dataclass(frozen=True)
class Sizes:
    """Sizes of a case; boosted trees of depth d have at most 2^d - 1 leaves; depth 0 of a forest means no limit."""

    rows: int
    trees: int
    features: int
    depth: int


@dataclass(frozen=True)
class Sweep:
    """Values of the size that varies, and the other sizes, for forests and for boosted trees."""

    values: tuple[int, ...]
    forest: Sizes
    boosted: Sizes
    boosted_values: tuple[int, ...] = ()


FOREST, BOOSTED = Sizes(10_000, 100, 30, 0), Sizes(10_000, 100, 20, 5)
SWEEPS = {
    "rows": Sweep((1_000, 10_000, 100_000, 1_000_000), replace(FOREST, trees=20), BOOSTED),
    "trees": Sweep((10, 30, 100, 300, 1_000), FOREST, BOOSTED),
    "features": Sweep((10, 30, 100, 300, 1_000), FOREST, BOOSTED),
    "depth": Sweep((2, 4, 8, 16, 0), replace(FOREST, rows=100_000, trees=20), BOOSTED, (2, 3, 5, 7, 8)),
}
_SMALL = Sizes(1_000, 5, 10, 0), Sizes(1_000, 5, 10, 5)
QUICK = {
    "rows": Sweep((300, 1_000, 3_000), *_SMALL),
    "trees": Sweep((3, 10), *_SMALL),
    "features": Sweep((5, 20), *_SMALL),
    "depth": Sweep((2, 0), *_SMALL, (2, 5)),
}


def run_sweep(
    name: str, sweep: Sweep, missing: list[str], time_all: Measure, report: Report
) -> Iterator[list[dict[str, object]]]:
    """Iterate over the records of all peers, case by case."""
    for value in sweep.values:
        sizes = replace(sweep.forest, **{name: value})
        case = make_forest(sizes.rows, sizes.trees, sizes.features, sizes.depth or None)
        timings = [*time_all(p.list_forest_peers(case, missing, sizes.depth)), case.fit]
        report(f"forest: {_describe(sizes)}, {case.levels:.1f} levels", timings)
        yield [_record("forest", sizes, timing, levels=case.levels) for timing in timings]
    for value in sweep.boosted_values or sweep.values:
        sizes = replace(sweep.boosted, **{name: value})
        timings = _time_boosted(sizes, missing, time_all)
        if timings:
            report(f"boosted, held-out rows: {_describe(sizes)}", timings)
            yield [_record("boosted", sizes, timing) for timing in timings]


def _time_boosted(sizes: Sizes, missing: list[str], time_all: Measure) -> list[Timing]:
    timings = []
    for library in ("LightGBM", "XGBoost"):
        if library not in missing:
            leaves = 2**sizes.depth - 1
            case = make_boosted(library, sizes.rows, sizes.trees, sizes.features, leaves)
            timings += time_all([*p.score_boosted(case, library), *p.find_own_leaves(case, library, missing)])
    return timings


def _describe(sizes: Sizes) -> str:
    depth = f"depth {sizes.depth}" if sizes.depth else "no limit of depth"
    return f"{sizes.rows:,} rows, {sizes.trees:,} trees, {sizes.features:,} features, {depth}"


def _record(family: str, sizes: Sizes, timing: Timing, levels: float | None = None) -> dict[str, object]:
    return {"family": family, **asdict(sizes), "levels": levels, **asdict(timing)}
