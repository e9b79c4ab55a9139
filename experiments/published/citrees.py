"""Which ranking puts useful columns first? The benchmark of citrees: refits on the first k columns of a ranking.

Run: python experiments/published/citrees.py [--n-jobs 1] [--repetitions 5] [--datasets PATTERN,...] [--output FOLDER]

Writes citrees.csv: mean ranks of methods over data sets, beside those that the authors publish for 17 methods for
classes and 18 for numbers (github.com/rmill040/citrees, paper/results/tables/paper_benchmark_method_aggregate.csv, the
table "Main real-data comparison" of their paper). The protocol is theirs: five-fold cross-validation, repeated with the
seeds 0, 1, ...; columns are standardized; a method ranks the columns of the training fold; logistic regression, a
support vector machine and nearest neighbors (ridge, a support vector machine and nearest neighbors for numbers) are fit
on the first 5, 10, 25, 50 and 100 columns, as far as there are that many; balanced accuracy, or R2, on the held-out
fold is averaged over folds, then over models and numbers of columns; methods are ranked within a data set.

TRUEWOOD_CITREES names a folder with the tables of that repository (paper/data/*/real), as .parquet, or as .npz with X
and y where pyarrow is not installed; tables that are not there are left out, and none is part of this project. Of the
authors' methods those run that scikit-learn has, with the authors' settings. The first ones are ranked among
themselves, so the level of a mean rank depends on the methods beside it: compare orders and differences only.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import complete, parse_options, write_parts, write_table
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.feature_selection import RFE, f_classif
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import get_scorer
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor

import truewood as tw

DATA = Path(os.environ.get("TRUEWOOD_CITREES", "."))
TASKS = {"clf": "classification", "reg": "regression"}
N_TREES = 100
COUNTS = (5, 10, 25, 50, 100)
SCORES = {"classification": "balanced_accuracy", "regression": "r2"}
Ranking = Iterator[tuple[str, np.ndarray]]

# Mean ranks among 17 methods on 22 data sets with classes, and among 18 on 8 with numbers.
PUBLISHED = {
    "classification": {
        "LightGBM": 5.17,
        "XGBoost": 5.58,
        "CatBoost": 5.85,
        "citrees, forest": 6.08,
        "random forest": 6.27,
        "recursive elimination": 6.98,
        "extra trees": 7.45,
        "decision tree": 7.67,
        "random tree": 10.05,
        "citrees, tree": 10.34,
        "Boruta": 10.51,
        "filter, correlation": 10.65,
        "permutation, held out": 10.76,
        "partykit, cforest": 11.36,
        "filter, RDC": 12.29,
        "partykit, ctree": 12.86,
        "conditional permutation": 13.13,
    },
    "regression": {
        "extra trees": 6.56,
        "CatBoost": 6.97,
        "citrees, forest": 7.07,
        "random forest": 8.09,
        "random tree": 8.37,
        "decision tree": 8.68,
        "LightGBM": 8.76,
        "filter, RDC": 8.83,
        "citrees, tree": 9.19,
        "filter, correlation": 9.35,
        "filter, distance correlation": 9.77,
        "XGBoost": 9.96,
        "Boruta": 10.00,
        "permutation, held out": 10.19,
        "recursive elimination": 10.41,
        "partykit, cforest": 12.20,
        "partykit, ctree": 12.99,
        "conditional permutation": 13.61,
    },
}


def list_tables(patterns: str) -> list[str]:
    """Names of the tables that are there and match one of the patterns, smallest files first."""
    files = {file.stem: file.stat().st_size for file in DATA.glob("*_*") if file.suffix in (".parquet", ".npz")}
    names = [name for name in files if name.split("_")[0] in TASKS and "_synthetic_" not in name]
    return sorted(
        (name for name in names if any(fnmatchcase(name, part) for part in patterns.split(","))),
        key=lambda name: files[name],
    )


def read_table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """A table, with labels as 0, 1, ..."""
    if (DATA / f"{name}.npz").exists():
        data = np.load(DATA / f"{name}.npz")
        X, y = data["X"].astype(float), data["y"]
    else:
        frame = pd.read_parquet(DATA / f"{name}.parquet")
        X, y = frame.drop(columns="y").to_numpy(dtype=float), frame["y"].to_numpy()
    return X, np.unique(y, return_inverse=True)[1] if name.startswith("clf") else y


def rank_classes(X: np.ndarray, y: np.ndarray, seed: int) -> Ranking:
    """Scores of the columns of a table with classes, by method."""
    yield "decision tree", DecisionTreeClassifier(random_state=seed).fit(X, y).feature_importances_
    yield "random tree", ExtraTreeClassifier(random_state=seed).fit(X, y).feature_importances_
    extra = ExtraTreesClassifier(N_TREES, class_weight="balanced", random_state=seed)
    yield "extra trees", extra.fit(X, y).feature_importances_
    yield "filter, correlation", np.nan_to_num(f_classif(X, y)[0])
    eliminated = RFE(RandomForestClassifier(N_TREES, random_state=seed), n_features_to_select=1, step=0.1).fit(X, y)
    yield "recursive elimination", -eliminated.ranking_
    yield from _rank_by_forest(RandomForestClassifier(N_TREES, class_weight="balanced", random_state=seed), X, y)


def rank_numbers(X: np.ndarray, y: np.ndarray, seed: int) -> Ranking:
    """Scores of the columns of a table with numbers, by method."""
    yield "decision tree", DecisionTreeRegressor(random_state=seed).fit(X, y).feature_importances_
    yield "random tree", ExtraTreeRegressor(random_state=seed).fit(X, y).feature_importances_
    yield "extra trees", ExtraTreesRegressor(N_TREES, random_state=seed).fit(X, y).feature_importances_
    yield "filter, correlation", np.abs(X.T @ (y - y.mean()))  # columns are standardized
    yield from _rank_by_forest(RandomForestRegressor(N_TREES, random_state=seed), X, y)


def _rank_by_forest(forest: Any, X: np.ndarray, y: np.ndarray) -> Ranking:
    forest.fit(X, y)
    yield "random forest", forest.feature_importances_
    for name, measure in {"default": "auto", "`mdi_oob`": "mdi_oob", "`permutation`": "permutation"}.items():
        yield (
            f"truewood, {name}",
            tw.importance(forest, X, y, measure=measure, inference=False, random_state=0, n_jobs=1).values,
        )


def make_models(task: str) -> dict[str, Any]:
    """Models that are refit on the first columns."""
    if task == "classification":
        return {
            "linear": LogisticRegression(max_iter=1000, class_weight="balanced"),
            "svm": SVC(class_weight="balanced"),
            "neighbors": KNeighborsClassifier(5, weights="distance"),
        }
    return {"linear": Ridge(), "svm": SVR(), "neighbors": KNeighborsRegressor(5, weights="distance")}


def make_judge(task: str, fit: tuple, unseen: tuple) -> Callable[[tuple[int, ...]], dict[str, float]]:
    """Scores of the models on some columns; each set of columns is fit once."""
    scorer = get_scorer(SCORES[task])

    @cache
    def judge(columns: tuple[int, ...]) -> dict[str, float]:
        (X, y), (X_new, y_new) = fit, unseen
        kept = list(columns)
        models = {name: model.fit(X[:, kept], y) for name, model in make_models(task).items()}
        return {name: float(scorer(model, X_new[:, kept], y_new)) for name, model in models.items()}

    return judge


def measure(name: str, seed: int, fold: int) -> list[dict[str, object]]:
    """Scores of all methods on a fold of a table."""
    X, y = read_table(name)
    task = TASKS[name.split("_")[0]]
    make = StratifiedKFold if task == "classification" else KFold
    train, test = list(make(5, shuffle=True, random_state=seed).split(X, y))[fold]
    scaler = StandardScaler().fit(X[train])
    fit, unseen = ((scaler.transform(X[rows]), y[rows]) for rows in (train, test))
    judge, lines = make_judge(task, fit, unseen), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # constant columns, convergence, rare classes, splits without evaluation rows
        for method, scores in (rank_classes if task == "classification" else rank_numbers)(*fit, 1000 * seed + fold):
            order = np.argsort(-np.asarray(scores), kind="stable")
            for k in COUNTS:
                if k <= X.shape[1]:
                    found = judge(tuple(sorted(order[:k].tolist())))
                    lines += [
                        {"table": name, "method": method, "k": k, "model": m, "score": s} for m, s in found.items()
                    ]
    return lines


def tabulate(lines: pd.DataFrame) -> pd.DataFrame:
    """Mean ranks and scores, beside the published ranks."""
    by_cell = lines.groupby(["table", "method", "model", "k"], sort=False)["score"].mean().reset_index()
    scores = by_cell.pivot_table(index="table", columns="method", values="score")
    tables = []
    for start, task in TASKS.items():
        own = scores[scores.index.str.startswith(start)].dropna(axis=1, how="all")
        if own.empty:
            continue
        ranks = own.rank(axis=1, ascending=False)
        found = pd.DataFrame(
            {
                "measured": ranks.mean(),
                "std_error": ranks.sem(),
                "score": own.mean(),
                "tables": len(own),
                "methods": own.shape[1],
            }
        )
        published = pd.Series(PUBLISHED[task], name="published")
        both = found.join(published, how="outer").rename_axis("method").reset_index()
        both.insert(0, "task", task)
        tables.append(both.sort_values(["measured", "published"]))
    return pd.concat(tables, ignore_index=True)


def show(table: pd.DataFrame) -> str:
    """The tables of README.md: the methods that were run."""
    table = table[table["measured"].notna()]
    cells = {
        "ranking": table["method"],
        "mean rank": [f"{row.measured:.2f} ± {row.std_error:.2f}" for row in table.itertuples()],
        "mean score": [f"{score:.3f}" for score in table["score"]],
        "published mean rank": ["" if np.isnan(rank) else f"{rank:.2f}" for rank in table["published"]],
    }
    shown = pd.DataFrame(cells)
    return write_parts({task.capitalize(): own for task, own in shown.groupby(table["task"], sort=False)})


def main() -> None:
    """Measure what is missing, and write the table."""
    options = parse_options(__doc__, "citrees", 5, {"--datasets": "*"})
    names = list_tables(options.datasets)
    cells = [(name, seed, fold) for seed in range(options.repetitions) for name in names[::-1] for fold in range(5)]
    lines = complete("citrees", cells, options.checkpoint, options.n_jobs)
    print(show(write_table(tabulate(lines), options.table)))


if __name__ == "__main__":
    main()
