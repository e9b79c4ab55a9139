"""Which test finds more features, the usual one, the residual test or univariate tests? And how much noise?

Run: python experiments/selection/residual.py [--first 0] [--datasets 20] [--designs PATTERN] [--label after]
[--n-jobs N] [--seconds S] [--results FILE] [--add FILE ...] [--only-summary]

Appends a line per data set, test and number of trees to residual.csv, so that an interrupted run continues where it
stopped, and writes residual_summary.csv and residual.png. `--add` appends the lines of other machines' data sets. Tests
are at 5%, for power and false discoveries after Benjamini and Hochberg's correction. `--label before` has only the
usual test, for a version of truewood without the other.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path

import numpy as np
import pandas as pd
from designs import BESIDE, DESIGNS, NOISE, SIGNAL, Design, Table, correlate
from joblib import Parallel, delayed
from scipy import stats
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from threadpoolctl import threadpool_limits

import truewood as tw

FOLDER = Path(__file__).parent
FIELDS = (
    "label",
    "design",
    "trees",
    "dataset",
    "test",
    "power",
    "false",
    "noise",
    "n_noise",
    "beside",
    "sum_z",
    "sum_z2",
)
LEVEL = 0.05


def draw_noise(share: float | None, n_columns: int = 10) -> Callable[[np.random.Generator, int], Table]:
    """Columns of noise and a class of this share, or a normal target."""

    def draw_rows(rng: np.random.Generator, n_rows: int) -> Table:
        X = rng.standard_normal((n_rows, n_columns))
        return X, rng.standard_normal(n_rows) if share is None else (rng.random(n_rows) < share).astype(int)

    return draw_rows


def draw_rare_numbers(rng: np.random.Generator, n_rows: int) -> Table:
    """Noise, and numbers that are 1 in 2 % of rows and otherwise 0."""
    return rng.standard_normal((n_rows, 10)), (rng.random(n_rows) < 0.02).astype(float)


def draw_classes(rng: np.random.Generator, n_rows: int) -> Table:
    """Noise, and 50 classes."""
    return rng.standard_normal((n_rows, 10)), rng.integers(0, 50, n_rows)


def draw_logistic(share: float, slopes: tuple[float, ...]) -> Callable[[np.random.Generator, int], Table]:
    """Fifteen columns; the first ones affect the log-odds of a class."""

    def draw_rows(rng: np.random.Generator, n_rows: int) -> Table:
        X = rng.standard_normal((n_rows, 15))
        score = X[:, : len(slopes)] @ slopes + 1.2 * np.log(share / (1 - share))
        return X, (score + rng.logistic(size=n_rows) > 0).astype(int)

    return draw_rows


def draw_strong(rng: np.random.Generator, n_rows: int) -> Table:
    """A feature that explains 90 %, and noise."""
    X = rng.standard_normal((n_rows, 6))
    return X, 3.0 * X[:, 0] + rng.standard_normal(n_rows)


def draw_beside_noise(rng: np.random.Generator, n_rows: int) -> Table:
    """Three signals beside correlated noise."""
    X = np.hstack([rng.standard_normal((n_rows, 3)), correlate(rng, n_rows, blocks=1, size=12, correlation=0.7)])
    return X, X[:, :3] @ [1.5, 0.4, 0.3] + rng.standard_normal(n_rows)


def _roles(n_signal: int, n_noise: int) -> tuple[str, ...]:
    return (SIGNAL,) * n_signal + (NOISE,) * n_noise


CASES: dict[str, tuple[Design, int]] = {
    **{f"{name}, 500 trees": (DESIGNS[name], 500) for name in ("p > n", "independent", "rare class")},
    "beside correlated noise, 500 trees": (Design(draw_beside_noise, _roles(3, 12)), 500),
    **{name: (DESIGNS[name], 100) for name in ("p > n", "nulls in blocks", "moved noise")},
    "4%, 4 of 15": (Design(draw_logistic(0.04, (1.2, 0.9, 0.7, 0.5)), _roles(4, 11), n_rows=1000), 100),
    "even, weak, 4 of 15": (Design(draw_logistic(0.5, (0.5, 0.4, 0.3, 0.2)), _roles(4, 11), n_rows=500), 100),
    "R2 = 0.9": (Design(draw_strong, _roles(1, 5)), 100),
    "no signal, 1%": (Design(draw_noise(0.01), _roles(0, 10), n_rows=2000), 100),
    "no signal, even": (Design(draw_noise(0.5), _roles(0, 10)), 100),
    "no signal, numbers": (Design(draw_noise(None), _roles(0, 10)), 100),
    "no signal, 0/1 at 2%": (Design(draw_rare_numbers, _roles(0, 10), n_rows=1000), 100),
    "no signal, 50 classes": (Design(draw_classes, _roles(0, 10), n_rows=1000), 100),
    "no signal, 200 x 2,000": (Design(draw_noise(None, 2000), _roles(0, 2000), n_rows=200), 100),
}


def test_alone(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """P-values of each column alone: correlation, or analysis of variance between classes."""
    if y.dtype.kind == "i":
        return stats.f_oneway(*(X[y == label] for label in np.unique(y)), axis=0).pvalue
    return stats.pearsonr(X, y[:, np.newaxis], axis=0).pvalue


def run_tests(design: Design, n_trees: int, seed: int, label: str) -> Iterator[tuple[str, np.ndarray]]:
    """P-values by test, of one data set."""
    rng = np.random.default_rng([seed, 2026])
    X, y = design.draw_rows(rng, design.n_rows)
    if y.dtype.kind == "i":
        forest = RandomForestClassifier(n_trees, random_state=seed).fit(X, y)
    else:
        forest = RandomForestRegressor(n_trees, max_features=1 / 3, random_state=seed).fit(X, y)
    if label == "before":
        yield "usual", tw.importance(forest, X, y, n_jobs=1).p_value
    else:
        result = tw.importance(forest, X, y, inference="residual", n_jobs=1)
        yield "usual", replace(result, residual_values=None, residual_std_error=None).p_value
        yield "residual", result.p_value
        yield "univariate", test_alone(X, y)


def describe(p_value: np.ndarray, roles: tuple[str, ...]) -> dict[str, float]:
    """Power and false discoveries after the correction, and rejections without it."""
    role, found = np.array(roles), stats.false_discovery_control(p_value) <= LEVEL
    noise = p_value[role == NOISE]
    z = stats.norm.isf(noise[noise < 1])
    return {
        "power": found[role == SIGNAL].mean() if SIGNAL in roles else np.nan,
        "false": found[role == NOISE].sum() / max(found.sum(), 1),
        "noise": np.count_nonzero(noise <= LEVEL),
        "n_noise": len(noise),
        "beside": (p_value[role == BESIDE] <= LEVEL).mean() if BESIDE in roles else np.nan,
        "sum_z": z.sum(),
        "sum_z2": (z**2).sum(),
    }


def list_done(results: Path) -> set[tuple[str, str, int]]:
    """Label, design and number of each data set in a file."""
    return {(row.label, row.design, row.dataset) for row in pd.read_csv(results).itertuples()}


def append_lines(results: Path, other: Path, done: set[tuple[str, str, int]]) -> None:
    """Append the lines of another file's data sets that are not done."""
    with other.open(newline="") as file:
        lines = list(csv.DictReader(file))
    lines = [line for line in lines if (line["label"], line["design"], int(line["dataset"])) not in done]
    with results.open("a", newline="") as file:
        csv.DictWriter(file, FIELDS).writerows(lines)


