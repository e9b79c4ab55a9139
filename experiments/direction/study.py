"""How often the direction of a feature is correct, on tables where it is known.

Writes words.csv (shares of right words by model, table, noise, rows and feature) and thresholds.csv (the same for other
thresholds, all cases together) beside this file, in about seven minutes of one core. Run it from the root of the
repository: python experiments/direction/study.py
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from truewood._results.trends import find_directions, measure_trend, pick_rows
from truewood.tabular import FitSettings, score_table

FOLDER = Path(__file__).parent
ALPHA = 0.05
NOT_FOUND = "not found"
N_REPEATS = {200: 20, 1000: 15, 5000: 5}
NOISE = (1.0, 3.0)
THRESHOLDS = list(product((0.6, 0.65, 0.7, 0.75, 0.8, 0.9), (0.1, 0.2, 0.25, 0.3, 0.4)))

# What each feature does; the stand-in only goes with one that rises.
SHAPES = {
    "line up": "rising",
    "line down": "falling",
    "step": "rising",
    "saturates": "rising",
    "dips late": "rising",
    "falls late": "mixed",
    "valley": "mixed",
    "levels": "by level",
    "weak line": "rising",
    "stand-in": "rising",
    "noise": NOT_FOUND,
}
PARTNERS = {
    "xor a": "mixed",
    "xor b": "mixed",
    "up for 95 %": "rising",
    "up for 80 %": "rising",
    "up for 60 %": "mixed",
    "line up": "rising",
    "noise": NOT_FOUND,
}
SWITCHES = {"up for 95 %": 0.95, "up for 80 %": 0.8, "up for 60 %": 0.6}


def draw_shapes(rng: np.random.Generator, n_rows: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Additive features, each of variance 1 except the weak one."""
    names = [name for name in SHAPES if name not in ("levels", "stand-in")]
    X = pd.DataFrame(rng.uniform(-1, 1, (n_rows, len(names))), columns=names)
    X["levels"] = rng.choice(["north", "east", "south", "west"], n_rows)
    X["stand-in"] = X["line up"] + 0.5 * rng.uniform(-1, 1, n_rows)
    parts = [
        X["line up"],
        -X["line down"],
        X["step"] > 0.3,
        np.tanh(4 * X["saturates"] + 2),
        np.interp(X["dips late"], [-1, 0.7, 1], [0, 1, 0.9]),
        np.interp(X["falls late"], [-1, 0.5, 1], [0, 1, 0.4]),
        X["valley"] ** 2,
        X["levels"].map({"north": 0, "east": 2, "south": 1, "west": 3}),
    ]
    weak = 0.3 * X["weak line"] / X["weak line"].std()
    return X, sum((part - part.mean()) / part.std() for part in map(pd.Series, parts)).to_numpy() + weak.to_numpy()


def draw_partners(rng: np.random.Generator, n_rows: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Features whose effect depends on another one."""
    names = ["line up", *SWITCHES, "noise"]
    X = pd.DataFrame(rng.uniform(-1, 1, (n_rows, len(names))), columns=names) * np.sqrt(3)
    X["xor a"], X["xor b"] = (rng.integers(0, 2, n_rows) for _ in range(2))
    y = X["line up"] + 2.0 * (X["xor a"] ^ X["xor b"])
    for name, part in SWITCHES.items():
        X[f"switch of {name}"] = (rng.random(n_rows) < part).astype(int)
        y += X[name] * np.where(X[f"switch of {name}"], 1, -1)
    return X, y.to_numpy()


TABLES = {"shapes": (draw_shapes, SHAPES), "partners": (draw_partners, PARTNERS)}


def name_directions(table: str, model: str, n_rows: int, noise: float, seed: int) -> list[dict[str, object]]:
    """Draw a table, score it as the command does, and list the direction of each feature."""
    draw, truths = TABLES[table]
    rng = np.random.default_rng([seed, n_rows])
    X, y = draw(rng, n_rows)
    y = y + noise * rng.standard_normal(n_rows)
    if model == "forest, classes":
        y = np.where(y > np.median(y), "b high", "a low")
    is_boosted = model.startswith("boosting")
    settings = FitSettings(
        model="hist-gradient-boosting" if is_boosted else "random-forest", n_estimators=50, n_jobs=1, random_state=seed
    )
    scored = score_table(X.assign(y=y), "y", settings=settings)
    directions = find_directions(scored.result, scored.explanation, ALPHA)
    rows, lines = pick_rows(scored.explanation), []
    for j, name in enumerate(scored.result.feature_names.tolist()):
        if name not in truths:
            continue
        line = {"feature": name, "truth": truths[name], "word": directions[j].word or NOT_FOUND}
        if truths[name] not in ("by level", NOT_FOUND):
            moves = scored.explanation.values[rows, j]
            moves = moves if moves.ndim == 1 else moves[:, 1]
            trend = measure_trend(scored.explanation.data[rows, j].astype(float), moves)
            line |= {"rises": trend.rising, "explained": trend.explained}
        lines.append(line | {"table": table, "model": model, "n_rows": n_rows, "noise": noise})
    return lines


def say(rises: pd.Series, explained: pd.Series, clear: float, fewest: float) -> np.ndarray:
    """The words by other thresholds."""
    is_clear = explained >= fewest
    return np.select([is_clear & (rises >= clear), is_clear & (rises <= 1 - clear)], ["rising", "falling"], "mixed")


def start() -> None:
    cases = list(product(TABLES, ("forest, numbers", "forest, classes"), N_REPEATS, NOISE))
    cases += [(table, "boosting, numbers", 1000, 1.0) for table in TABLES]
    lines = []
    for table, model, n_rows, noise in cases:
        n_repeats = N_REPEATS[n_rows] if model.startswith("forest") else 5
        for seed in range(n_repeats):
            lines += name_directions(table, model, n_rows, noise, seed)
        print(table, model, n_rows, noise, file=sys.stderr, flush=True)
    said = pd.DataFrame(lines)
    said["is_found"] = said["word"] != NOT_FOUND
    said["is_right"] = (said["word"] == said["truth"]).where(said["is_found"])
    keys = ["model", "table", "noise", "n_rows", "feature", "truth"]
    words = said.groupby(keys, sort=False).agg(
        n_tables=("word", "size"), found=("is_found", "mean"), right_if_found=("is_right", "mean")
    )
    words.round(2).reset_index().to_csv(FOLDER / "words.csv", index=False, lineterminator="\n")
    known = said[said["is_found"] & said["rises"].notna()]
    found = []
    for clear, fewest in THRESHOLDS:
        is_right = say(known["rises"], known["explained"], clear, fewest) == known["truth"]
        parts = {
            "of rising and falling": known["truth"] != "mixed",
            "of mixed": known["truth"] == "mixed",
            "of all": known["truth"].notna(),
        }
        shares = {part: round(float(is_right[rows].mean()), 3) for part, rows in parts.items()}
        found.append({"part_of_way": clear, "part_explained": fewest, **shares})
    pd.DataFrame(found).assign(n=len(known)).to_csv(FOLDER / "thresholds.csv", index=False, lineterminator="\n")


if __name__ == "__main__":
    start()
