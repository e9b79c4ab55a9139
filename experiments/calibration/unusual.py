"""Do tests hold in designs that are unlike those of the other studies? Each was chosen because it may break them.

Run: python experiments/calibration/unusual.py [--first 0] [--repetitions 100] [--n-jobs N] [--designs PATTERN]
    [--seconds S]

Every data set has useless columns, most beside columns with signal. The table, unusual.csv beside this script, has the
share of useless columns that the usual and the residual test reject at 5% and 1%, with the standard error over data
sets of the former; z_sd is the standard deviation of their z-scores. In designs without signal it also has the rates
of `total_p_value`. Columns that no split uses are not rejected. A checkpoint keeps one line per data set, so an
interrupted run continues where it stopped. Remove its lines after a change to the library.
"""

from __future__ import annotations

import argparse
import time
import warnings
import zlib
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from checkpoints import read_runs, write_table
from conditions import Rate
from joblib import Parallel, delayed
from peers import drop_residual_test
from scipy.special import expit
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from summaries import find_p
from threadpoolctl import threadpool_limits

import truewood as tw
from truewood._checkpoint import append_to

Floats = np.ndarray
Generator = np.random.Generator
Scored = tuple[tw.ImportanceResult, slice]  # result, and which columns are useless
FORESTS = {"classes": RandomForestClassifier, "numbers": RandomForestRegressor}
EXTRA_TREES = {"classes": ExtraTreesClassifier, "numbers": ExtraTreesRegressor}
BAGGING = {"classes": BaggingClassifier, "numbers": BaggingRegressor}
HIST = {"classes": HistGradientBoostingClassifier, "numbers": HistGradientBoostingRegressor}
TESTS = ("usual", "residual", "total_p_value")
LEVELS = (0.05, 0.01)


def draw_target(rng: Generator, mean: Floats, task: str) -> Floats:
    """Numbers with this mean, or one of two classes with these log-odds."""
    if task == "numbers":
        return mean + rng.standard_normal(len(mean))
    return (rng.random(len(mean)) < expit(2 * mean)).astype(int)


def score(models: dict[str, Any], task: str, X: Any, y: Floats, seed: int, **options: Any) -> tw.ImportanceResult:
    """Fit a model to all rows, and evaluate its trees out of bag by the residual test."""
    return tw.importance(models[task](random_state=seed, **options).fit(X, y), X, y, inference="residual")


def score_tails(rng: Generator, seed: int) -> Scored:
    """Columns with Cauchy tails, the first of which determines a rounded target."""
    X = rng.standard_cauchy((300, 8))
    y = np.round(np.sign(X[:, 0]) * np.log1p(np.abs(X[:, 0])) + 0.7 * rng.standard_normal(300))
    return score(FORESTS, "numbers", X, y, seed), slice(1, None)


def score_skewed(rng: Generator, seed: int, task: str) -> Scored:
    """Log-normal columns with very long tails, the first of which determines the target, also long-tailed."""
    Z = rng.standard_normal((300, 8))
    y = draw_target(rng, Z[:, 0], task)
    y = np.exp(1.5 * y) if task == "numbers" else y
    return score(FORESTS, task, np.exp(4 * Z), y, seed), slice(1, None)


def score_counts(rng: Generator, seed: int, criterion: str) -> Scored:
    """Counts of which 85% are zero, and columns that are also mostly zero, one of which moves the counts."""
    X = np.where(rng.random((400, 8)) < 0.6, 0.0, rng.exponential(size=(400, 8)))
    rate = rng.gamma(0.5, 4.0, 400) * np.exp(0.8 * X[:, 0])
    y = np.where(rng.random(400) < 0.8, 0, rng.poisson(rate)).astype(float)
    return score(FORESTS, "numbers", X, y, seed, criterion=criterion), slice(1, None)


def score_ordinal(rng: Generator, seed: int, task: str) -> Scored:
    """Five ordered answers, explained by one of eight five-level columns; the others are correlated by 0.6."""
    latent = np.sqrt(0.4) * rng.standard_normal((300, 8)) + np.sqrt(0.6) * rng.standard_normal((300, 1))
    latent[:, 0] = rng.standard_normal(300)
    cuts = (-1.2, -0.4, 0.4, 1.2)
    y = np.digitize(latent[:, 0] + rng.standard_normal(300), cuts)
    y = y.astype(float) if task == "numbers" else y
    return score(FORESTS, task, np.digitize(latent, cuts).astype(float), y, seed), slice(1, None)


