"""Leaks and identifiers, most of them not written along the patterns of the checks, injected into public tables.

    pip install statsmodels scikit-survival
    python experiments/tables/injected.py

Writes injected.csv beside this file, in a few minutes of one core: no model is fit. One column is added to a table at
a time (two for some leaks), at a random place. `control` columns should be used: other columns that are left out
beside an injected one, but not without it, are counted too. A leak counts as left out whatever the reason, and an
identifier only if it is called one. Identifiers have each of `NAMES`: the first says nothing, the second tells a
reader, the third follows the checks. `exceptions` are the tables in which the column was left out, or those in which it
was not, whichever are fewer. `nothing` lists what is left out of the public tables themselves.
"""

from __future__ import annotations

import csv
import hashlib
import uuid
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import sksurv.datasets
import statsmodels.api as sm
from sklearn import datasets as sklearn_datasets

from truewood.tabular import describe_table

FOLDER = Path(__file__).parent
FIELDS = ["kind", "injected", "name", "tables", "left_out", "others_left_out", "exceptions", "others"]
IDENTIFYING = ("identifier", "group identifier")
NAMES = ("code", "case number", "ref_id")

SKLEARN = {"iris": "target", "wine": "target", "breast_cancer": "target", "diabetes": "target", "linnerud": "Weight"}
STATSMODELS = {
    "anes96": "vote",
    "ccard": "AVGEXP",
    "copper": "WORLDCONSUMPTION",
    "danish_data": "lrm",
    "engel": "foodexp",
    "fair": "affairs",
    "grunfeld": "invest",
    "macrodata": "infl",
    "modechoice": "choice",
    "randhie": "mdvis",
    "scotland": "YES",
    "spector": "GRADE",
    "star98": "NABOVE",
    "statecrime": "murder",
    "strikes": "duration",
}
SURVIVAL = ("aids", "breast_cancer", "cgvhd", "flchain", "gbsg2", "veterans_lung_cancer", "whas500")
# Rows in order of time.
SERIES = ("danish_data", "macrodata", "copper")

Values = np.ndarray
Rng = np.random.Generator


def load_all() -> Iterator[tuple[str, pd.DataFrame, dict[str, str]]]:
    """Name, table, and the target, with the event for survival."""
    for name, target in SKLEARN.items():
        yield f"sklearn/{name}", getattr(sklearn_datasets, f"load_{name}")(as_frame=True).frame, {"target": target}
    for name, target in STATSMODELS.items():
        table = getattr(sm.datasets, name).load_pandas().data.reset_index(drop=True)
        yield f"statsmodels/{name}", table, {"target": target}
    for name in SURVIVAL:
        X, y = getattr(sksurv.datasets, f"load_{name}")()
        event, time = y.dtype.names
        table = X.reset_index(drop=True).assign(**{event: y[event] == 1, time: y[time]})
        yield f"sksurv/{name}", table[table[time] > 0].reset_index(drop=True), {"target": time, "event": event}


def round_to(y: Values, digits: int) -> Values:
    """Round the largest values to so many significant digits, and the others to the same place."""
    place = digits - 1 - int(np.floor(np.log10(np.abs(y).max())))
    return np.round(y, place)


def cut(y: Values, n_bins: int) -> list[str]:
    return [f"{interval.left:g} to {interval.right:g}" for interval in pd.qcut(y, n_bins, duplicates="drop")]


def pick(table: pd.DataFrame, y: Values, rng: Rng) -> Values:
    """A numeric column of the table at random, else normal numbers, with the standard deviation of the target."""
    numbers = table.select_dtypes("number").dropna(axis=1)
    numbers = numbers.loc[:, numbers.nunique() > 5]
    x = numbers[rng.choice(numbers.columns)].to_numpy(float) if numbers.shape[1] else rng.normal(size=len(y))
    return y.std() * (x - x.min()) / x.std()


def say_dates(days: Values) -> list[str]:
    return [f"{day:%Y-%m-%d}" if day == day else "" for day in pd.Timestamp("2015-03-01") + pd.to_timedelta(days, "D")]


