"""Peers of truewood: each function prepares one peer and returns what to time.

All peers use one thread; for some, performance.py sets this through the environment. Work that a peer does once per
model (a compiled model, an explainer, its own format of the rows) is done here and not timed. truewood reads the model
in every call, and this is timed.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

import numpy as np
from cases import BoostedCase, ForestCase
from published import score_tree
from sklearn.inspection import permutation_importance
from timing import Peer, Timer, clock, whole

import truewood as tw

TRUEWOOD = "truewood"
TRUEWOOD_INFERENCE = "truewood with inference"
APPLY = "scikit-learn apply"
PERMUTATION = "permutation_importance"
SHAP = "shap.TreeExplainer"
PUBLISHED = "published definitions, dense"
RANGER = "ranger, corrected minus uncorrected"

DENSE_CELLS = 50_000_000  # of one dense matrix of rows x nodes


def find_missing() -> list[str]:
    """List the peers that are not installed."""
    libraries = ("XGBoost", "LightGBM", "CatBoost", "lleaves", "treelite", "shap")
    missing = [name for name in libraries if not find_spec(name.lower())]
    return missing if has_ranger() else [*missing, "R's ranger"]


def has_ranger() -> bool:
    try:
        return subprocess.run(["Rscript", "-e", "library(ranger)"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def list_forest_peers(case: ForestCase, missing: list[str], max_depth: int = 0) -> list[Peer]:
    """List everything that is timed on a forest, except for its fit."""
    peers = [*score_forest(case), apply_oob(case), permute(case), follow_definitions(case)]
    if "shap" not in missing:
        peers.append(explain(case))
    if "R's ranger" not in missing:
        peers.append(correct_impurity(case, max_depth))
    return peers


def score_forest(case: ForestCase, n_jobs: int = 1) -> list[Peer]:
    """Out-of-bag importance, without and with inference."""
    words = "" if n_jobs == 1 else f", {n_jobs} threads"
    return [
        whole(
            name + words,
            lambda inference=inference: tw.importance(case.forest, case.X, case.y, inference=inference, n_jobs=n_jobs),
        )
        for name, inference in ((TRUEWOOD, False), (TRUEWOOD_INFERENCE, True))
    ]


def apply_oob(case: ForestCase) -> Peer:
    """Find the leaves of out-of-bag rows, tree by tree; selecting the rows from X is not timed."""

    def run(_: int) -> float:
        seconds = 0.0
        for tree, rows in zip(case.forest.estimators_, case.oob, strict=True):
            X_oob = case.X[rows]
            seconds += clock(lambda tree=tree, X_oob=X_oob: tree.tree_.apply(X_oob))
        return seconds

    return Peer(APPLY, run)


def permute(case: ForestCase) -> Peer:
    """scikit-learn's permutation importance of all rows, five repeats."""

    def run(n_rows: int) -> float:
        X, y = case.X[:n_rows], case.y[:n_rows]
        return clock(lambda: permutation_importance(case.forest, X, y, n_repeats=5, random_state=0, n_jobs=1))

    return Peer(PERMUTATION, run, len(case.X), 500, "rows")


def explain(case: ForestCase) -> Peer:
    """Path-dependent Shapley values of all rows; building the explainer is not timed."""
    import shap

    explainer = shap.TreeExplainer(case.forest, feature_perturbation="tree_path_dependent")
    return Peer(
        SHAP,
        lambda n: clock(lambda: explainer.shap_values(case.X[:n], check_additivity=False)),
        len(case.X),
        1,
        "rows",
    )