def score_leverage(rng: Generator, seed: int) -> Scored:
    """One of 300 rows is 30 standard deviations away in every column and in the target."""
    X = rng.standard_normal((300, 8))
    y = X[:, 0] + rng.standard_normal(300)
    X[0], y[0] = 30.0, 30.0
    return score(FORESTS, "numbers", X, y, seed), slice(1, None)


def score_zeros(rng: Generator, seed: int, task: str) -> Scored:
    """Columns are all nonzero in the same fifth of the rows; only the first of them moves the target."""
    X = rng.standard_normal((500, 8)) * (rng.random((500, 1)) < 0.2)
    return score(FORESTS, task, X, draw_target(rng, 3 * X[:, 0], task), seed), slice(1, None)


def score_product(rng: Generator, seed: int, task: str) -> Scored:
    """The product of two columns determines the target; the others are correlated by 0.8 with each other."""
    X = np.sqrt(0.2) * rng.standard_normal((400, 8)) + np.sqrt(0.8) * rng.standard_normal((400, 1))
    X[:, :2] = rng.standard_normal((400, 2))
    return score(FORESTS, task, X, draw_target(rng, 1.5 * X[:, 0] * X[:, 1], task), seed), slice(2, None)


def score_factors(rng: Generator, seed: int, task: str) -> Scored:
    """The product of two columns determines the target; the others are correlated by 0.8 with the first factor."""
    X = rng.standard_normal((400, 8))
    X[:, 2:] = 0.8 * X[:, :1] + 0.6 * X[:, 2:]
    return score(FORESTS, task, X, draw_target(rng, 1.5 * X[:, 0] * X[:, 1], task), seed), slice(2, None)


def score_rare(rng: Generator, seed: int, n_draws: int, weight: str | None = None) -> Scored:
    """A class of 2% of 1,000 rows, and small bags."""
    X = rng.standard_normal((1000, 8))
    y = (rng.random(1000) < expit(X[:, 0] - 4.4)).astype(int)
    y[:5] = 1
    return score(FORESTS, "classes", X, y, seed, max_samples=n_draws, class_weight=weight), slice(1, None)


def score_few_heldout(rng: Generator, seed: int, task: str, n_new: int) -> Scored:
    """Boosting on 500 rows, evaluated on few others."""
    X = rng.standard_normal((500 + n_new, 8))
    y = draw_target(rng, 2 * X[:, 0], task)
    model = HIST[task](random_state=seed, max_iter=50).fit(X[:500], y[:500])
    return tw.importance(model, X[500:], y[500:], rows="heldout", inference="residual"), slice(1, None)


def score_levels(rng: Generator, seed: int, task: str) -> Scored:
    """Boosting with useless categories of 100 levels next to a strong column."""
    X = pd.DataFrame(rng.standard_normal((800, 4)), columns=list("abcd"))
    for name in "efgh":
        X[name] = pd.Categorical(rng.integers(0, 100, 800))
    y = draw_target(rng, 2 * X["a"].to_numpy(), task)
    model = HIST[task](random_state=seed, max_iter=50, categorical_features="from_dtype").fit(X[:500], y[:500])
    return tw.importance(model, X[500:], y[500:], rows="heldout", inference="residual"), slice(1, None)


def score_elsewhere(rng: Generator, seed: int, task: str) -> Scored:
    """A forest evaluated on rows whose columns are shifted and spread out."""
    X = rng.standard_normal((600, 8))
    X[300:] = 1.0 + 2.0 * X[300:]
    y = draw_target(rng, 2 * np.sin(2 * X[:, 0]), task)
    model = FORESTS[task](random_state=seed).fit(X[:300], y[:300])
    return tw.importance(model, X[300:], y[300:], rows="heldout", inference="residual"), slice(1, None)


def score_random_trees(rng: Generator, seed: int, task: str) -> Scored:
    """Extra-trees that try one random column and one random threshold at each split."""
    X = rng.standard_normal((300, 8))
    y = draw_target(rng, 2 * X[:, 0], task)
    return score(EXTRA_TREES, task, X, y, seed, bootstrap=True, max_features=1), slice(1, None)