def summarize(results: pd.DataFrame) -> pd.DataFrame:
    """Means over data sets, in percent, with their standard errors over data sets; z_sd is of noise."""
    rows = []
    for (design, label, test), found in results.groupby(["design", "label", "test"], sort=False):
        rate = found["noise"] / found["n_noise"]
        n = len(found)
        row = {"design": design, "label": label, "test": test, "data_sets": n, "noise": 100 * rate.mean()}
        row["noise_se"] = 100 * rate.std(ddof=1) / np.sqrt(n) if n > 1 else np.nan
        mean = found["sum_z"].sum() / found["n_noise"].sum()
        row["z_sd"] = np.sqrt(found["sum_z2"].sum() / found["n_noise"].sum() - mean**2)
        for name in ("power", "false", "beside"):
            row |= {name: 100 * found[name].mean(), f"{name}_se": 100 * found[name].std(ddof=1) / np.sqrt(n)}
        rows.append(row)
    return pd.DataFrame(rows)


def read_boruta(designs: list[str]) -> pd.DataFrame:
    """Boruta's power and false discoveries, in percent, in the designs that are also in the study of selection."""
    table = pd.read_csv(FOLDER / "summary.csv").query("method == 'Boruta'").set_index("design")
    own = 100 * table.reindex([name.removesuffix(", 500 trees") for name in designs])
    return pd.DataFrame(
        {
            "power": own["power"],
            "power_se": own["power, error"],
            "false": own["false discovery"],
            "false_se": own["false discovery, error"],
        }
    )


