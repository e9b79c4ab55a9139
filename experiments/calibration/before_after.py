"""Rates of errors, coverage and power before and after the variance was fitted to each feature.

Run: python experiments/calibration/before_after.py

Puts the tables of other studies side by side: null.csv, coverage.csv, conditions.csv and the study of selection's
residual_summary.csv, with null_before.csv and coverage_before.csv, which `study.py` wrote with the version before.
Data sets of a design have the same seeds in both versions. Rates are in percent, with standard errors: over data sets
where the other table has them, otherwise those of a proportion.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

FOLDER = Path(__file__).parent
KINDS = ("continuous", "binary", "20 levels")
VERSIONS = {"before": "_before", "after": ""}
NULL = {
    "a class of 1 %, 2000 rows": "a class of 1%, 2,000 rows",
    "numbers that are 0/1 at 2 %": "numbers that are 0/1 at 2%, 1,000 rows",
    "50 classes": "50 classes, 1,000 rows",
    "log-normal target, absolute error": "log-normal target, trees minimize the absolute error",
    "200 rows, 2000 features": "200 rows, 2,000 columns, classes",
    "200 rows, 2000 features, regression": "200 rows, 2,000 columns, regression",
    "a class of 4 %, four features": "a class of 4%, four features with signal",
    "even classes, four weak features": "even classes, four weak signals",
    "by class": "three classes, score of one class",
    "by class, a class of 5 %": "a class of 5%, score of that class",
}
COVERAGE = {
    "1000 rows, a class of 4 %": "a class of 4%",
    "1000 rows, a class of 4 %, 1.2 of four features": "a class of 4%, strongest of four signals",
    "1000 rows, a class of 4 %, 0.5 of four features": "a class of 4%, weakest of four signals",
    "150 rows, 100 features, weak": "150 rows, 100 columns, classes",
    "150 rows, 100 features, weak, regression": "150 rows, 100 columns, regression",
}
POWER = {
    "p > n": "more columns than rows, 100 trees",
    "p > n, 500 trees": "more columns than rows, 500 trees",
    "independent, 500 trees": "independent columns, 500 trees",
    "beside correlated noise, 500 trees": "signals next to correlated noise, 500 trees",
    "rare class, 500 trees": "a class of 7%, 500 trees",
    "4%, 4 of 15": "a class of 4%, 4 of 15 columns",
    "even, weak, 4 of 15": "even classes, weak signals, 4 of 15 columns",
}
NOISE = {
    "R2 = 0.9": "next to a column that explains 90%",
    "no signal, 1%": "a class of 1%, no signal",
    "no signal, 0/1 at 2%": "numbers that are 0/1 at 2%, no signal",
    "no signal, 50 classes": "50 classes, no signal",
    "no signal, 200 x 2,000": "200 rows, 2,000 columns, no signal",
}
CONDITIONS = {
    "copies, 5% of 300 rows, classes": "copies of 5% of the rows, classes",
    "copies, 5% of 300 rows, numbers": "copies of 5% of the rows, regression",
    "copies, 2% of 300 rows, classes": "copies of 2% of the rows, classes",
    "copies, 2% of 300 rows, numbers": "copies of 2% of the rows, regression",
    "copies, rare class of 30% oversampled": "a class of 30%, oversampled to half",
    "copies, SMOTE": "a class of 15%, filled up by SMOTE",
    "balanced, 21 of 300 rows rare, 0 out of bag": "balanced class weights, a class of 21 of 300 rows",
    "balanced, 70 of 1000 rows rare, 0 out of bag": "balanced class weights, a class of 70 of 1,000 rows",
    "heavy rows, 50, numbers": "5 of 300 rows with weight 50, regression",
    "early stopping, LightGBM, scoring rows": "LightGBM, stopped early on the evaluation rows",
    "early stopping, CatBoost, scoring rows": "CatBoost, stopped early on the evaluation rows",
    "series, 0.9, out of bag": "time series, correlation 0.9, out of bag",
    "series, 0.9, TimeSeriesSplit": "time series, correlation 0.9, `TimeSeriesSplit`",
    "series, 0.9, blocks of 50": "time series, correlation 0.9, scattered blocks of 50",
    "series, 0.9, blocks of 50 in five stretches": "time series, correlation 0.9, folds of consecutive blocks of 50",
    "target encoding outside of the model": "target encoding before the fit",
    "target encoding outside of the model, cross-fitted": "target encoding before the fit, cross-fitted",
    "target encoding in a pipeline, folds": "target encoding in a pipeline, `cross_importance`",
    "settled, two features, 3000 rows, regression": "2 features, 3,000 rows, regression",
    "settled, PCA pipeline": "pipeline with principal components",
    "settled, best of 20 forests": "best of 20 forests by `oob_score_`",
}
# Designs with a rate of single tests only.
ONLY_SINGLE = ("balanced", "heavy rows", "target encoding")
# What the version before did not say about a design.
WARNED = {"early stopping": "warned_early", "series": "warned_order"}
COLUMNS = ("rate", "error", "data_sets")
REJECTED, TOGETHER = "useless features rejected", "`total_p_value` rejected"
Cell = tuple[float, float, int]
Cells = Iterator[tuple[str, str, str, Cell]]  # rate, design, version and test, cell
WARNING = " (with a warning now)"


def find_rate(share: float, n: int, data_sets: int) -> Cell:
    """A proportion of n in percent, and its standard error."""
    return 100 * share, 100 * float(np.sqrt(share * (1 - share) / n)), data_sets


def read_null() -> Cells:
    """Rejections of useless features, of all kinds together."""
    for version, ending in VERSIONS.items():
        table = pd.read_csv(FOLDER / f"null{ending}.csv").query("kind in @KINDS")
        for design, name in NULL.items():
            tests = {"p_value": version, "residual_p_value": f"{version}, residual"}
            if design.startswith("by class"):
                tests = {"class_p_value": version}
            own = table[(table["design"] == design) & table["test"].isin(tests)]
            for test, found in own.groupby("test"):
                n = int(found["tests"].sum())
                share = float((found["rejected_5"] * found["tests"]).sum() / n)
                yield REJECTED, name, tests[str(test)], find_rate(share, n, found["data_sets"].max())


def read_selection() -> Cells:
    """Signals found after the correction, and useless features rejected without it."""
    table = pd.read_csv(FOLDER.parent / "selection" / "residual_summary.csv").query("test != 'univariate'")
    for rate, column, names in (("signals found", "power", POWER), (REJECTED, "noise", NOISE)):
        own = table[table["design"].isin(names)].sort_values("design", key=lambda all_: all_.map(list(names).index))
        for row in own.to_dict("records"):
            state = f"{row['label']}, residual" if row["test"] == "residual" else row["label"]
            yield rate, names[row["design"]], state, (row[column], row[f"{column}_se"], row["data_sets"])


def read_coverage() -> Cells:
    """Shares of intervals that contain the expected score."""
    for version, ending in VERSIONS.items():
        table = pd.read_csv(FOLDER / f"coverage{ending}.csv").query("signal == 'continuous'").set_index("design")
        for design, name in COVERAGE.items():
            n = int(table.loc[design, "data_sets"])
            cell = find_rate(float(table.loc[design, "coverage_95"]), n, n)
            yield "intervals that contain the expected score", name, version, cell


def read_conditions() -> Cells:
    """Rejections where conditions of the tests fail; no rate if all p-values are withheld."""
    table = pd.read_csv(FOLDER / "conditions.csv")
    warned = {
        design
        for start, column in WARNED.items()
        for design in table.loc[table["design"].str.startswith(start) & (table[column] > 0.5), "design"]
    }
    for row in table[table["design"].isin(CONDITIONS)].to_dict("records"):
        name, n = CONDITIONS[row["design"]] + WARNING * (row["design"] in warned), row["data_sets"]
        yield REJECTED, name, row["library"], (100 * row["rejected_5"], 100 * row["error"], n)
        if not row["design"].startswith(ONLY_SINGLE):
            yield TOGETHER, name, row["library"], (100 * row["rejected_total_5"], 100 * row["error_total"], n)


STUDIES = {
    "null.csv": read_null,
    "residual_summary.csv": read_selection,
    "conditions.csv": read_conditions,
    "coverage.csv": read_coverage,
}


def tabulate() -> pd.DataFrame:
    """A row per rate and design: percent, standard error and number of data sets by version and test."""
    rows: dict[tuple[str, str, str], dict[str, float]] = {}
    for study, read in STUDIES.items():
        for rate, name, state, cell in read():
            row = rows.setdefault((rate, name, study), {})
            row |= {f"{state}: {column}": number for column, number in zip(COLUMNS, cell, strict=True)}
    keys = ("rate", "design", "study")
    table = pd.DataFrame([dict(zip(keys, key, strict=True)) | row for key, row in rows.items()])
    order = {rate: place for place, rate in enumerate(dict.fromkeys(table["rate"]))}
    return table.sort_values("rate", key=lambda rates: rates.map(order), kind="stable", ignore_index=True)


def write_markdown(table: pd.DataFrame) -> str:
    """The table of README.md beside this script."""
    states = ("before", "after", "after, residual")
    lines = ["| rate | design | before | after | after, residual test |", "|---|---|---|---|---|"]
    for rate, own in table.groupby("rate", sort=False):
        for number, row in enumerate(own.to_dict("records")):
            cells = [write_cell(*(row[f"{state}: {column}"] for column in COLUMNS)) for state in states]
            lines.append(f"| {'' if number else rate} | {row['design']} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def write_cell(rate: float, error: float, data_sets: float) -> str:
    """Rate, standard error and, in parentheses, number of data sets."""
    if np.isnan(data_sets):
        return ""
    return "withheld" if np.isnan(rate) else f"{rate:.1f} ± {error:.1f}% ({data_sets:.0f})"


def main() -> None:
    table = tabulate()
    table.to_csv(FOLDER / "before_after.csv", index=False, float_format="%.4g")
    print(table.to_string(index=False, float_format=lambda number: f"{number:.2f}"))


if __name__ == "__main__":
    main()
