"""Tables and claims of the paper, published and measured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from truewood._paper.experiments import Cell
from truewood._paper.runs import Scores

# Table 1: average rank of the informative feature.
PUBLISHED_RANKS = {
    ("SI", "regression", 3): 3.71,
    ("SI", "classification", 3): 4.10,
    ("SI", "regression", 10): 10.00,
    ("SI", "classification", 10): 10.00,
    ("UFI", "regression", 3): 1.47,
    ("UFI", "classification", 3): 1.39,
    ("UFI", "regression", 10): 1.55,
    ("UFI", "classification", 10): 1.69,
    ("cforest", "regression", 3): 1.57,
    ("cforest", "classification", 3): 1.32,
    ("cforest", "regression", 10): 1.77,
    ("cforest", "classification", 10): 1.88,
    ("ranger", "regression", 3): 1.54,
    ("ranger", "classification", 3): 1.64,
    ("ranger", "regression", 10): 2.46,
    ("ranger", "classification", 10): 1.93,
}


def tidy(cells: list[Cell], scores: Scores, *, repetitions: int, seed: int, absent: set[str]) -> pd.DataFrame:
    """Make a tidy table: labels of the cell, repetition, method, feature, score, rank (mean of ties)."""
    rows: list[dict[str, Any]] = []
    for cell in cells:
        features = [str(name) for name in cell.draw(np.random.default_rng(0)).X]
        for repetition in range(repetitions):
            for method in cell.methods:
                if method in absent:
                    continue
                listed = scores[cell.key(seed, repetition, method)]
                ranks = rankdata(-np.array(listed), method="average")
                rows += [
                    {**cell.labels, "repetition": repetition, "method": method, "feature": name, "score": s, "rank": r}
                    for name, s, r in zip(features, listed, ranks, strict=True)
                ]
    return pd.DataFrame(rows)


def summarize(table: pd.DataFrame) -> pd.DataFrame:
    """Compute mean and standard deviation of scores and mean ranks over repetitions."""
    keys = [name for name in table if name not in ("repetition", "score", "rank")]
    grouped = table.groupby(keys, sort=False)
    summary = grouped.agg(
        mean=("score", "mean"), std=("score", "std"), mean_rank=("rank", "mean"), repetitions=("score", "size")
    )
    return summary.reset_index()


def make_table1(table: pd.DataFrame, methods: tuple[str, ...]) -> pd.DataFrame:
    """Compute the average rank of X1, with standard error and published value; NaN for methods not run."""
    signal = table[table["feature"] == "X1"]
    rows = []
    for method in methods:
        for depth in (3, 10):
            for task in ("regression", "classification"):
                ranks = signal.query("method == @method and depth == @depth and task == @task")["rank"]
                if not len(ranks) and task not in set(signal["task"]):
                    continue
                rows.append(
                    {
                        "method": method,
                        "task": task,
                        "depth": depth,
                        "mean_rank": ranks.mean(),
                        "std_error": ranks.std() / np.sqrt(max(len(ranks), 1)),
                        "published": PUBLISHED_RANKS.get((method, task, depth)),
                    }
                )
    return pd.DataFrame(rows)


Claim = tuple[str, str, str]


def list_claims(name: str, summary: pd.DataFrame) -> list[Claim]:
    """List the paper's claims about an experiment: claim, published, measured."""
    makers = {"bias": _claim_bias, "ranking": _claim_ranking, "rna": _claim_rna, "adult": _claim_adult}
    makers["boston"] = _claim_boston
    return makers[name](summary)


def _claim_bias(summary: pd.DataFrame) -> list[Claim]:
    claims = []
    for task, published in (("classification", "X5"), ("regression", "X1")):
        part = summary[summary["task"] == task]
        if not len(part):
            continue
        si, ufi = _take_scores(part, "SI"), _take_scores(part, "UFI")
        claims.append((f"{task}: largest SI", published if _is_dummy(summary) else "X1", str(si["mean"].idxmax())))
        claims.append((f"{task}: SI of features without signal", "all above 0", f"lowest mean {si['mean'].min():.4f}"))
        error = ufi["std"] / np.sqrt(ufi["repetitions"])
        furthest = (ufi["mean"] / error).abs().max()
        claims.append((f"{task}: UFI", "spread around 0", f"furthest mean {furthest:.1f} standard errors from 0"))
    return claims


