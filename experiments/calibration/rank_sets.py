"""How often do all rank sets of a result contain the ranks of the expected scores, and how wide are they?

Run: python experiments/calibration/rank_sets.py [--data-sets 150]

The table, rank_sets.csv beside this script, has the share of data sets in which all sets are right, with a confidence
of 95%, and the mean difference between worst and best rank. Expected scores are the means over all data sets.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import truewood as tw

DESIGNS = ("strong, two correlated", "weak", "heavy tails", "two classes", "XOR")


def draw(design: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """200 rows of 8 columns; some effects are equal, and some zero."""
    rng = np.random.default_rng(seed)
    X, noise = rng.standard_normal((200, 8)), rng.standard_normal(200)
    if design == "strong, two correlated":
        X[:, 1] = 0.5 * X[:, 0] + np.sqrt(0.75) * X[:, 1]
        return X, X @ [2, 2, 1.5, 1, 0.5, 0, 0, 0] + noise
    if design == "weak":
        return X, X @ [0.3, 0.3, 0.25, 0.2, 0.15, 0.1, 0, 0] + noise
    if design == "heavy tails":
        return X, X @ [1, 0.8, 0.6, 0.4, 0.2, 0, 0, 0] + rng.standard_t(3, 200)
    if design == "two classes":
        return X, X @ [1.5, 1.2, 0.9, 0.6, 0.3, 0, 0, 0] + noise > 1
    return X, 2 * np.sign(X[:, 0] * X[:, 1]) + X[:, 2] + 0.5 * X[:, 3] + noise


def score(design: str, seed: int) -> tw.ImportanceResult:
    """Score a forest of 50 trees on its out-of-bag rows."""
    X, y = draw(design, seed)
    forest = RandomForestClassifier if y.dtype == bool else RandomForestRegressor
    fitted = forest(50, min_samples_leaf=3, max_features=0.5, random_state=seed).fit(X, y)
    return tw.importance(fitted, X, y, contributions=True)


def main() -> None:
    """Measure all designs, with and without contributions."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-sets", type=int, default=150)
    n_data_sets, lines = parser.parse_args().data_sets, []
    for design in DESIGNS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = [score(design, 1000 + seed) for seed in range(n_data_sets)]
        rank = 1 + np.argsort(np.argsort(-np.mean([result.values for result in results], axis=0)))
        for has_contributions in (True, False):
            given = results if has_contributions else [replace(result, contributions=None) for result in results]
            best, worst = np.array([result.rank_sets() for result in given]).swapaxes(0, 1)
            is_right = ((best <= rank) & (rank <= worst)).all(axis=1)
            lines.append(
                {
                    "design": design,
                    "contributions": has_contributions,
                    "n_data_sets": n_data_sets,
                    "all_right": is_right.mean(),
                    "mean_width": (worst - best).mean(),
                }
            )
    table = pd.DataFrame(lines)
    table.to_csv(Path(__file__).with_suffix(".csv"), index=False, float_format="%.4g")
    print(table.to_string(index=False))


if __name__ == "__main__":
    main()