def number_leaks(y: Values, table: pd.DataFrame, rng: Rng) -> dict[str, Any]:
    n, scale, other = len(y), y.std(), pick(table, y, rng)
    start = rng.integers(0, 1500, n)
    days = np.round(1000 * (y - y.min()) / np.ptp(y))
    return {
        "rounded to 2 digits": round_to(y, 2),
        "rounded to 1 digit": round_to(y, 1),
        "20 quantile bins": cut(y, 20),
        "4 quantile bins": cut(y, 4),
        "rank": pd.Series(y).rank().to_numpy(),
        "percentile in the table, rounded": np.round(100 * pd.Series(y).rank(pct=True)).to_numpy(),
        "log": np.log(y - y.min() + 0.01 * scale),
        "square": (y - y.min()) ** 2,
        "distance from the mean, squared": (y - y.mean()) ** 2,
        "linear (degrees)": 1.8 * y + 32,
        "text with unit": [f"approx. {value:.4g} kWh" for value in y],
        "noise, correlation 0.999": y + rng.normal(0, 0.0447 * scale, n),
        "noise, correlation 0.99": y + rng.normal(0, 0.1425 * scale, n),
        "half of the rows, others missing": np.where(rng.random(n) < 0.5, y, np.nan),
        "exact for 90%, others permuted": np.where(rng.random(n) < 0.9, y, rng.permutation(y)),
        "sum with another column": y + other,
        "ratio to another column": y / (other + scale),
        "two dates that lie it apart": (say_dates(start), say_dates(start + days)),
        "flag: above the median": np.where(y > np.median(y), "yes", "no"),
        "flag: highest tenth": (y >= np.quantile(y, 0.9)).astype(int),
    }


def series_leaks(y: Values) -> dict[str, Any]:
    return {
        "target of the next row": np.append(y[1:], np.nan),
        "mean of this row and the two beside it": pd.Series(y).rolling(3, center=True, min_periods=1).mean(),
        "running total": np.cumsum(y - y.min()),
    }


def class_leaks(y: Values, rng: Rng) -> dict[str, Any]:
    n, code = len(y), np.unique(y, return_inverse=True)[1]
    n_classes = code.max() + 1

    def change(share: float) -> Values:
        return np.where(rng.random(n) < share, rng.integers(0, n_classes, n), code)

    labels = np.array([f"group {chr(65 + k)}" for k in range(n_classes)])
    happened, mask = code == n_classes - 1, rng.integers(0, n_classes, n)
    return {
        "other labels": labels[code],
        "other labels, 1% of rows redrawn": labels[change(0.01)],
        "other labels, 5% of rows redrawn": labels[change(0.05)],
        "5 subclasses of each": [f"{labels[k]}{rng.integers(5)}" for k in code],
        "prefix of a code": [f"{chr(75 + k)}{rng.integers(1000, 10_000)}" for k in code],
        "ranges of a number": code + rng.uniform(0, 0.9, n),
        "noise of 0.15": code + rng.normal(0, 0.15, n),
        "noise of 0.3": code + rng.normal(0, 0.3, n),
        "half of the rows, others missing": np.where(rng.random(n) < 0.5, labels[code], None),
        "number that only the last class has": np.where(happened, rng.gamma(2.0, 10.0, n), np.nan),
        "date that only the last class has": say_dates(np.where(happened, rng.integers(0, 900, n), np.nan)),
        "flag: last class": np.where(happened, "yes", "no"),
        "two columns whose sum is the class": (mask, (code - mask) % n_classes),
    }


