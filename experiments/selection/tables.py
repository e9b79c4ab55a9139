"""Tables of the study: one line per design and method, and one line per method."""

from __future__ import annotations

import numpy as np
import pandas as pd
from designs import BESIDE, DESIGNS, NOISE, REAL, SIGNAL
from methods import NAMES

ALL = "all columns"
ORACLE = "only the signals"


def summarize(lines: pd.DataFrame) -> pd.DataFrame:
    """Means over the data sets of each design and method.

    A false discovery is a column of noise, in the wide sense also one beside the signals; its rate is the mean share
    among the columns that are kept, 0 where none is. Power is the share of the signals that are kept. Costs are in fits
    of one forest to all columns of the same data set, on the same machine.
    """
    answered = lines["problem"].isna()
    n_kept = lines[[SIGNAL, BESIDE, NOISE, REAL]].sum(axis=1).where(answered)
    divisor = n_kept.clip(lower=1)
    place = pd.MultiIndex.from_frame(lines[["design", "dataset"]])
    with_all = lines[lines["method"] == ALL].set_index(["design", "dataset"]).reindex(place)
    n_signals = lines["design"].map({name: design.roles.count(SIGNAL) for name, design in DESIGNS.items()})
    found = pd.DataFrame(
        {
            "design": lines["design"],
            "method": lines["method"],
            "answers": answered,
            "kept": n_kept,
            "false discovery": lines[NOISE] / divisor,
            "false discovery, wide": (lines[NOISE] + lines[BESIDE]) / divisor,
            "power": lines[SIGNAL] / n_signals.replace(0, np.nan),
            "fits": lines["seconds"] / lines["fit_seconds"],
            "score": lines["score"],
            "score gain": lines["score"] - with_all["score"].to_numpy(),
        }
    )
    by = found.groupby(["design", "method"])
    table = by.mean()
    table["fits"] = by["fits"].median()
    table["answers"] = by["answers"].sum()
    table["false discovery, error"] = by["false discovery"].sem()
    table["power, error"] = by["power"].sem()
    table.insert(0, "data sets", by.size())
    names = [(design, method) for design in DESIGNS for method in (ALL, ORACLE, *NAMES)]
    return table.reindex([name for name in names if name in table.index]).reset_index()


def compare_methods(summary: pd.DataFrame) -> pd.DataFrame:
    """Means over designs, the worst false discovery among them, and the median cost."""
    by = summary.groupby("method", sort=False)
    table = pd.DataFrame(
        {
            "data sets a design": by["data sets"].min(),
            "answers": by["answers"].sum(),
            "false discovery": by["false discovery"].mean(),
            "largest": by["false discovery"].max(),
            "wide": by["false discovery, wide"].mean(),
            "power": by["power"].mean(),
            "score gain": by["score gain"].mean(),
            "fits": by["fits"].median(),
        }
    )
    return table.reindex([name for name in (ALL, ORACLE, *NAMES) if name in table.index]).reset_index()


def write_markdown(table: pd.DataFrame) -> str:
    """The table of methods in docs/selection.md."""
    lines = ["| method | noise kept: mean, worst | power | score gain | fits |", "|---|---|---|---|---|"]
    for row in table.to_dict("records"):
        noise = f"{_write_share(row['false discovery'])}, {_write_share(row['largest'])}"
        cells = [noise, _write_share(row["power"]), f"{100 * row['score gain']:+.1f}", f"{row['fits']:.2g}"]
        lines.append(f"| {row['method']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _write_share(share: float) -> str:
    return f"{100 * share:.0f}%"
