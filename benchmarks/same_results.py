"""Compare every array of the results of two versions of truewood, bit by bit.

    python benchmarks/same_results.py record results.npz     # with the one version installed
    python benchmarks/same_results.py compare results.npz    # with the other

The models are those of the contract tests, with every measure, both engines and all kinds of rows, and one model of
each boosting library.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import truewood as tw
from models import build, supported_cases

SEEDS = (0, 1)
GROUPS = {"both": [0, 2]}
HIST = {"max_iter": 10, "categorical_features": [3]}
CATBOOST = {"iterations": 10, "thread_count": 1, "verbose": 0, "allow_writing_files": False}
WITH_ROWS = ("ufi", "ufi_centered", "mdi_oob")


def list_arrays(name: str, result: tw.ImportanceResult) -> Iterator[tuple[str, np.ndarray]]:
    """Every field of a result as an array."""
    for part in fields(result):
        value = getattr(result, part.name)
        if isinstance(value, tw.ImportanceResult):
            yield from list_arrays(f"{name}/{part.name}", value)
        elif value is not None:
            yield f"{name}/{part.name}", np.asarray(value)


def score_forests() -> Iterator[tuple[str, tw.ImportanceResult]]:
    for case in supported_cases():
        for seed in SEEDS:
            built = build(case, seed)
            for measure in tw.measures():
                data = built.model, built.X, built.y
                options: dict[str, Any] = {"measure": measure, "sample_weight": built.sample_weight, "random_state": 0}
                inference = "rows" if measure in WITH_ROWS else True
                results = {
                    "rows": tw.importance(*data, rows=built.rows, inference=inference, **options),
                    "groups": tw.importance(*data, rows=built.rows, groups=GROUPS, **options),
                }
                n_trees = len(results["rows"].per_tree)
                if built.rows == "heldout":
                    lists = [np.arange(t % 3, built.X.shape[0], 2) for t in range(n_trees)]
                    results["lists"] = tw.importance(*data, rows=lists, **options)
                for kind, result in results.items():
                    yield f"{case}/{seed}/{measure}/{kind}", result


def draw_boosting(seed: int, n_rows: int = 400) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.standard_normal((n_rows, 3)), rng.integers(0, 6, n_rows)])
    return X, X[:, 0] + (X[:, 3] == 2) + rng.standard_normal(n_rows)


def list_boosters() -> Iterator[tuple[str, Any, bool]]:
    import pandas as pd
    from catboost import CatBoostClassifier, CatBoostRegressor
    from lightgbm import LGBMClassifier, LGBMRegressor
    from sklearn.ensemble import (
        AdaBoostClassifier,
        AdaBoostRegressor,
        GradientBoostingClassifier,
        GradientBoostingRegressor,
        HistGradientBoostingClassifier,
        HistGradientBoostingRegressor,
    )
    from xgboost import XGBClassifier, XGBRegressor

    makers = {
        "ada": (AdaBoostClassifier, AdaBoostRegressor, {"n_estimators": 10}),
        "gb": (GradientBoostingClassifier, GradientBoostingRegressor, {"n_estimators": 10}),
        "hgb": (
            HistGradientBoostingClassifier,
            HistGradientBoostingRegressor,
            HIST,
        ),
        "xgb": (XGBClassifier, XGBRegressor, {"n_estimators": 10, "n_jobs": 1}),
        "lgb": (LGBMClassifier, LGBMRegressor, {"n_estimators": 10, "n_jobs": 1, "verbose": -1}),
        "cat": (
            CatBoostClassifier,
            CatBoostRegressor,
            CATBOOST,
        ),
    }
    X, y = draw_boosting(0)
    for name, (classifier, regressor, options) in makers.items():
        labels = np.digitize(y, [-0.5, 1.0])
        yield f"{name}-classes", classifier(random_state=0, **options).fit(X, labels), True
        yield f"{name}-numbers", regressor(random_state=0, **options).fit(X, y), False
    table = pd.DataFrame(X).astype({3: int}).astype({3: str})
    cat = CatBoostRegressor(
        iterations=10, random_state=0, thread_count=1, verbose=0, cat_features=[3], allow_writing_files=False
    )
    yield "cat-categories", cat.fit(table, y), False


def score_boosters() -> Iterator[tuple[str, tw.ImportanceResult]]:
    import pandas as pd

    X, y = draw_boosting(1)
    for name, model, is_classifier in list_boosters():
        table = pd.DataFrame(X).astype({3: int}).astype({3: str}) if name == "cat-categories" else X
        target = np.digitize(y, [-0.5, 1.0]) if is_classifier else y
        for measure in ("ufi", "ufi_centered", "mdi", "mdi_oob"):
            inference = True if measure == "mdi" else "rows"
            yield (
                f"{name}/{measure}",
                tw.importance(model, table, target, rows="heldout", measure=measure, inference=inference),
            )


def score_others() -> Iterator[tuple[str, tw.ImportanceResult]]:
    from econml.grf import CausalForest, RegressionForest
    from sksurv.ensemble import RandomSurvivalForest
    from sksurv.util import Surv

    X, y = draw_boosting(2, 200)
    rng = np.random.default_rng(3)
    for honest in (True, False):
        forest = RegressionForest(n_estimators=8, honest=honest, random_state=0, n_jobs=1).fit(X, y)
        for measure in ("ufi", "mdi_oob", "permutation"):
            yield f"regression-forest-{honest}/{measure}", tw.importance(forest, X, y, measure=measure, random_state=0)
    treatment = rng.integers(0, 2, len(X)).astype(float)
    causal = CausalForest(n_estimators=8, random_state=0, n_jobs=1).fit(X, treatment, y)
    yield "causal-forest", tw.importance(causal, X, np.column_stack([y, treatment]))
    times = Surv.from_arrays(rng.random(len(X)) < 0.7, np.exp(y))
    survival = RandomSurvivalForest(8, random_state=0).fit(X, times)
    yield "survival-forest", tw.importance(survival, X, times)


def collect() -> dict[str, np.ndarray]:
    """All arrays by name, for each engine."""
    arrays = {}
    for engine in ("numpy", "native"):
        os.environ["TRUEWOOD_ENGINE"] = engine
        for scored in (score_forests(), score_boosters(), score_others()):
            for name, result in scored:
                arrays.update(list_arrays(f"{engine}/{name}", result))
    return arrays


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["record", "compare"])
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    arrays = collect()
    if options.what == "record":
        np.savez_compressed(options.file, **arrays)
        print(f"{len(arrays):,} arrays recorded")
        return
    recorded = dict(np.load(options.file))
    names = sorted({*recorded, *arrays})
    different = [
        name
        for name in names
        if name not in recorded
        or name not in arrays
        or recorded[name].dtype != arrays[name].dtype
        or recorded[name].shape != arrays[name].shape
        or recorded[name].tobytes() != arrays[name].tobytes()
    ]
    for name in different[:50]:
        print("different:", name)
    print(f"{len(names):,} arrays compared, {len(different):,} different")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
