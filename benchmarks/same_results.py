"""Compare every array of the results of two versions of truewood, bit by bit.

    python benchmarks/same_results.py record results.npz     # with one version installed
    python benchmarks/same_results.py compare results.npz    # with the other version

Covers the models of the contract tests with every measure, both CPU engines and all kinds of rows; models of each
boosting library in memory, from Parquet files, in parts and with cross-validation; interactions, the residual test,
permutation_test, corrected_importance, explanations, comparisons and tables.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import truewood as tw
from helpers.sklearn_models import build, supported_cases

SEEDS = (0, 1)
GROUPS = {"both": [0, 2]}
HIST = {"max_iter": 10, "categorical_features": [3]}
CATBOOST = {"iterations": 10, "thread_count": 1, "verbose": 0, "allow_writing_files": False}
WITH_ROWS = ("ufi", "ufi_centered", "mdi_oob")
# Properties that are computed from the fields of a result.
COMPUTED = ("z_score", "p_value", "total_p_value", "normal_p_value")


def list_arrays(name: str, result: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Iterate over the fields of a result, and the properties computed from them, as arrays."""
    for part in [*(field.name for field in fields(result)), *(part for part in COMPUTED if hasattr(result, part))]:
        value = getattr(result, part)
        if is_dataclass(value):
            yield from list_arrays(f"{name}/{part}", value)
        elif value is not None:
            array = np.asarray(value)
            yield f"{name}/{part}", array.astype(str) if array.dtype == object else array


def score_forests() -> Iterator[tuple[str, Any]]:
    for case in supported_cases():
        for seed in SEEDS:
            built = build(case, seed)
            for measure in tw.measures():
                if measure in ("sobol_mda", "mdi_plus_oob") and built.rows == "heldout":
                    continue  # they need training rows
                data = built.model, built.X, built.y
                options: dict[str, Any] = {"measure": measure, "sample_weight": built.sample_weight, "random_state": 0}
                keeps = measure in WITH_ROWS
                results = {
                    "rows": tw.importance(*data, rows=built.rows, contributions=keeps, **options),
                    "groups": tw.importance(*data, rows=built.rows, feature_groups=GROUPS, **options),
                }
                n_trees = len(results["rows"].per_tree)
                if built.rows == "heldout":
                    lists = [np.arange(t % 3, built.X.shape[0], 2) for t in range(n_trees)]
                    results["lists"] = tw.importance(*data, rows=lists, **options)
                elif measure in WITH_ROWS:
                    results["bags"] = tw.importance(*data, inference="bags", **options)
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


def score_boosters() -> Iterator[tuple[str, Any]]:
    import pandas as pd

    X, y = draw_boosting(1)
    for name, model, is_classifier in list_boosters():
        table = pd.DataFrame(X).astype({3: int}).astype({3: str}) if name == "cat-categories" else X
        target = np.digitize(y, [-0.5, 1.0]) if is_classifier else y
        for measure in ("ufi", "ufi_centered", "mdi", "mdi_oob"):
            keeps = measure != "mdi"
            yield (
                f"{name}/{measure}",
                tw.importance(model, table, target, rows="heldout", measure=measure, contributions=keeps),
            )
        yield f"{name}/explain", tw.explain(model, table, rows="heldout")
        labels = np.arange(len(X)) // 4
        yield f"{name}/clusters", tw.importance(model, table, target, rows="heldout", groups=labels)
        if is_classifier and not name.startswith("ada"):
            yield f"{name}/classes", tw.importance(model, table, target, rows="heldout", per_class=True)


def score_others() -> Iterator[tuple[str, Any]]:
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


def score_pairs_and_residuals() -> Iterator[tuple[str, Any]]:
    """Test pairs of features, and features on what the others leave unexplained."""
    from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor

    X, y = draw_boosting(5)
    test_X, test_y = draw_boosting(6)
    labels, test_labels = np.digitize(y, [-0.5, 1.0]), np.digitize(test_y, [-0.5, 1.0])
    forests = {
        "classes": (RandomForestClassifier(10, random_state=0).fit(X, labels), labels, test_labels),
        "numbers": (RandomForestRegressor(10, min_samples_leaf=5, random_state=0).fit(X, y), y, test_y),
    }
    for name, (forest, target, test_target) in forests.items():
        held_out = forest, test_X, test_target
        yield f"residual/{name}/oob", tw.importance(forest, X, target, inference="residual")
        yield f"residual/{name}/heldout", tw.importance(*held_out, rows="heldout", inference="residual")
        yield f"interactions/{name}/oob", tw.interactions(forest, X, target)
        weight = np.linspace(0.5, 2.0, len(test_X))
        yield f"interactions/{name}/weights", tw.interactions(*held_out, rows="heldout", sample_weight=weight)
        clusters = np.arange(len(test_X)) // 4
        yield f"interactions/{name}/clusters", tw.interactions(*held_out, rows="heldout", groups=clusters)
        yield f"interactions/{name}/groups", tw.interactions(forest, X, target, feature_groups=GROUPS)
    boosted = HistGradientBoostingRegressor(max_iter=10, random_state=0)
    fitted = boosted.fit(X, y)
    yield "residual/boosted", tw.importance(fitted, test_X, test_y, rows="heldout", inference="residual")
    yield "interactions/boosted", tw.interactions(fitted, test_X, test_y, rows="heldout")
    yield "interactions/folds", tw.cross_interactions(boosted, X, y, cv=3, progress=False)


