"""Which columns does a forest need, given the others? Rejections of `sobol_mda` on data sets whose answer is known.

Run: python experiments/needed/study.py [--repetitions 100] [--designs PATTERN]

Writes tests.csv beside this file, from a checkpoint with a line per data set, from which a stopped run resumes.
Remove the checkpoint after a change to the library. Data set k of a design always has the same seed.
"""

from __future__ import annotations

import argparse
import warnings
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pandas as pd
from designs import DESIGNS

import truewood as tw
from truewood._checkpoint import Entry, append_to, read_entries

FOLDER = Path(__file__).parent
MEASURES = {"sobol_mda": "sobol_mda", "ufi": "auto"}
LEVEL = 0.05


def score_one(name: str, number: int) -> list[dict[str, object]]:
    """Scores, errors and p-values of all columns of a data set."""
    X, y, roles = DESIGNS[name].draw(np.random.default_rng([number, *name.encode()]))
    forest = DESIGNS[name].fit(X, y, number)
    lines = []
    for measure, asked in MEASURES.items():
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "bags were drawn by weight|.* rows are in every bag", UserWarning)
            result = tw.importance(forest, X, y, measure=asked)
        low, high = result.interval()
        found = {
            "score": result.values,
            "p_value": result.p_value,
            "std_error": result.std_error,
            "low": low,
            "high": high,
        }
        for j, role in enumerate(roles):
            numbers = {name: float(part[j]) for name, part in found.items()}
            lines.append({"role": role, "column": j, "measure": measure} | numbers)
    return lines


def tabulate(lines: pd.DataFrame) -> pd.DataFrame:
    """Rejections, errors as multiples of the true spread, and intervals that hold the mean score."""
    rows = []
    for (design, role, measure), own in lines.groupby(["design", "role", "measure"], sort=False):
        by_column = own.groupby("column")
        mean, spread = by_column["score"].transform("mean"), by_column["score"].transform("std")
        holds = (own["low"] <= mean) & (own["high"] >= mean)
        rows.append(
            {
                "design": design,
                "role": role,
                "measure": measure,
                "tests": len(own),
                "mean score": own["score"].mean(),
                "rejected at 5 %": (own["p_value"] <= LEVEL).mean(),
                "std error / spread": np.sqrt((own["std_error"] ** 2).mean() / (spread**2).mean()),
                "95 % intervals that hold": holds.mean(),
            }
        )
    return pd.DataFrame(rows)


def read_done(path: Path) -> list[Entry]:
    """Read what is done."""
    return read_entries(path, keys={"design", "number", "lines"}, label="tests.jsonl")


def main() -> None:
    """Score data sets that the checkpoint does not hold, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--designs", default="*")
    options = parser.parse_args()
    checkpoint = FOLDER / "tests.jsonl"
    done = {(entry["design"], entry["number"]) for entry in read_done(checkpoint)}
    with append_to(checkpoint) as append:
        for number in range(options.repetitions):
            for name in DESIGNS:
                if fnmatchcase(name, options.designs) and (name, number) not in done:
                    append({"design": name, "number": number, "lines": score_one(name, number)})
    entries = read_done(checkpoint)
    lines = pd.DataFrame([{"design": entry["design"], **line} for entry in entries for line in entry["lines"]])
    order = {name: k for k, name in enumerate(DESIGNS)}
    table = tabulate(lines.sort_values("design", key=lambda names: names.map(order), kind="stable"))
    table.to_csv(FOLDER / "tests.csv", index=False, float_format="%.4g")
    print(table.to_string(float_format=lambda number: f"{number:.3g}"))


if __name__ == "__main__":
    main()
