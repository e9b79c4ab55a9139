"""Does a score of a boosted tree prefer columns of many levels? The toy of Zhang, Zhang & Li (IJCAI 2023), UnbiasedGBM.

Run: python experiments/published/unbiased_gbm.py [--n-jobs 1] [--repetitions 100] [--output FOLDER]

Writes unbiased_gbm.csv: mean ranks of X2, the one signal, and mean z-scores of noise. The design is that of
experiment_toy.ipynb of github.com/ZheyuAqaZhang/UnbiasedGBM: a normal column and four of 2, 4, 10 and 20 levels; y
depends on the binary one with strength rho; one LightGBM tree with learning rate 1; 1,000 rows to fit and 1,000 to
score. The authors show figures without numbers, so nothing is typed from them. `unbiased gain` is written here from
their definition: for each split with at least five scoring rows on both sides, the sum over the children of G_c g'_c,
minus G g' of the node, where G is the sum of gradients of the training rows and g' the mean gradient of the scoring
rows. (For one tree the second derivatives are equal, so their random subsets of equal size have the means that are used
here.) LightGBM must be installed.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from common import complete, parse_options, write_parts, write_table
from scipy.stats import rankdata

import truewood as tw

LEVELS = {"X2": 2, "X3": 4, "X4": 10, "X5": 20}
NAMES = ("X1", *LEVELS)
STRENGTHS = (0.0, 0.1, 0.2, 0.4)
TASKS = ("regression", "classification")
MIN_ROWS = 5


def draw(rng: np.random.Generator, n_rows: int, strength: float, task: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows of the toy."""
    X = pd.DataFrame(
        {"X1": rng.standard_normal(n_rows)} | {name: rng.integers(0, n, n_rows) for name, n in LEVELS.items()}
    )
    binary = X["X2"].to_numpy()
    if task == "regression":
        y = strength * (binary - 0.5) + rng.standard_normal(n_rows)
    else:
        y = np.where(rng.random(n_rows) > (1 + strength) / 2, 1 - binary, binary)
    return X.astype(dict.fromkeys(LEVELS, "category")), y


def find_unbiased_gain(booster: object, fit: tuple, unseen: tuple) -> np.ndarray:
    """The unbiased gain of a booster of one tree, from its leaves."""
    nodes = booster.trees_to_dataframe()
    gains = np.zeros(len(NAMES))
    parent = dict(zip(nodes["node_index"], nodes["parent_index"], strict=True))
    feature = dict(zip(nodes["node_index"], nodes["split_feature"], strict=True))
    sums: dict[str, list[float]] = {}
    origin = fit[1].mean()
    for part, (X, y) in enumerate((fit, unseen)):
        for leaf, gradient in zip(np.ravel(booster.predict(X, pred_leaf=True)), y - origin, strict=True):
            node = f"0-L{leaf}"
            while isinstance(node, str):
                total = sums.setdefault(node, [0.0, 0.0, 0.0])
                total[part] += gradient
                total[2] += part
                node = parent[node]
    children: dict[str, list[str]] = {}
    for node, up in parent.items():
        if isinstance(up, str):
            children.setdefault(up, []).append(node)
    for node, pair in children.items():
        counts = [sums.get(child, [0, 0, 0])[2] for child in pair]
        if min(counts) >= MIN_ROWS:
            terms = [sums[child][0] * sums[child][1] / sums[child][2] for child in (*pair, node)]
            gains[NAMES.index(feature[node])] += terms[0] + terms[1] - terms[2]
    return gains


def measure(task: str, strength: float, number: int) -> list[dict[str, object]]:
    """Scores of the columns of a data set."""
    import lightgbm as lgb

    rng = np.random.default_rng([number, round(10 * strength), *task.encode()])
    fit, unseen = (draw(rng, 1000, strength, task) for _ in range(2))
    make = lgb.LGBMRegressor if task == "regression" else lgb.LGBMClassifier
    model = make(n_estimators=1, learning_rate=1, n_jobs=1, verbose=-1).fit(*fit)
    scores = {
        "gain": model.booster_.feature_importance("gain"),
        "unbiased gain": find_unbiased_gain(model.booster_, fit, unseen),
        "truewood": tw.importance(model, *unseen, rows="heldout", n_jobs=1).values,
    }
    return [
        {
            "task": task,
            "strength": strength,
            "method": method,
            "column": name,
            "score": float(value),
            "rank": float(rank),
        }
        for method, values in scores.items()
        for name, value, rank in zip(NAMES, values, rankdata(-np.asarray(values)), strict=True)
    ]


def tabulate(lines: pd.DataFrame) -> pd.DataFrame:
    """Mean scores, their z-scores over data sets, and mean ranks, where 1 is the best."""
    groups = lines.groupby(["task", "strength", "method", "column"], sort=False)
    table = groups.agg(
        rank=("rank", "mean"), rank_error=("rank", "sem"), score=("score", "mean"), repetitions=("score", "size")
    )
    table["z"] = groups["score"].mean() / groups["score"].sem()
    return table.reset_index()


def show(table: pd.DataFrame) -> str:
    """The tables of README.md: ranks of X2, and z-scores of the mean of noise without any signal."""
    parts: dict[str, list[list[str]]] = {}
    for (task, method), own in table.groupby(["task", "method"], sort=False):
        binary = own[own["column"] == "X2"].set_index("strength")
        none = own[own["strength"] == 0.0].set_index("column")["z"]
        ranks = [f"{binary.loc[s, 'rank']:.2f} ± {binary.loc[s, 'rank_error']:.2f}" for s in STRENGTHS]
        parts.setdefault(task.capitalize(), []).append([method, *ranks, f"{none.min():.1f} to {none.max():.1f}"])
    columns = ["score", *(f"rho {s}" for s in STRENGTHS), "z, no signal"]
    return write_parts({task: pd.DataFrame(rows, columns=columns) for task, rows in parts.items()})


def main() -> None:
    """Measure what is missing, and write the table."""
    options = parse_options(__doc__, "unbiased_gbm", 100)
    cells = [(task, s, k) for task in TASKS for s in STRENGTHS for k in range(options.repetitions)]
    lines = complete("unbiased_gbm", cells, options.checkpoint, options.n_jobs)
    print(show(write_table(tabulate(lines), options.table)))


if __name__ == "__main__":
    main()