def score_bagging(rng: Generator, seed: int, task: str) -> Scored:
    """Trees on 95% of the rows, drawn without replacement."""
    X = rng.standard_normal((300, 8))
    y = draw_target(rng, 2 * X[:, 0], task)
    options = {"n_estimators": 100, "max_samples": 0.95, "bootstrap": False}
    return score(BAGGING, task, X, y, seed, **options), slice(1, None)


def score_step(rng: Generator, seed: int, task: str) -> Scored:
    """A target without noise: the sign of one column."""
    X = rng.standard_normal((300, 8))
    y = (X[:, 0] > 0).astype(int if task == "classes" else float)
    return score(FORESTS, task, X, y, seed, max_features=1), slice(1, None)


def score_repeated(rng: Generator, seed: int, task: str) -> Scored:
    """Ten identical useless columns next to a strong one."""
    X = np.repeat(rng.standard_normal((300, 2)), (1, 10), axis=1)
    return score(FORESTS, task, X, draw_target(rng, 2 * X[:, 0], task), seed), slice(1, None)


def score_missing(rng: Generator, seed: int, task: str) -> Scored:
    """Half of the values of the useless columns are missing, in the same rows."""
    X = rng.standard_normal((300, 8))
    y = draw_target(rng, 2 * X[:, 0], task)
    X[rng.random(300) < 0.5, 1:] = np.nan
    return score(FORESTS, task, X, y, seed), slice(1, None)


def score_outputs(rng: Generator, seed: int) -> Scored:
    """Two targets: one explained by a column, the other with Cauchy tails."""
    X = rng.standard_normal((300, 8))
    y = np.column_stack([2 * X[:, 0] + rng.standard_normal(300), rng.standard_cauchy(300)])
    return score(FORESTS, "numbers", X, y, seed), slice(1, None)


def score_few_rows(rng: Generator, seed: int, task: str) -> Scored:
    """25 rows."""
    X = rng.standard_normal((25, 8))
    y = rng.standard_normal(25) if task == "numbers" else rng.permutation(np.arange(25) % 2)
    return score(FORESTS, task, X, y, seed), slice(None)


def score_many_classes(rng: Generator, seed: int) -> Scored:
    """100 classes and 500 rows."""
    X, y = rng.standard_normal((500, 8)), rng.permutation(np.arange(500) % 100)
    return score(FORESTS, "classes", X, y, seed), slice(None)


def score_small_trees(rng: Generator, seed: int, task: str) -> Scored:
    """Trees of five leaves, next to two strong columns."""
    X = rng.standard_normal((300, 8))
    y = draw_target(rng, 2 * X[:, 0] + X[:, 1], task)
    return score(FORESTS, task, X, y, seed, max_leaf_nodes=5), slice(2, None)


BY_TASK: dict[str, Callable[..., Scored]] = {
    "log-normal columns and target": score_skewed,
    "ordinal target, five-level columns": score_ordinal,
    "columns nonzero in the same rows": score_zeros,
    "product of two columns, correlated noise": score_product,
    "product of two columns, followers of a factor": score_factors,
    "hist boosting, 25 held-out rows": partial(score_few_heldout, n_new=25),
    "hist boosting, 50 held-out rows": partial(score_few_heldout, n_new=50),
    "hist boosting, 100 held-out rows": partial(score_few_heldout, n_new=100),
    "hist boosting, 200 held-out rows": partial(score_few_heldout, n_new=200),
    "hist boosting, 100 levels": score_levels,
    "evaluation rows from elsewhere": score_elsewhere,
    "extra trees, one random split": score_random_trees,
    "bagging without replacement": score_bagging,
    "target without noise": score_step,
    "ten identical columns": score_repeated,
    "half of the values missing": score_missing,
    "25 rows": score_few_rows,
    "trees of five leaves": score_small_trees,
}
OF_ONE_TASK: dict[str, Callable[[Generator, int], Scored]] = {
    "Cauchy columns, tied target": score_tails,
    "zero-inflated counts": partial(score_counts, criterion="squared_error"),
    "zero-inflated counts, Poisson criterion": partial(score_counts, criterion="poisson"),
    "one leverage row": score_leverage,
    "two targets, one Cauchy": score_outputs,
    "100 classes": score_many_classes,
    "a class of 2%, bags of 50 rows": partial(score_rare, n_draws=50),
    "a class of 2%, bags of 200 rows": partial(score_rare, n_draws=200),
    "a class of 2%, balanced bags of 50 rows": partial(score_rare, n_draws=50, weight="balanced_subsample"),
}
DESIGNS: dict[str, Callable[[Generator, int], Scored]] = {
    **OF_ONE_TASK,
    **{f"{name}, {task}": partial(own, task=task) for name, own in BY_TASK.items() for task in FORESTS},
}


