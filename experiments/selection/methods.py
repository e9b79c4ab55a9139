"""Methods that select columns, each from a table and its target to the columns that are kept.

All that fit forests fit those of `make_forest`, but for ranger, which has its own, and Boruta, whose authors ask for
shallow trees. Those with p-values keep what passes 5% after Benjamini and Hochberg's correction, but for Altmann's,
whose 50 permutations are too few for it: p-values of at most 5%.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import false_discovery_control
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.feature_selection import RFECV, SelectFromModel
from sklearn.inspection import permutation_importance
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split

import truewood as tw

FOLDER = Path(__file__).parent
LEVEL = 0.05
N_TREES = 100


class NoAnswerError(Exception):
    """A method reports that it has no answer."""


def has_classes(y: np.ndarray) -> bool:
    """Whether y is of classes."""
    return y.dtype.kind == "i"


def make_forest(y: np.ndarray, seed: int, **options: Any) -> Any:
    """Forest that is fit everywhere: a third of the columns at each split for numbers, the square root for classes."""
    if has_classes(y):
        return RandomForestClassifier(N_TREES, random_state=seed, **options)
    return RandomForestRegressor(N_TREES, max_features=1 / 3, random_state=seed, **options)


def score_by(y: np.ndarray) -> str:
    """Name of the score that scikit-learn's methods optimize, and that models are evaluated by."""
    return "roc_auc" if has_classes(y) else "r2"


def make_folds(y: np.ndarray, seed: int) -> Any:
    """Five folds."""
    make = StratifiedKFold if has_classes(y) else KFold
    return make(5, shuffle=True, random_state=seed)


def pass_test(p_values: np.ndarray) -> np.ndarray:
    """Whether p-values pass after the correction; those that could not be computed do not."""
    return false_discovery_control(np.nan_to_num(p_values, nan=1.0)) <= LEVEL


def _score_forest(measure: str) -> Callable[..., np.ndarray]:
    def select(X: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
        forest = make_forest(y, seed).fit(X, y)
        return tw.importance(forest, X, y, measure=measure, n_jobs=1).select(LEVEL, "bh")

    return select


def _cross(booster: str) -> Callable[..., np.ndarray]:
    def select(X: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
        library, start = booster.split(".")
        make = getattr(import_module(library), start + ("Classifier" if has_classes(y) else "Regressor"))
        quiet = {"verbose": -1} if library == "lightgbm" else {}
        model = make(n_estimators=100, learning_rate=0.1, n_jobs=1, random_state=seed, **quiet)
        return tw.cross_importance(model, X, y, cv=make_folds(y, seed), progress=False).select(LEVEL, "bh")

    return select


def select_by_boruta(X: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    """Those that Boruta confirms within 50 rounds."""
    from boruta import BorutaPy

    forest = make_forest(y, seed, max_depth=5)
    return BorutaPy(forest, n_estimators=N_TREES, max_iter=50, random_state=seed).fit(X, y).support_


def select_by_rfe(X: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    """RFE, a fifth of the columns at a time, with as many left as three folds find best."""
    return RFECV(make_forest(y, seed), step=0.2, cv=3, scoring=score_by(y)).fit(X, y).support_


def select_by_mdi(X: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    """Those above the mean of `feature_importances_`, the default of SelectFromModel."""
    return SelectFromModel(make_forest(y, seed)).fit(X, y).get_support()


def select_by_permutation(X: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    """Those whose mean over ten permutations of a held-out third is above two standard deviations."""
    stratify = y if has_classes(y) else None
    X_fit, X_new, y_fit, y_new = train_test_split(X, y, test_size=1 / 3, random_state=seed, stratify=stratify)
    forest = make_forest(y, seed).fit(X_fit, y_fit)
    found = permutation_importance(forest, X_new, y_new, n_repeats=10, random_state=seed, scoring=score_by(y))
    return found.importances_mean - 2 * found.importances_std > 0


def select_by_shap(X: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    """Those whose mean absolute SHAP value, over the training rows, is above the mean of the columns."""
    import shap

    values = shap.TreeExplainer(make_forest(y, seed).fit(X, y)).shap_values(X)
    sizes = np.abs(values[..., 1] if has_classes(y) else values).mean(axis=0)
    return sizes > sizes.mean()


def _ask_hidimstat(kind: str) -> Callable[..., np.ndarray]:
    def select(X: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
        library = import_module("hidimstat")
        options: dict[str, Any] = {"n_permutations": 20, "random_state": seed}
        if kind == "CFICV":
            options["feature_types"] = "continuous"
        if has_classes(y):
            options |= {"method": "predict_proba", "loss": lambda true, found: np.mean((found[:, 1] - true) ** 2)}
        importance = getattr(library, kind)(make_forest(y, seed), make_folds(y, seed), **options)
        importance.fit_importance(X, y)
        return pass_test(importance.pvalues_)

    return select


def _ask_ranger(kind: str, X: np.ndarray, y: np.ndarray, seed: int) -> tuple[np.ndarray, float]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "data.csv"
        target = np.where(y, "yes", "no") if has_classes(y) else y
        pd.DataFrame(X).add_prefix("x").assign(target=target).to_csv(file, index=False, float_format="%.17g")
        command = ["Rscript", str(FOLDER / "ranger.R"), kind, str(file), str(N_TREES), str(seed)]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
    first, *rest = ran.stdout.split()
    if first == "none":
        raise NoAnswerError("no score is zero or negative")
    p_values = np.array(rest, dtype=float)
    return (p_values <= LEVEL if kind == "altmann" else pass_test(p_values)), float(first)


METHODS: dict[str, Callable[..., np.ndarray]] = {
    "truewood ufi": _score_forest("ufi"),
    "truewood ufi_centered": _score_forest("ufi_centered"),
    "truewood sobol_mda": _score_forest("sobol_mda"),
    "truewood, XGBoost": _cross("xgboost.XGB"),
    "truewood, LightGBM": _cross("lightgbm.LGBM"),
    "Boruta": select_by_boruta,
    "RFECV": select_by_rfe,
    "MDI above its mean": select_by_mdi,
    "permutation": select_by_permutation,
    "SHAP above its mean": select_by_shap,
    "hidimstat CFI": _ask_hidimstat("CFICV"),
    "hidimstat PFI": _ask_hidimstat("PFICV"),
}
RANGER = {"ranger, Altmann": "altmann", "ranger, Janitza": "janitza"}
NAMES = [*METHODS, *RANGER]
LIBRARIES = {
    "truewood, XGBoost": "xgboost",
    "truewood, LightGBM": "lightgbm",
    "Boruta": "boruta",
    "SHAP above its mean": "shap",
    "hidimstat CFI": "hidimstat",
    "hidimstat PFI": "hidimstat",
}


def run_method(name: str, X: np.ndarray, y: np.ndarray, seed: int) -> tuple[np.ndarray, float]:
    """Whether each column is kept, and the CPU seconds from the table to the answer; R's start is not counted."""
    if name in RANGER:
        return _ask_ranger(RANGER[name], X, y, seed)
    if name in LIBRARIES:
        import_module(LIBRARIES[name])
    started = time.process_time()
    is_kept = METHODS[name](X, y, seed)
    return is_kept, time.process_time() - started