def identifiers(n: int, rng: Rng) -> dict[str, Any]:
    order, group = rng.permutation(n), rng.integers(0, max(6, n // 8), n)
    site = rng.integers(0, 10, n)
    return {
        "shuffled integers": order + 1,
        "row number in steps of 10": 10 * np.arange(1, n + 1),
        "random 9-digit integers": rng.choice(10**9 - 10**8, n, replace=False) + 10**8,
        "seconds since 1970": 1_600_000_000 + np.cumsum(rng.integers(20, 90_000, n)),
        "fractions (row number / rows)": (order + 1) / n,
        "zero-padded strings": [f"{k:07d}" for k in order],
        "UUIDs": [str(uuid.UUID(bytes=rng.bytes(16), version=4)) for _ in range(n)],
        "hashes": [hashlib.sha256(f"{k}".encode()).hexdigest()[:12] for k in order],
        "composite (A-0012-x)": [f"{chr(65 + s)}-{k:04d}-x" for s, k in zip(site, order, strict=True)],
        "number in a site (3/17)": [
            f"{s}/{k}" for s, k in zip(site, pd.Series(site).groupby(site).cumcount() + 1, strict=True)
        ],
        "e-mail addresses": [f"user{k}@example.org" for k in order],
        "groups: integers": group + 1,
        "groups: random 6-digit integers": rng.choice(10**6, group.max() + 1, replace=False)[group],
        "groups: zero-padded strings": [f"{k:05d}" for k in group],
        "groups: composite (S-012)": [f"S-{k:03d}" for k in group],
        "groups: hashes": [hashlib.sha256(f"{k}".encode()).hexdigest()[:8] for k in group],
        "groups: blocks of 4 rows": np.arange(n) // 4,
    }


def controls(y: Values, n: int, rng: Rng) -> dict[str, Any]:
    """Columns that describe rows; the first are related to the target as strongly as good features are."""
    z = (y - y.mean()) / y.std()
    return {
        "correlation 0.95": z + rng.normal(0, 0.329, n),
        "correlation 0.8": z + rng.normal(0, 0.75, n),
        "normal": rng.normal(size=n),
        "normal, 1 decimal": np.round(rng.normal(20, 5, n), 1),
        "counts": rng.poisson(6, n),
        "money in whole units": np.round(rng.lognormal(10, 0.8, n)),
        "8 levels": rng.choice(list("abcdefgh"), n),
        "60 unequal levels": [f"town {k}" for k in np.minimum(rng.geometric(0.08, n), 60)],
        "integers of 1 to 90": rng.integers(1, 91, n),
    }


def left_out(table: pd.DataFrame, roles: dict[str, str]) -> dict[str, str]:
    """The types of columns that are left out as leaks or identifiers, or for another reason."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        columns = describe_table(table, **roles)
    return {column.name: column.dtype for column in columns if not column.is_used and column.name not in roles.values()}


def inject(
    kind: str, what: str, name: str, values: Any, table: pd.DataFrame, roles: dict[str, str], usual: dict[str, str]
) -> tuple[bool, set[str]]:
    """Whether the new column is left out, and others that are left out beside it only."""
    added = dict(zip((name, "second column"), values, strict=True)) if isinstance(values, tuple) else {name: values}
    # By a checksum, so that a place does not depend on other kinds.
    rng = np.random.default_rng(zlib.crc32(f"{what} {name} {roles}".encode()))
    for column, its_values in added.items():
        table = table.copy()
        table.insert(int(rng.integers(table.shape[1] + 1)), column, np.asarray(its_values))
    found = left_out(table, roles)
    is_found = found.get(name) in IDENTIFYING if kind == "identifier" else not added.keys().isdisjoint(found)
    return is_found, set(found) - set(usual) - set(added)


def start() -> None:
    results: dict[tuple[str, str, str], list[tuple[str, bool, set[str]]]] = {}
    lines = []
    for seed, (place, table, roles) in enumerate(load_all()):
        table.columns = table.columns.map(str)
        usual = left_out(table, roles)
        named = "; ".join(f"{column} ({dtype})" for column, dtype in usual.items())
        lines.append(["nothing", place, "", 1, len(usual), "", "", named])
        target, short = roles["target"], place.split("/")[1]
        features = table.drop(columns=list(roles.values()))
        y, rng = table[target].to_numpy(float), np.random.default_rng(seed)
        is_class = "event" not in roles and len(np.unique(y)) < 5
        drawn = {"class leak": class_leaks(y, rng)} if is_class else {"number leak": number_leaks(y, features, rng)}
        if short in SERIES:
            drawn["time series leak"] = series_leaks(y)
        drawn |= {"identifier": identifiers(len(table), rng), "control": controls(y, len(table), rng)}
        cases = [
            (kind, what, name, values)
            for kind, columns in drawn.items()
            for what, values in columns.items()
            for name in (NAMES if kind == "identifier" else NAMES[:1])
        ]
        for kind, what, name, values in cases:
            found = inject(kind, what, name, values, table, roles, usual)
            results.setdefault((kind, what, name), []).append((place, *found))
        print(place, table.shape, "classes" if is_class else "numbers", flush=True)
    for (kind, what, name), found in results.items():
        places: dict[bool, list[str]] = {True: [], False: []}
        for place, is_found, _ in found:
            places[is_found].append(place)
        others = [f"{place}: {', '.join(sorted(columns))}" for place, _, columns in found if columns]
        exceptions = "; ".join(min(places.values(), key=len))
        lines.append([kind, what, name, len(found), len(places[True]), len(others), exceptions, "; ".join(others)])
    with (FOLDER / "injected.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(FIELDS)
        writer.writerows(lines)


if __name__ == "__main__":
    start()