def run_one(design: str, number: int) -> dict[str, Any]:
    """Z-scores of the useless columns of one data set by test; none if p-values are withheld."""
    rng = np.random.default_rng([number, zlib.crc32(design.encode())])
    entry: dict[str, Any] = {"design": design, "number": number}
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        result, useless = DESIGNS[design](rng, number)
    if result.inference_unavailable is not None:
        return entry | {"withheld": result.inference_unavailable}
    entry["usual"] = drop_residual_test(result).z_score[useless].tolist()
    if result.residual_values is not None:
        entry["residual"] = result.z_score[useless].tolist()
    if useless == slice(None):
        entry["total_p_value"] = [float(result.values.sum() / result.total_error)]
    return entry


def tabulate(entries: list[dict[str, Any]]) -> pd.DataFrame:
    """Share of tests that reject, by design and test."""
    lines = []
    for design in DESIGNS:
        found = [entry for entry in entries if entry["design"] == design]
        for test in TESTS:
            z = [np.array(entry[test]) for entry in found if test in entry]
            if not z:
                continue
            rates = [Rate.of([float((find_p(own) <= level).mean()) for own in z]) for level in LEVELS]
            line = {"design": design, "test": test, "data_sets": len(z), "withheld": 1.0 - len(z) / len(found)}
            line |= {"rejected_5": rates[0].mean, "error": rates[0].error, "rejected_1": rates[1].mean}
            used = np.concatenate(z)
            lines.append(line | {"z_sd": used[used != 0].std()})
    return pd.DataFrame(lines)


def write_markdown(table: pd.DataFrame) -> str:
    """The table of README.md beside this script: a row per design, and columns by task and test."""
    cells = {
        (row.design, row.test): f"{100 * row.rejected_5:.1f} ± {100 * row.error:.1f}%"
        for row in table.itertuples(index=False)
    }
    lines = ["| design | classification, usual | residual | regression, usual | residual |", "|---|---|---|---|---|"]
    for name in BY_TASK:
        rates = [cells[f"{name}, {task}", test] for task in FORESTS for test in TESTS[:2]]
        lines.append(f"| {name} | {' | '.join(rates)} |")
    for name in OF_ONE_TASK:
        usual, residual = (cells[name, test] for test in TESTS[:2])
        has_classes = "class" in name
        lines.append(f"| {name} | {f'{usual} | {residual} | |' if has_classes else f'| | {usual} | {residual}'} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=100, help="data sets per design")
    parser.add_argument("--first", type=int, default=0, help="number of the first data set")
    parser.add_argument("--n-jobs", type=int, default=-1, help="processes; all cores by default")
    parser.add_argument("--designs", default="*", metavar="PATTERN", help="only these, such as '25 rows*|100 classes'")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no data set after so long")
    options = parser.parse_args()
    path, keys = Path(__file__).with_suffix(".csv"), ("design", "number")
    end, checkpoint = time.monotonic() + options.seconds, path.with_suffix(".jsonl")
    done = [entry for entry in read_runs(checkpoint, [], keys) if entry["design"] in DESIGNS]
    is_done = {tuple(entry[key] for key in keys) for entry in done}
    patterns = options.designs.split("|")
    chosen = [design for design in DESIGNS if any(fnmatchcase(design, pattern) for pattern in patterns)]
    work = [(design, number) for number in range(options.first, options.repetitions) for design in chosen]
    missing = takewhile(lambda _: time.monotonic() < end, (step for step in work if step not in is_done))
    steps = Parallel(n_jobs=options.n_jobs, return_as="generator")(delayed(run_one)(*step) for step in missing)
    with append_to(checkpoint) as append:
        for entry in steps:
            append(entry)
            done.append(entry)
    table = tabulate(done)
    write_table(table, path, keys[:1], [(design,) for design in DESIGNS])
    print(table.to_string(index=False, float_format=lambda number: f"{number:.3g}"))


if __name__ == "__main__":
    main()
