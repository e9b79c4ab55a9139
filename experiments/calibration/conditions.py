"""How do tests behave if assumptions fail? Copied rows, rare classes, early stopping, serial dependence, a search.

Run: python experiments/calibration/conditions.py [--repetitions 100] [--n-jobs N] [--designs PATTERN] [--label LABEL]
    [--seconds S] [--add FILE ...]

No feature carries information in any design. The table, conditions.csv beside this script, has the share of tests that
reject at 5%, for single features that any split uses and for all features together, with standard errors over data
sets; the share of data sets whose p-values are withheld; and the share with each kind of warning. `label` names the
state of the library: "before" and "after" in the committed table, and where p-values are now withheld also "after, 100
rows enough", with the earlier threshold of 100 evaluation rows of a class. A checkpoint keeps one line per data set,
so an interrupted run continues where it stopped, and `--add` appends those of other machines. Rows of the table stay
for designs without any. Remove its lines after a change to the library.
"""

from __future__ import annotations

import argparse
import time
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from checkpoints import read_runs, write_table
from joblib import Parallel, delayed
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import GroupKFold, KFold, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import TargetEncoder
from threadpoolctl import threadpool_limits

import truewood as tw
from truewood._checkpoint import append_to

Floats = np.ndarray
FORESTS = {"classes": RandomForestClassifier, "numbers": RandomForestRegressor}
LABELS = ("before", "after", "after, 100 rows enough")
# Words that distinguish warnings.
WARNINGS = {
    "warned_copies": "copies",
    "warned_synthetic": "SMOTE",
    "warned_order": "neighboring",
    "warned_class": "class",
    "warned_early": "early",
}


def draw(rng: np.random.Generator, n_rows: int, task: str, share: float = 0.5) -> tuple[Floats, Floats]:
    """Six continuous, two binary and two 20-level features, and a target that depends on none of them."""
    X = rng.standard_normal((n_rows, 10))
    X[:, 6:8], X[:, 8:] = X[:, 6:8] > 0, rng.integers(0, 20, (n_rows, 2))
    return X, rng.standard_normal(n_rows) if task == "numbers" else (rng.random(n_rows) < share).astype(int)


def make_forest(task: str, seed: int, **options: Any) -> Any:
    """A forest of 100 trees."""
    return FORESTS[task](random_state=seed, **options)


def score_copies(rng: np.random.Generator, seed: int, task: str, share: float, n_rows: int = 300) -> Any:
    """Some rows are copies of others."""
    n_copies = round(share * n_rows)
    X, y = draw(rng, n_rows - n_copies, task)
    rows = np.append(np.arange(len(y)), rng.choice(len(y), n_copies))
    return tw.importance(make_forest(task, seed).fit(X[rows], y[rows]), X[rows], y[rows])


def score_oversampled(rng: np.random.Generator, seed: int, share: float) -> Any:
    """The rare class of 400 rows is drawn again, with replacement, until both classes have the same size."""
    X, y = draw(rng, 400, "classes", share)
    rare = np.flatnonzero(y == 1)
    rows = np.append(np.arange(len(y)), rng.choice(rare, len(y) - 2 * len(rare)))
    return tw.importance(make_forest("classes", seed).fit(X[rows], y[rows]), X[rows], y[rows])


def score_smote(rng: np.random.Generator, seed: int) -> Any:
    """The rare class of 400 rows is filled up with synthetic rows."""
    from imblearn.over_sampling import SMOTE

    X, y = draw(rng, 400, "classes", 0.15)
    X, y = SMOTE(random_state=seed).fit_resample(X[:, :6], y)
    return tw.importance(make_forest("classes", seed).fit(X, y), X, y)


def score_copies_in_folds(rng: np.random.Generator, seed: int, task: str, share: float) -> Any:
    """Copies, scored by cross-validation."""
    n_copies = round(share * 300)
    X, y = draw(rng, 300 - n_copies, task)
    rows = np.append(np.arange(len(y)), rng.choice(len(y), n_copies))
    rows = rng.permutation(rows)
    return tw.cross_importance(make_forest(task, seed, n_estimators=50), X[rows], y[rows], cv=5, progress=False)


def score_categories(rng: np.random.Generator, seed: int) -> Any:
    """Rows of five columns with three levels each, which repeat by chance."""
    X = rng.integers(0, 3, (300, 5)).astype(float)
    y = rng.integers(0, 2, 300)
    return tw.importance(make_forest("classes", seed).fit(X, y), X, y)


