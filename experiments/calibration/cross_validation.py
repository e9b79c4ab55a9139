"""Are the p-values and intervals of `cross_importance` correct, and what do they gain over a single split?

Run: python experiments/calibration/cross_validation.py [--repetitions 100] [--n-jobs N] [--designs PATTERN]
    [--seconds S] [--add FILE ...]

Boosted models of three libraries are fit to five folds, and also to three quarters of the same rows, evaluated on the
last quarter. It writes cross_validation.csv beside this script, a line for each design, model and kind of
feature, and a checkpoint from which a stopped run resumes and to which `--add` appends those of other machines; remove
the checkpoint after a change to the library. Libraries that are not installed are left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
import warnings
import zlib
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from checkpoints import read_runs, write_table
from design import HIST, Design, draw
from joblib import Parallel, delayed
from peers import drop_residual_test
from scipy.stats import norm
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    ShuffleSplit,
    StratifiedKFold,
    StratifiedShuffleSplit,
)
from threadpoolctl import threadpool_limits

import truewood as tw
from truewood._checkpoint import append_to
from truewood._progress import show_progress

REG: dict[str, Any] = {"task": "regression"}
STRONG: dict[str, Any] = {"signal": (("continuous", 2.0),)}
ONE: dict[str, Any] = {"per_kind": 1}
# Model and settings by library; the variance of pairs matters most for stumps.
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "HistGradientBoosting": (HIST, {"max_iter": 40}),
    "LightGBM": ("lightgbm.LGBM", {"n_estimators": 40, "n_jobs": 1, "verbose": -1}),
    "XGBoost": ("xgboost.XGB", {"n_estimators": 40, "n_jobs": 1, "verbosity": 0}),
}
DESIGNS = {
    "null: 100 rows": Design(n_rows=100, **ONE),
    "null: 100 rows, regression, beside a strong feature": Design(n_rows=100, **ONE, **STRONG, **REG),
    "null: 300 rows, regression": Design(n_rows=300, **ONE, **REG),
    "null: noise moved by the features": Design(n_rows=300, moved_noise=0.8, **ONE, **STRONG, **REG),
    "null: rare feature and 50 levels": Design(
        n_rows=600, kinds=("continuous", "sparse binary", "50 levels"), **ONE, **STRONG, **REG
    ),
    "null: correlated features": Design(n_rows=300, correlation=0.9, **ONE, **STRONG, **REG),
    "null: one class in ten": Design(n_rows=400, classes=(0.9, 0.1), **ONE, signal=(("continuous", 0.5),)),
    "null: stumps": Design(n_rows=300, options={"max_depth": 1}, **ONE, **REG),
    "null: groups of 10 rows": Design(n_rows=1000, **ONE, **REG),
    "null: 2,000 rows, regression": Design(n_rows=2000, most=40, **ONE, **STRONG, **REG),
    **{
        f"power: {kind}": Design(n_rows=300, signal=((kind, 0.2),), **ONE, **REG)
        for kind in ("continuous", "binary", "20 levels")
    },
    "null: three classes, beside a strong feature": Design(n_rows=300, classes=(0.5, 0.3, 0.2), **ONE, **STRONG),
    "null: five strong features": Design(n_rows=300, per_kind=2, signal=(("continuous", 1.0),) * 5, **REG),
    **{
        f"power: continuous, beside a strong feature{task}": Design(
            n_rows=300, signal=(("continuous", 0.3), ("continuous", 2.0)), **ONE, **settings
        )
        for task, settings in {"": {}, ", three classes": {"classes": (0.5, 0.3, 0.2)}, ", regression": REG}.items()
    },
}
# Rows of a group that share their features, and a part of the noise.
GROUP_SIZES = {"null: groups of 10 rows": 10}
Entry = dict[str, Any]


def run_one(name: str, library: str, number: int) -> Entry:
    """Scores, errors and p-values of a data set by folds, and p-values by a split."""
    design, (model, options) = DESIGNS[name], MODELS[library]
    design = Design(**(vars(design) | {"model": model, "options": options | design.options}))
    rng = np.random.default_rng([number, zlib.crc32(name.encode())])
    X, y = draw(design, rng, design.n_rows)
    groups, splitters = None, (KFold, ShuffleSplit)
    if design.task == "classification":
        splitters = (StratifiedKFold, StratifiedShuffleSplit)
    if name in GROUP_SIZES:
        groups, splitters = np.arange(len(y)) // GROUP_SIZES[name], (GroupKFold, GroupShuffleSplit)
        X, y = X[groups], y + rng.standard_normal(len(y))[groups]
    estimator = design.make_model(number)
    folds = splitters[0](5, shuffle=True, random_state=number)
    training, test = next(splitters[1](1, test_size=0.25, random_state=number).split(X, y, groups))
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        result = tw.cross_importance(estimator, X, y, cv=folds, groups=groups, inference="residual")
        split = tw.importance(
            estimator.fit(X[training], y[training]),
            X[test],
            y[test],
            rows="heldout",
            groups=None if groups is None else groups[test],
        )
    low, high = result.interval()
    found = {"value": result.values, "null_std_error": result.null_std_error, "std_error": result.std_error}
    found |= {"low": low, "high": high, "p_value": drop_residual_test(result).p_value, "split": split.p_value}
    found |= {"residual": result.p_value}
    listed = {part: [float(f"{number:.6g}") for number in numbers] for part, numbers in found.items()}
    return {"design": name, "library": library, "number": number, "total": result.total_p_value} | listed


def tabulate(entries: list[Entry]) -> pd.DataFrame:
    """A line for each design, library and kind of feature: how often tests reject, and whether intervals hold."""
    lines = []
    for (name, library), found in pd.DataFrame(entries).groupby(["design", "library"], sort=False):
        design = DESIGNS[str(name)]
        parts = {part: np.array(found[part].tolist()) for part in ("value", "std_error", "low", "high")}
        p_value, residual, split = (np.array(found[test].tolist()) for test in ("p_value", "residual", "split"))
        # What the tests would find if contributions of rows were independent.
        with np.errstate(divide="ignore", invalid="ignore"):
            z_score = parts["value"] / np.array(found["null_std_error"].tolist())
        naive = np.where(np.isfinite(z_score), norm.sf(z_score * np.sqrt(2.0)), 1.0)
        mean = parts["value"].mean(axis=0)
        holds = (parts["low"] <= mean) & (mean <= parts["high"])
        spread = parts["value"].std(axis=0, ddof=1)
        for j, kind in enumerate(design.features):
            is_signal = j < len(design.signal)
            lines.append(
                {
                    "design": name,
                    "library": library,
                    "feature": f"{kind}, signal" if is_signal else kind,
                    "data_sets": len(found),
                    "rejected_5": (p_value[:, j] < 0.05).mean(),
                    "rejected_1": (p_value[:, j] < 0.01).mean(),
                    "rejected_5_if_rows_were_independent": (naive[:, j] < 0.05).mean(),
                    "residual_rejected_5": (residual[:, j] < 0.05).mean(),
                    "residual_rejected_1": (residual[:, j] < 0.01).mean(),
                    "split_rejected_5": (split[:, j] < 0.05).mean(),
                    "coverage_95": holds[:, j].mean(),
                    "error_over_spread": np.sqrt((parts["std_error"][:, j] ** 2).mean()) / spread[j],
                }
            )
    return pd.DataFrame(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=100, help="data sets a design and library")
    parser.add_argument("--n-jobs", type=int, default=-1, help="processes; all cores by default")
    parser.add_argument("--designs", default="*", metavar="PATTERN", help="only these, such as 'null*'")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no data set after so long")
    parser.add_argument("--add", type=Path, nargs="*", default=[], metavar="FILE", help="checkpoints of other machines")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_suffix(".csv"))
    options = parser.parse_args()
    end, checkpoint = time.monotonic() + options.seconds, options.output.with_suffix(".jsonl")
    entries = read_runs(checkpoint, options.add, ("design", "library", "number"))
    libraries = [name for name, (model, _) in MODELS.items() if importlib.util.find_spec(model.partition(".")[0])]
    done = {(entry["design"], entry["library"], entry["number"]) for entry in entries}
    wanted = [
        (name, library, number)
        for number in range(options.repetitions)
        for name, design in DESIGNS.items()
        for library in libraries
        if fnmatchcase(name, options.designs) and number < design.count(options.repetitions)
    ]
    work = [key for key in wanted if key not in done]
    with (
        append_to(checkpoint) as append,
        show_progress("data sets", total=len(wanted), done=len(wanted) - len(work)) as update,
    ):
        steps = Parallel(n_jobs=options.n_jobs, return_as="generator_unordered", batch_size=1)(
            delayed(run_one)(*key) for key in takewhile(lambda _: time.monotonic() < end, work)
        )
        for n_done, entry in enumerate(steps, start=len(wanted) - len(work) + 1):
            append(entry)
            entries.append(entry)
            update(n_done)
    order = {name: place for place, name in enumerate(DESIGNS)}
    table = tabulate(sorted(entries, key=lambda entry: (order[entry["design"]], entry["library"], entry["number"])))
    write_table(
        table, options.output, ("design", "library"), [(name, library) for name in DESIGNS for library in MODELS]
    )
    print(table.to_string(index=False, float_format=lambda number: f"{number:.3g}"))


if __name__ == "__main__":
    main()
