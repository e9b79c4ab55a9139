"""Are truewood's scores those of scikit-learn's pull request 31279, "unbiased_feature_importances_" of forests?

Run: python experiments/published/scikit_learn_31279.py

Writes scikit_learn_31279.csv: scores by feature on the data of the pull request's own test, and their differences. The
pull request is not part of a release, so its scores are computed here, row by row, from its definition (its branch of
September 2025): for each split with out-of-bag rows on both sides, half the decrease of impurity plus cross impurity,
the mean squared distance of out-of-bag rows to the mean of a node, weighted by the training weight of the nodes.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from common import FOLDER, write_parts, write_table
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import truewood as tw

N_TREES = 20
CASES = {"classification": RandomForestClassifier, "regression": RandomForestRegressor}


def draw() -> tuple[np.ndarray, np.ndarray]:
    """The pull request's test data: ten features, the first three of them informative."""
    return make_classification(
        n_samples=500, n_features=10, n_informative=3, n_redundant=0, n_repeated=0, shuffle=False, random_state=0
    )


def score_tree(tree: object, X: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Scores of a tree from the rows that it did not see; targets are numbers, or a column per class."""
    value = tree.value[:, 0, :]
    inside = tree.decision_path(X.astype(np.float32)).toarray().astype(bool)
    cross = np.zeros(tree.node_count)
    for node in range(tree.node_count):
        if inside[:, node].any():
            cross[node] = np.mean([np.sum((target - value[node]) ** 2) for target in targets[inside[:, node]]])
    weighted = (tree.impurity + cross) * tree.weighted_n_node_samples
    scores = np.zeros(X.shape[1])
    for node, (left, right) in enumerate(zip(tree.children_left, tree.children_right, strict=True)):
        if left >= 0 and inside[:, left].any() and inside[:, right].any():
            scores[tree.feature[node]] += (weighted[node] - weighted[left] - weighted[right]) / 2
    return scores / tree.weighted_n_node_samples[0]


def score_forest(forest: object, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The pull request's definition: the mean over trees."""
    targets = np.eye(2)[y.astype(int)] if hasattr(forest, "classes_") else y[:, np.newaxis]
    scores = []
    for tree, in_bag in zip(forest.estimators_, forest.estimators_samples_, strict=True):
        out = np.ones(len(y), dtype=bool)
        out[in_bag] = False
        scores.append(score_tree(tree.tree_, X[out], targets[out]))
    return np.mean(scores, axis=0)


def tabulate() -> pd.DataFrame:
    """Scores by feature, of both."""
    X, y = draw()
    rows = []
    for task, make in CASES.items():
        forest = make(N_TREES, random_state=0).fit(X, y)
        theirs = score_forest(forest, X, y)
        ours = tw.importance(forest, X, y, measure="ufi", inference=False, n_jobs=1).values
        centered = tw.importance(forest, X, y, measure="ufi_centered", inference=False, n_jobs=1).values
        scale = 2 if task == "regression" else 1
        for j, (one, other, third) in enumerate(zip(theirs, ours, centered, strict=True)):
            rows.append(
                {
                    "task": task,
                    "feature": j,
                    "pull_request": one,
                    "ufi": other,
                    "ufi_centered": third,
                    "difference": abs(other - scale * one),
                }
            )
    return pd.DataFrame(rows)


def show(table: pd.DataFrame) -> str:
    """The tables of README.md."""
    columns = ["pull_request", "ufi", "ufi_centered"]
    shown = table.loc[table["feature"] < 4, ["task", "feature", *columns]]
    shown[columns] = shown[columns].map("{:.5f}".format)
    shown.columns = ["task", "feature", "pull request", "`ufi`", "`ufi_centered`"]
    return write_parts({task.capitalize(): own.drop(columns="task") for task, own in shown.groupby("task", sort=False)})


def main() -> None:
    """Write the table."""
    table = write_table(tabulate(), FOLDER / "scikit_learn_31279.csv")
    print(show(table))
    print(table.groupby("task")["difference"].max())


if __name__ == "__main__":
    main()
