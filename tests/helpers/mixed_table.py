"""A table with columns of all kinds, and short ways to score it."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pandas as pd

from truewood.tabular import FitSettings, TableScore, score_table

N_ROWS = 300


def draw_table():
    """Columns of all kinds; x, member and city predict y and amount, the others are noise."""
    rng = np.random.default_rng(0)
    x, member, city = rng.normal(size=N_ROWS), rng.random(N_ROWS) < 0.4, rng.choice(["Rome", "Oslo", "Lima"], N_ROWS)
    signal = x + 2.0 * member + 1.5 * (city == "Rome")
    days = pd.to_timedelta(rng.integers(0, 800, N_ROWS), unit="D")
    return pd.DataFrame(
        {
            "id": np.arange(1, N_ROWS + 1),
            "x": x,
            "member": np.where(member, "yes", "no"),
            "city": city,
            "product": [f"P{k}" for k in rng.integers(0, 50, N_ROWS)],
            "when": (pd.Timestamp("2020-01-01") + days).strftime("%Y-%m-%d"),
            "comment": [" ".join(rng.choice(list("abcdefgh"), 6)) for _ in range(N_ROWS)],
            "country": "NZ",
            "amount": signal + rng.normal(size=N_ROWS),
            "y": np.where(signal + rng.logistic(size=N_ROWS) > 1.5, "stays", "leaves"),
        }
    )


TABLE = draw_table()


def add_types(table):
    """The same table with types of their own for dates, truth and categories."""
    return table.assign(
        when=pd.to_datetime(table["when"]), member=table["member"] == "yes", city=table["city"].astype("category")
    )


def score(table, target, *, n_estimators=60, **given):
    """Score a table with few trees and one thread; arguments are those of settings, or of `score_table`."""
    chosen = {field.name: given.pop(field.name) for field in fields(FitSettings) if field.name in given}
    settings = FitSettings(n_estimators=n_estimators, n_jobs=1, **chosen)
    return score_table(table, target, settings=settings, **given)


def wrap_result(result):
    """A score of nothing but a result."""
    nothing = {"explanation": None, "X": None, "model": None, "performance": None, "feature_groups": None}
    return TableScore(result=result, model_name="model", columns=[], messages=[], warnings=[], **nothing)


def find_values(scored):
    """The score of each feature."""
    return dict(zip(scored.result.feature_names.tolist(), scored.result.values.tolist(), strict=True))


def find_significant(scored, alpha=0.05):
    """Features that are significant."""
    return set(scored.result.feature_names[scored.result.adjusted_p_value("bh") <= alpha].tolist())


def find_dtypes(scored):
    """The dtype of each column."""
    return {column.name: column.dtype for column in scored.columns}
