"""Other tests of the same feature, and what they cost beside the fit of the forest."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from design import HAS_RESIDUAL_TEST, Fitted
from scipy import stats
from sklearn.inspection import permutation_importance
from sklearn.model_selection import train_test_split

import truewood as tw

Answer = tuple[float, float]  # p-value and seconds
HERE = Path(__file__).parent
OWN = "truewood p_value"
RESIDUAL = "truewood p_value, residual"
FIT = "fit of the forest, for its cost"


def compare_tests(fitted: Fitted) -> dict[str, Answer]:
    """P-value of the first feature by every test, and what the test costs beside the fit."""
    answers = {OWN: (float(drop_residual_test(fitted.result).p_value[0]), fitted.score_seconds)}
    if fitted.design.has_residual_test:
        answers[RESIDUAL] = (float(fitted.result.p_value[0]), fitted.score_seconds)
    if not fitted.design.has_peers:
        return answers
    for name, ask in {
        "permutation_test, 39 refits": _refit,
        "scikit-learn permutation, half held out": _permute,
    }.items():
        answers[name] = _take_time(ask, fitted)
    for method, answer in _run_ranger(fitted).items():
        answers[f"ranger {method}"] = answer
    answers[FIT] = (float("nan"), fitted.fit_seconds)
    return answers


def drop_residual_test(result: tw.ImportanceResult) -> tw.ImportanceResult:
    """The result with the usual test."""
    return replace(result, residual_values=None, residual_std_error=None) if HAS_RESIDUAL_TEST else result


def _take_time(ask: Callable[[Fitted], float], fitted: Fitted) -> Answer:
    start = time.perf_counter()
    return ask(fitted), time.perf_counter() - start


def _refit(fitted: Fitted) -> float:
    seed = fitted.model.random_state
    test = tw.permutation_test(fitted.model, fitted.X, fitted.y, n_permutations=39, random_state=seed, n_jobs=1)
    return float(test.p_value[0])


def _permute(fitted: Fitted) -> float:
    seed = fitted.model.random_state
    X_fit, X_new, y_fit, y_new = train_test_split(
        fitted.X, fitted.y, test_size=0.5, random_state=seed, stratify=fitted.y
    )
    half = fitted.design.make_model(seed).fit(X_fit, y_fit)
    permuted = permutation_importance(half, X_new, y_new, n_repeats=39, random_state=seed)
    spread = permuted.importances[0].std(ddof=1)
    return float(stats.norm.sf(permuted.importances_mean[0] / spread)) if spread > 0 else 0.5


def _run_ranger(fitted: Fitted) -> dict[str, Answer]:
    """P-values by ranger's importance_pvalues, if R and ranger are installed."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "data.csv"
        X: np.ndarray = fitted.X
        pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]).assign(y=fitted.y).to_csv(file, index=False)
        try:
            ran = subprocess.run(
                ["Rscript", str(HERE / "ranger_pvalues.R"), str(file), str(fitted.model.random_state)],
                capture_output=True,
                text=True,
                check=True,
                timeout=300,
            )
        except (FileNotFoundError, subprocess.CalledProcessError):
            return {}
    return {name: tuple(pair) for name, pair in json.loads(ran.stdout.strip().splitlines()[-1]).items()}