def _is_dummy(summary: pd.DataFrame) -> bool:
    return bool((summary["encoding"] == "dummy").all())


def _claim_ranking(summary: pd.DataFrame) -> list[Claim]:
    claims = []
    published = {("SI", "classification"): "> 0.2", ("SI", "regression"): "0.6", ("UFI", "classification"): "0.1"}
    published["UFI", "regression"] = "0.1"
    for task in summary["task"].unique():
        for method in ("SI", "UFI", "UFI centered"):
            part = summary.query("task == @task and method == @method")
            best = part.loc[part.groupby("rho")["mean_rank"].idxmin()].set_index("rho")["feature"]
            found = [rho for rho in best.index if rho > 0 and (best.loc[rho:] == "X2").all()]
            stated = published.get((method, task), "") if _is_dummy(summary) else "not stated"
            measured = f"{found[0]:.1f}" if found else "never"
            claims.append((f"{task}, {method}: rho from which X2 ranks first", stated, measured))
    return claims


def _take_scores(summary: pd.DataFrame, method: str) -> pd.DataFrame:
    return summary[summary["method"] == method].set_index("feature").sort_values("mean", ascending=False)


def _list_top(summary: pd.DataFrame, method: str, n: int) -> str:
    return ", ".join(_take_scores(summary, method).index[:n])


def _find_rank(summary: pd.DataFrame, method: str, feature: str) -> str:
    order = list(_take_scores(summary, method).index)
    return f"{order.index(feature) + 1} of {len(order)}"


def _show_score(summary: pd.DataFrame, method: str, feature: str) -> str:
    scores = _take_scores(summary, method)
    row = scores.loc[feature]
    return f"{row['mean']:+.5f} (sd {row['std']:.5f}; largest feature {scores['mean'].iloc[0]:.4f})"


def _choose_methods(summary: pd.DataFrame, *wanted: str) -> list[str]:
    return [method for method in wanted if method in set(summary["method"])]


def _claim_rna(summary: pd.DataFrame) -> list[Claim]:
    claims = [
        (f"{m}: top three", "-1, 1, fe", _list_top(summary, m, 3))
        for m in _choose_methods(summary, "SI", "UFI", "cforest")
    ]
    claims.append(("SI: rank of dfe", "4", _find_rank(summary, "SI", "dfe")))
    claims += [
        (f"{m}: rank of dfe", "much lower", _find_rank(summary, m, "dfe"))
        for m in _choose_methods(summary, "UFI", "cforest")
    ]
    return claims


def _claim_adult(summary: pd.DataFrame) -> list[Claim]:
    claims = [("SI: rank of random", "3", _find_rank(summary, "SI", "random"))]
    claims.append(("SI: rank of fnlwgt", "among the top three", _find_rank(summary, "SI", "fnlwgt")))
    for method in _choose_methods(summary, "UFI", "cforest", "ranger"):
        claims.append((f"{method}: random", "close to 0", _show_score(summary, method, "random")))
        claims.append((f"{method}: rank of fnlwgt", "last", _find_rank(summary, method, "fnlwgt")))
    return claims


def _claim_boston(summary: pd.DataFrame) -> list[Claim]:
    claims = [
        (f"{m}: top two", "RM, LSTAT", _list_top(summary, m, 2))
        for m in _choose_methods(summary, "SI", "UFI", "cforest", "ranger")
    ]
    for other in ("INDUS", "RAD"):
        si = _take_scores(summary, "SI")["mean"]
        measured = "above" if si["random"] > si[other] else "below"
        claims.append((f"SI: random relative to {other}", "above", measured))
    claims.append(("UFI: random", "close to 0", _show_score(summary, "UFI", "random")))
    return claims
