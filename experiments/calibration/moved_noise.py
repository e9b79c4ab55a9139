"""A feature that moves only the size of the noise: its scores by measure and number of rows.

Run: python experiments/calibration/moved_noise.py [--repetitions 60] [--n-jobs N]

Writes moved_noise.csv and moved_noise.png beside this script. The target always has mean zero; one
of six features determines whether its noise is small or three times as large. Both measures score the same forests.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from matplotlib.figure import Figure
from plots import ALPHA, COLORS
from scipy import stats
from sklearn.ensemble import RandomForestRegressor
from threadpoolctl import threadpool_limits

import truewood as tw

FOLDER = Path(__file__).parent
MEASURES = {"ufi": "ufi, as published", "ufi_centered": "ufi_centered, the default for regression"}
SIZES = (250, 500, 1000, 2000, 4000)


def score(n_rows: int, number: int) -> list[dict[str, float | int | str]]:
    """Scores of the feature that moves the noise in one data set, in units of their test errors, by measure."""
    rng = np.random.default_rng([n_rows, number])
    X = rng.standard_normal((n_rows, 6))
    y = np.where(X[:, 0] > 0, 3.0, 1.0) * rng.standard_normal(n_rows)
    with threadpool_limits(1):
        forest = RandomForestRegressor(50, random_state=number).fit(X, y)
        z_score = {measure: tw.importance(forest, X, y, measure=measure).z_score[0] for measure in MEASURES}
    return [{"measure": measure, "rows": n_rows, "z_score": z} for measure, z in z_score.items()]


def draw(table: pd.DataFrame, path: Path) -> None:
    """Draw mean z-scores over the number of rows, with twice their standard errors."""
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    ax = figure.subplots()
    for (measure, label), color in zip(MEASURES.items(), COLORS, strict=False):
        found = table[table["measure"] == measure]
        bars = 2 * found["std_error"]
        ax.errorbar(found["rows"], found["mean_z"], bars, color=color, marker="o", capsize=3, label=label)
    ax.axhline(0, color="black", linewidth=0.8)
    ax.set(xscale="log", xlabel="rows", ylabel="mean z-score, \u00b1 2 standard errors")
    ax.set_xticks(SIZES, [f"{size:,}" for size in SIZES])
    ax.minorticks_off()
    ax.set_title("A feature that affects only the noise variance should score zero", loc="left", fontsize=10)
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=60, help="data sets a number of rows")
    parser.add_argument("--n-jobs", type=int, default=-1, help="processes; all cores by default")
    options = parser.parse_args()
    found = Parallel(n_jobs=options.n_jobs)(
        delayed(score)(n_rows, number) for number in range(options.repetitions) for n_rows in SIZES
    )
    z_scores = pd.DataFrame([entry for entries in found for entry in entries])
    z_scores["is_rejected"] = z_scores["z_score"] >= stats.norm.isf(ALPHA)
    table = z_scores.groupby(["measure", "rows"], as_index=False).agg(
        mean_z=("z_score", "mean"),
        std_error=("z_score", "sem"),
        rejected_5=("is_rejected", "mean"),
        data_sets=("z_score", "size"),
    )
    table.to_csv(FOLDER / "moved_noise.csv", index=False, float_format="%.4g")
    draw(table, FOLDER / "moved_noise.png")
    print(table.to_string(index=False))


if __name__ == "__main__":
    main()