def draw_summary(summary: pd.DataFrame, path: Path) -> None:
    """Power and false discoveries side by side, by design and test, beside those of Boruta."""
    import matplotlib.pyplot as plt

    shown = summary[(summary["label"] == "after") & summary["power"].notna()]
    designs = list(dict.fromkeys(shown["design"]))
    tables = {test: own.set_index("design").reindex(designs) for test, own in shown.groupby("test")}
    tables["Boruta"] = read_boruta(designs)
    figure, axes = plt.subplots(1, 2, figsize=(9, 0.5 * len(designs) + 1.4), sharey=True, layout="constrained")
    for axis, name, title in zip(axes, ("power", "false"), ("Signals found", "False discoveries"), strict=True):
        for k, test in enumerate(("usual", "residual", "univariate", "Boruta")):
            own = tables[test]
            place = np.arange(len(designs)) + 0.2 * (k - 1.5)
            axis.errorbar(own[name], place, xerr=own[f"{name}_se"], fmt="o", ms=5, capsize=2, label=test)
        axis.set_title(f"{title} (%)", loc="left", fontsize=10)
        axis.grid(axis="x", alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_xlim(0, 102)
    axes[1].axvline(100 * LEVEL, color="gray", lw=1, ls="--")
    axes[1].set_xlim(-0.5, max(table["false"].max() for table in tables.values()) + 5)
    axes[0].set_yticks(range(len(designs)), designs)
    axes[0].invert_yaxis()
    axes[1].legend(frameon=False, fontsize=9, loc="center right", bbox_to_anchor=(1.0, 0.62))
    figure.savefig(path, dpi=110)


def run_one(name: str, seed: int, label: str) -> list[dict[str, object]]:
    """The lines of one data set."""
    design, n_trees = CASES[name]
    key = {"label": label, "design": name, "trees": n_trees, "dataset": seed}
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        return [
            {**key, "test": test, **{part: f"{number:.6g}" for part, number in describe(p, design.roles).items()}}
            for test, p in run_tests(design, n_trees, seed, label)
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0, help="the first data set, to share the work")
    parser.add_argument("--datasets", type=int, default=20, help="the number after the last one")
    parser.add_argument("--designs", default="*", metavar="PATTERN")
    parser.add_argument("--label", choices=("before", "after"), default="after")
    parser.add_argument("--n-jobs", type=int, default=-1, help="processes; all cores by default")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no data set after so long")
    parser.add_argument("--results", type=Path, default=FOLDER / "residual.csv")
    parser.add_argument("--add", type=Path, nargs="*", default=[], metavar="FILE", help="results of other machines")
    parser.add_argument("--only-summary", action="store_true")
    options = parser.parse_args()
    if not options.results.exists():
        options.results.write_text(",".join(FIELDS) + "\n")
    done = list_done(options.results)
    for other in options.add:
        append_lines(options.results, other, done)
        done = list_done(options.results)
    seeds = range(options.first, 0 if options.only_summary else options.datasets)
    named = [name for name in CASES if fnmatchcase(name, options.designs)]
    work = [(name, seed) for seed in seeds for name in named if (options.label, name, seed) not in done]
    end = time.monotonic() + options.seconds
    steps = Parallel(n_jobs=options.n_jobs, return_as="generator_unordered", batch_size=1)(
        delayed(run_one)(name, seed, options.label) for name, seed in takewhile(lambda _: time.monotonic() < end, work)
    )
    for lines in steps:
        with options.results.open("a", newline="") as file:
            csv.DictWriter(file, FIELDS).writerows(lines)
    summary = summarize(pd.read_csv(options.results))
    summary.to_csv(options.results.with_name("residual_summary.csv"), index=False, float_format="%.4g")
    print(summary.to_string(index=False, float_format=lambda number: f"{number:.1f}"))
    if importlib.util.find_spec("matplotlib") is None:
        print("matplotlib is not installed; no plot")
        return
    draw_summary(summary, options.results.with_name("residual.png"))


if __name__ == "__main__":
    main()