def score_balanced(
    rng: np.random.Generator, seed: int, n_oob: float, n_rows: int, n_rare: int, n_trees: int = 100
) -> Any:
    """Bags drawn by balanced class weights, of a size that leaves out this many rows of the rare class per tree."""
    X, _ = draw(rng, n_rows, "classes")
    y = rng.permutation(np.arange(n_rows) < n_rare).astype(int)
    # A row of the rare class is left out by one draw with probability 1 - 1 / (2 n_rare).
    n_draws = n_rows
    if n_oob > 0:
        n_draws = min(n_rows, max(1, round(np.log(n_oob / n_rare) / np.log1p(-0.5 / n_rare))))
    forest = make_forest("classes", seed, n_estimators=n_trees, class_weight="balanced", max_samples=n_draws)
    return tw.importance(forest.fit(X, y), X, y)


def score_heavy(rng: np.random.Generator, seed: int, task: str, heavy: float | str, rows: str = "auto") -> Any:
    """Useless columns next to a strong one; five of 300 rows weigh `heavy` times as much, or weights are log-normal."""
    X = rng.standard_normal((600, 8))
    mean = 2 * X[:, 0] + rng.standard_normal(600)
    y = mean if task == "numbers" else (mean > 0).astype(int)
    weight = np.exp(1.8 * rng.standard_normal(300)) if heavy == "log-normal" else np.where(np.arange(300) < 5, heavy, 1)
    if rows == "heldout":
        model = make_forest(task, seed).fit(X[300:], y[300:])
    else:
        model = make_forest(task, seed).fit(X[:300], y[:300], sample_weight=weight)
    return tw.importance(model, X[:300], y[:300], rows=rows, sample_weight=weight), 1


def score_stopped(rng: np.random.Generator, seed: int, library: str, is_separate: bool) -> Any:
    """Boosting stopped early on the rows that evaluate it, or on rows of their own."""
    X, y = draw(rng, 900, "numbers")
    watched = slice(600, 900) if is_separate else slice(300, 600)
    if library == "LightGBM":
        import lightgbm

        model = lightgbm.LGBMRegressor(n_estimators=100, verbose=-1, n_jobs=1, random_state=seed)
        stop = [lightgbm.early_stopping(10, verbose=False)]
        model.fit(X[:300], y[:300], eval_set=[(X[watched], y[watched])], callbacks=stop)
    else:
        from catboost import CatBoostRegressor

        model = CatBoostRegressor(
            iterations=100, early_stopping_rounds=10, thread_count=1, verbose=False, allow_writing_files=False
        )
        model.fit(X[:300], y[:300], eval_set=(X[watched], y[watched]))
    return tw.importance(model, X[300:600], y[300:600], rows="heldout")


def draw_series(rng: np.random.Generator, n_rows: int, phi: float) -> tuple[Floats, Floats]:
    """Five features and a target, each an autoregressive series of its own."""
    from scipy.signal import lfilter

    noise = np.sqrt(1 - phi**2) * rng.standard_normal((n_rows + 200, 6))
    series = lfilter([1.0], [1.0, -phi], noise, axis=0)[200:]
    return series[:, :5], series[:, 5]