def follow_definitions(case: ForestCase) -> Peer:
    """The published definitions with dense paths; finding the out-of-bag rows is not timed.

    A dense matrix of all out-of-bag rows of a large tree does not fit into memory; each tree gets as many rows as fit.
    """
    classes = (case.y[:, None] == case.forest.classes_).astype(np.float64)
    parts = [
        rows[: max(1, DENSE_CELLS // tree.tree_.node_count)]
        for tree, rows in zip(case.forest.estimators_, case.oob, strict=True)
    ]

    def run(n_rows: int) -> float:
        seconds = 0.0
        for tree, part in zip(case.forest.estimators_, parts, strict=True):
            rows = part[:n_rows]
            X, y = case.X[rows], classes[rows]
            seconds += clock(lambda tree=tree, X=X, y=y: score_tree(tree, X, y))
            n_rows -= len(rows)
            if n_rows == 0:
                break
        return seconds

    size, limit = (sum(map(len, lists)) for lists in (case.oob, parts))
    return Peer(PUBLISHED, run, size, len(parts[0]), "rows of the trees", limit)


def correct_impurity(case: ForestCase, max_depth: int) -> Peer:
    """Time that corrected impurity importance adds to ranger's fit of a similar forest to similar data, drawn in R."""
    n_rows, n_features = case.X.shape

    def run(n_trees: int) -> float:
        sizes = map(str, (n_rows, n_features, n_trees, max_depth))
        script = Path(__file__).with_name("ranger.R")
        done = subprocess.run(["Rscript", str(script), *sizes], capture_output=True, text=True, check=True)
        return float(done.stdout.split()[0])

    return Peer(RANGER, run, len(case.oob), 2, "trees")


def score_boosted(case: BoostedCase, library: str, timer: Timer = perf_counter) -> list[Peer]:
    """Held-out importance, without and with inference, and reading the trees by itself."""
    return [
        whole(
            f"{name}, {library}",
            lambda inference=inference: tw.importance(
                case.model, case.X, case.y, rows="heldout", inference=inference, n_jobs=1
            ),
            timer,
        )
        for name, inference in ((TRUEWOOD, False), (TRUEWOOD_INFERENCE, True))
    ] + [whole(f"reading the trees, {library}", lambda: tw.to_ensemble(case.model), timer)]


def find_own_leaves(case: BoostedCase, library: str, missing: list[str], timer: Timer = perf_counter) -> list[Peer]:
    """Find the leaves of all rows with the library itself, and with libraries that serve its models."""
    X, model = case.X, case.model
    if library == "XGBoost":
        from xgboost import DMatrix

        booster = model.get_booster()
        booster.set_param({"nthread": 1})

        def run(n_rows: int) -> float:
            rows = DMatrix(X[:n_rows], nthread=1)
            return clock(lambda: booster.predict(rows, pred_leaf=True), timer)

        return [Peer("XGBoost pred_leaf", run, len(X), 1_000, "rows")]
    if library == "LightGBM":
        return [
            _by_rows("LightGBM pred_leaf", lambda n: model.predict(X[:n], pred_leaf=True, num_threads=1), X, timer),
            *_serve_lightgbm(case, missing),
        ]
    if library == "CatBoost":
        return [_by_rows("CatBoost calc_leaf_indexes", lambda n: model.calc_leaf_indexes(X[:n], thread_count=1), X)]
    if library == "GradientBoosting":
        return [_by_rows("GradientBoosting apply", lambda n: model.apply(X[:n]), X)]
    return [_by_rows("HistGradientBoosting predict", lambda n: model.predict(X[:n]), X)]


def _by_rows(name: str, call: Callable[[int], object], X: np.ndarray, timer: Timer = perf_counter) -> Peer:
    return Peer(name, lambda n: clock(lambda: call(n), timer), len(X), 1_000, "rows")


def _serve_lightgbm(case: BoostedCase, missing: list[str]) -> list[Peer]:
    """lleaves, which can only predict, and treelite's GTIL; preparing their models is not timed."""
    peers = []
    if "lleaves" not in missing:
        import lleaves

        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.txt"
            case.model.booster_.save_model(file)
            compiled = lleaves.Model(str(file))
            compiled.compile(raw_score=True)
        peers.append(_by_rows("lleaves predict", lambda n: compiled.predict(case.X[:n], n_jobs=1), case.X))
    if "treelite" not in missing:
        import treelite

        served = treelite.frontend.from_lightgbm(case.model.booster_)
        peers.append(
            _by_rows(
                "treelite GTIL leaves", lambda n: treelite.gtil.predict_leaf(served, case.X[:n], nthread=1), case.X
            )
        )
    return peers