def score_in_parts() -> Iterator[tuple[str, Any]]:
    """Score with `ImportanceAccumulator`, in one pass and in two."""
    from sklearn.ensemble import RandomForestClassifier
    from xgboost import XGBRegressor

    X, y = draw_boosting(7, 900)
    models = {
        "forest": (RandomForestClassifier(10, random_state=0).fit(X[:300], y[:300] > 0), y > 0),
        "xgb": (XGBRegressor(n_estimators=10, n_jobs=1).fit(X[:300], y[:300]), y),
    }
    parts = np.array_split(np.arange(300, 900), 3)
    for name, (model, target) in models.items():
        for measure in ("auto", "mdi_oob"):
            first = tw.ImportanceAccumulator(model, measure=measure, n_sample=200)
            for part in parts:
                first.update(X[part], target[part])
            yield f"accumulator/{name}/{measure}/sample", first.finish()
            second = first.second_pass()
            for part in parts[::-1]:
                second.update(X[part], target[part])
            yield f"accumulator/{name}/{measure}/exact", second.finish()


def score_refits() -> Iterator[tuple[str, Any]]:
    """Score with `permutation_test` and `corrected_importance`, which fit models."""
    from sklearn.ensemble import ExtraTreesRegressor, RandomForestClassifier

    X, y = draw_boosting(8, 200)
    for name, estimator, target in (
        ("classes", RandomForestClassifier(10, random_state=0), y > 0),
        ("numbers", ExtraTreesRegressor(10, bootstrap=True, random_state=0), y),
    ):
        for measure in ("auto", "mdi"):
            options: dict[str, Any] = {"measure": measure, "random_state": 0, "progress": False}
            yield f"permuted/{name}/{measure}", tw.permutation_test(estimator, X, target, n_permutations=5, **options)
        yield f"corrected/{name}", tw.corrected_importance(estimator, X, target, random_state=0)


def score_elsewhere() -> Iterator[tuple[str, Any]]:
    """Score from files, with cross-validation, and tables."""
    import pandas as pd
    from lightgbm import LGBMRegressor
    from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier
    from xgboost import XGBRegressor

    X, y = draw_boosting(4, 900)
    table = pd.DataFrame(X, columns=list("abcd"))
    models = {
        "forest": RandomForestClassifier(10, random_state=0).fit(table[:300], y[:300] > 0),
        "xgb": XGBRegressor(n_estimators=10, n_jobs=1).fit(table[:300], y[:300]),
        "lgb": LGBMRegressor(n_estimators=10, n_jobs=1, verbose=-1).fit(table[:300], y[:300]),
    }
    results = {}
    for name, model in models.items():
        target = y > 0 if name == "forest" else y
        results[name] = tw.importance(model, table[300:], target[300:], rows="heldout", contributions=True)
        with TemporaryDirectory() as folder:
            for part, rows in enumerate(np.array_split(np.arange(300, 900), 3)):
                table.iloc[rows].assign(y=target[rows]).to_parquet(Path(folder) / f"{part}.parquet")
            yield f"parquet/{name}", tw.importance(model, folder, "y", rows="heldout")
    yield "compare", tw.compare(results["xgb"], results["lgb"])
    estimator = HistGradientBoostingRegressor(max_iter=10, random_state=0)
    yield "folds", tw.cross_importance(estimator, table, y, cv=3, contributions=True)
    yield "folds/clusters", tw.cross_importance(estimator, table, y, cv=3, groups=np.arange(900) // 9)
    scored = tw.tabular.score_table(table.assign(kind=np.where(X[:, 3] > 2, "u", "v"), y=y), "y")
    yield "table", scored.result
    yield "table/performance", scored.performance
    yield "table/explanation", scored.explanation


SCORED = (
    score_forests,
    score_boosters,
    score_others,
    score_pairs_and_residuals,
    score_in_parts,
    score_refits,
    score_elsewhere,
)


def collect() -> dict[str, np.ndarray]:
    """Return all arrays by name, for each engine."""
    arrays = {}
    for engine in ("numpy", "native"):
        os.environ["TRUEWOOD_ENGINE"] = engine
        for score in SCORED:
            for name, result in score():
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
    for field, n_different in Counter(name.rpartition("/")[2] for name in different).items():
        print(f"different {field}: {n_different:,}")
    print(f"{len(names):,} arrays compared, {len(different):,} different")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