def score_series(rng: np.random.Generator, seed: int, phi: float, how: str, block: int = 0) -> Any:
    """Rows in time order: out of bag, or by folds of later rows, of blocks of rows, or of stretches of blocks."""
    X, y = draw_series(rng, 1000, phi)
    forest = make_forest("numbers", seed, n_estimators=50, min_samples_leaf=5)
    if how == "oob":
        return tw.importance(forest.fit(X, y), X, y)
    options: dict[str, Any] = {"cv": TimeSeriesSplit(5)}
    if how != "time":
        options = {"groups": np.arange(len(y)) // block, "cv": GroupKFold(5) if how == "blocks" else KFold(5)}
    return tw.cross_importance(forest, X, y, progress=False, **options)


def score_ordered(rng: np.random.Generator, seed: int, task: str, order: str, is_signal: bool) -> Any:
    """Independent rows, in random order or sorted by the target, with or without signal in other features."""
    X, y = draw(rng, 500, task)
    if is_signal:
        y = X[:, 0] + X[:, 1] + rng.standard_normal(500)
        y = (y > 0).astype(int) if task == "classes" else y
    rows = np.argsort(y) if order == "sorted" else np.arange(500)
    result = tw.importance(make_forest(task, seed).fit(X[rows], y[rows]), X[rows], y[rows])
    return (result, 2) if is_signal else result


def score_encoded(rng: np.random.Generator, seed: int, how: str) -> Any:
    """A useless column of 50 categories, encoded by the target, beside five numbers; only the first is tested."""
    X, y = rng.standard_normal((500, 6)), rng.standard_normal(500)
    levels, encoder = rng.integers(0, 50, (500, 1)), TargetEncoder(target_type="continuous", random_state=seed)
    if how == "folds":
        X[:, 5] = levels[:, 0]
        pipeline = make_pipeline(ColumnTransformer([("encode", encoder, [5])], remainder="passthrough"))
        pipeline.steps.append(("forest", make_forest("numbers", seed, n_estimators=50)))
        return tw.cross_importance(pipeline, X, y, cv=5, progress=False), 5
    crossed = how == "cross-fitted"
    X[:, 5:] = encoder.fit_transform(levels, y) if crossed else encoder.fit(levels, y).transform(levels)
    return tw.importance(make_forest("numbers", seed).fit(X, y), X, y), 5


def score_two_features(rng: np.random.Generator, seed: int) -> Any:
    """Two continuous features and 3,000 rows, regression."""
    X, y = rng.standard_normal((3000, 2)), rng.standard_normal(3000)
    return tw.importance(make_forest("numbers", seed, n_estimators=50).fit(X, y), X, y)


def score_pca(rng: np.random.Generator, seed: int) -> Any:
    """A forest on five principal components of ten features."""
    X = rng.standard_normal((300, 10)) @ rng.standard_normal((10, 10))
    y = rng.integers(0, 2, 300)
    pipeline = make_pipeline(PCA(5), make_forest("classes", seed)).fit(X, y)
    return tw.importance(pipeline, X, y)


def score_best(rng: np.random.Generator, seed: int) -> Any:
    """The best of 20 forests of 50 trees by their out-of-bag accuracy."""
    X, y = draw(rng, 300, "classes")
    sizes = [{"min_samples_leaf": leaf, "max_features": some} for leaf in (1, 2, 5, 10, 20) for some in (1, 3, 5, 10)]
    forests = [make_forest("classes", seed, n_estimators=50, oob_score=True, **size).fit(X, y) for size in sizes]
    return tw.importance(max(forests, key=lambda forest: forest.oob_score_), X, y)


DESIGNS: dict[str, Callable[[np.random.Generator, int], Any]] = {
    **{
        f"copies, {share:.0%} of 300 rows, {task}": partial(score_copies, task=task, share=share)
        for share in (0.02, 0.05, 0.5)
        for task in FORESTS
    },
    "copies, 5% of 300 rows, folds": partial(score_copies_in_folds, task="numbers", share=0.05),
    "copies, rare class of 30% oversampled": partial(score_oversampled, share=0.3),
    "copies, rare class of 10% oversampled": partial(score_oversampled, share=0.1),
    "copies, SMOTE": score_smote,
    "no copies, categories": score_categories,
    **{
        f"balanced, {n_rare} of {n_rows} rows rare, {n_oob:g} out of bag": partial(
            score_balanced, n_oob=n_oob, n_rows=n_rows, n_rare=n_rare
        )
        for n_rows, n_rare in ((300, 21), (1000, 70))
        for n_oob in (0, 0.1, 0.5, 1, 2, 3, 5, 10)
    },
    **{
        f"balanced, 21 of 300 rows rare, {n_oob:g} out of bag, {n_trees} trees": partial(
            score_balanced, n_oob=n_oob, n_rows=300, n_rare=21, n_trees=n_trees
        )
        for n_oob, n_trees in ((1, 20), (2, 20), (0.1, 500), (0.5, 500))
    },
    **{
        f"heavy rows, {heavy}, numbers": partial(score_heavy, task="numbers", heavy=heavy)
        for heavy in (10, 20, 30, 50, "log-normal")
    },
    "heavy rows, 50, classes": partial(score_heavy, task="classes", heavy=50),
    "heavy rows, 50, numbers, held-out rows": partial(score_heavy, task="numbers", heavy=50, rows="heldout"),
    **{
        f"early stopping, {library}, {where}": partial(
            score_stopped, library=library, is_separate=where == "other rows"
        )
        for library in ("LightGBM", "CatBoost")
        for where in ("scoring rows", "other rows")
    },
    **{
        f"series, {phi:g}, {name}": partial(score_series, phi=phi, how=how, block=block)
        for phi in (0.5, 0.9)
        for name, how, block in (
            ("out of bag", "oob", 0),
            ("TimeSeriesSplit", "time", 0),
            ("blocks of 10", "blocks", 10),
            ("blocks of 20", "blocks", 20),
            ("blocks of 50", "blocks", 50),
            ("blocks of 20 in five stretches", "stretches", 20),
            ("blocks of 50 in five stretches", "stretches", 50),
        )
    },
    **{
        f"independent rows, {task}, {order}{', signal' * is_signal}": partial(
            score_ordered, task=task, order=order, is_signal=is_signal
        )
        for task in FORESTS
        for order in ("random order", "sorted")
        for is_signal in (False, True)
    },
    "target encoding outside of the model": partial(score_encoded, how="naive"),
    "target encoding outside of the model, cross-fitted": partial(score_encoded, how="cross-fitted"),
    "target encoding in a pipeline, folds": partial(score_encoded, how="folds"),
    "settled, two features, 3000 rows, regression": score_two_features,
    "settled, PCA pipeline": score_pca,
    "settled, best of 20 forests": score_best,
}


def run_one(label: str, design: str, number: int) -> dict[str, Any]:
    """P-values of one data set, and which warnings there were."""
    rng = np.random.default_rng([number, zlib.crc32(design.encode())])
    with warnings.catch_warnings(record=True) as caught, threadpool_limits(1):
        warnings.simplefilter("always")
        found = DESIGNS[design](rng, number)
    result, n_signal = found if isinstance(found, tuple) else (found, 0)
    texts = [str(warning.message) for warning in caught] + list(result.notes)
    entry: dict[str, Any] = {"label": label, "design": design, "number": number, "p_value": [], "total": None}
    if result.inference_unavailable is None:
        is_used = (result.null_std_error > 0) & (np.arange(len(result.values)) >= n_signal)
        entry["p_value"] = [float(f"{p:.4g}") for p in result.p_value[is_used]]
        entry["total"] = float(f"{result.total_p_value:.4g}")
    return entry | {name: any(word in text for text in texts) for name, word in WARNINGS.items()}


@dataclass(frozen=True)
class Rate:
    """A share of rejections with its standard error over data sets."""

    mean: float
    error: float

    @classmethod
    def of(cls, shares: list[float]) -> Rate:
        """Mean of the shares of all data sets."""
        if not shares:
            return cls(np.nan, np.nan)
        return cls(float(np.mean(shares)), float(np.std(shares) / np.sqrt(len(shares))))


def tabulate(entries: list[dict[str, Any]]) -> pd.DataFrame:
    """Share of tests that reject at 5%, by design and state of the library."""
    lines, order = [], list(DESIGNS)
    table = pd.DataFrame(entries)
    for (design, label), found in table.groupby(["design", "label"], sort=False):
        tested = found[found["total"].notna()]
        single = Rate.of([float(np.mean(np.array(p) <= 0.05)) for p in tested["p_value"] if len(p)])
        total = Rate.of([float(p <= 0.05) for p in tested["total"]])
        lines.append(
            {
                "design": design,
                "library": label,
                "data_sets": len(found),
                "rejected_5": single.mean,
                "error": single.error,
                "rejected_total_5": total.mean,
                "error_total": total.error,
                "withheld": 1.0 - len(tested) / len(found),
                **{name: found[name].mean() for name in WARNINGS},
            }
        )
    lines.sort(key=lambda line: (order.index(line["design"]), line["library"] != "before"))
    return pd.DataFrame(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=100, help="data sets per design")
    parser.add_argument("--n-jobs", type=int, default=-1, help="processes; all cores by default")
    parser.add_argument("--designs", default="*", metavar="PATTERN", help="only these, such as 'copies*|series*'")
    parser.add_argument("--label", default="after", choices=LABELS, help="name of the state of the library")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no data set after so long")
    parser.add_argument("--add", type=Path, nargs="*", default=[], metavar="FILE", help="checkpoints of other machines")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_suffix(".csv"))
    options = parser.parse_args()
    end, checkpoint, keys = (
        time.monotonic() + options.seconds,
        options.output.with_suffix(".jsonl"),
        ("label", "design", "number"),
    )
    done = [entry for entry in read_runs(checkpoint, options.add, keys) if entry["design"] in DESIGNS]
    is_done = {tuple(entry[key] for key in keys) for entry in done}
    patterns = options.designs.split("|")
    chosen = [design for design in DESIGNS if any(fnmatchcase(design, pattern) for pattern in patterns)]
    work = [(options.label, design, number) for number in range(options.repetitions) for design in chosen]
    missing = takewhile(lambda _: time.monotonic() < end, (step for step in work if step not in is_done))
    steps = Parallel(n_jobs=options.n_jobs, return_as="generator")(delayed(run_one)(*step) for step in missing)
    with append_to(checkpoint) as append:
        for entry in steps:
            append(entry)
            done.append(entry)
    table = tabulate(done)
    known = [(design, label) for design in DESIGNS for label in LABELS]
    write_table(table, options.output, ("design", "library"), known)
    print(table.to_string(index=False, float_format=lambda number: f"{number:.3g}"))


if __name__ == "__main__":
    main()
