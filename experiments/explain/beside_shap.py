"""Path values of `truewood.explain` beside Shapley values of `shap.TreeExplainer`, of the same model and held-out rows.

Writes agreement.csv and machine.txt beside this file. Run it from the root of the repository, with shap and xgboost
installed: python experiments/explain/beside_shap.py
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import shap
import xgboost
from scipy.stats import spearmanr
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import truewood as tw

FOLDER = Path(__file__).parent
sys.path.append(str(FOLDER.parents[1] / "benchmarks"))
from machine import describe_machine  # noqa: E402

N_EXPLAINED = 200
N_REPEATS = 3


def draw_additive(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Four additive features, and sixteen of noise."""
    X = rng.standard_normal((1200, 20))
    return X, 2 * X[:, 0] + X[:, 1] ** 2 + np.sin(2 * X[:, 2]) + 0.5 * X[:, 3] + rng.standard_normal(1200)


def draw_product(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two pairs of features that matter only together, and sixteen of noise."""
    X = rng.standard_normal((1200, 20))
    return X, np.sign(X[:, 0] * X[:, 1]) + X[:, 2] * X[:, 3] + 0.5 * rng.standard_normal(1200)


def list_cases() -> dict[str, tuple[object, np.ndarray, np.ndarray]]:
    """Models that are not fit yet, with their data."""
    rng = np.random.default_rng(0)
    additive, product = draw_additive(rng), draw_product(rng)
    cancer, diabetes = load_breast_cancer(return_X_y=True), load_diabetes(return_X_y=True)
    options = {"n_estimators": 100, "min_samples_leaf": 3, "random_state": 0, "n_jobs": 2}
    boosting = {"n_estimators": 100, "max_depth": 4, "learning_rate": 0.1, "random_state": 0, "n_jobs": 2}
    return {
        "forest, breast cancer": (RandomForestClassifier(**options), *cancer),
        "forest, diabetes": (RandomForestRegressor(**options), *diabetes),
        "forest, sums": (RandomForestRegressor(**options), *additive),
        "forest, products": (RandomForestRegressor(**options), *product),
        "xgboost, breast cancer": (xgboost.XGBClassifier(**boosting), *cancer),
        "xgboost, sums": (xgboost.XGBRegressor(**boosting), *additive),
        "xgboost, products": (xgboost.XGBRegressor(**boosting), *product),
    }


def compare(model: object, X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Fit on all rows but some, and explain these in both ways."""
    order = np.random.default_rng(1).permutation(len(X))
    new, old = order[:N_EXPLAINED], order[N_EXPLAINED:]
    model.fit(X[old], y[old])
    seconds: dict[str, list[float]] = {"truewood": [], "shap": []}
    for _ in range(N_REPEATS):
        start = time.perf_counter()
        explanation = tw.explain(model, X[new], rows="heldout", n_jobs=1)
        middle = time.perf_counter()
        shapley = np.asarray(shap.TreeExplainer(model).shap_values(X[new], check_additivity=False))
        seconds["truewood"].append(middle - start)
        seconds["shap"].append(time.perf_counter() - middle)
    values = explanation.of_output().values
    shapley = shapley[:, :, 1] if shapley.ndim == 3 else shapley
    sizes = [np.abs(part).mean(axis=0) for part in (values, shapley)]
    used = np.argsort(-sizes[1])[:5]
    weight = np.abs(shapley)
    return {
        "rank_correlation_of_sizes": float(spearmanr(*sizes).statistic),
        "same_first_five": len({*used} & {*np.argsort(-sizes[0])[:5]}) / 5,
        "correlation_of_values_first_five": float(
            np.mean([np.corrcoef(values[:, j], shapley[:, j])[0, 1] for j in used])
        ),
        "same_sign_weighted": float((weight * (np.sign(values) == np.sign(shapley))).sum() / weight.sum()),
        "seconds_truewood": min(seconds["truewood"]),
        "seconds_shap": min(seconds["shap"]),
        "ratio_of_seconds": min(seconds["shap"]) / min(seconds["truewood"]),
    }


def main() -> None:
    rows = [{"case": name} | compare(*case) for name, case in list_cases().items()]
    table = pd.DataFrame(rows)
    table.to_csv(FOLDER / "agreement.csv", index=False, float_format="%.3g")
    (FOLDER / "machine.txt").write_text(describe_machine() + "\n")
    print(table.to_string(index=False))


if __name__ == "__main__":
    main()
