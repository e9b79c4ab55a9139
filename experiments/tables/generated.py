"""Tables as people export them: dirty texts, identifiers, groups and leaks, with the truth about each column.

`make(name, rng)` draws a table; `LEAKS` and `IDENTIFIERS` name the columns that should be left out. Without them, a
table has none: `make(name, rng, has_leaks=False)`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

Draw = Callable[[np.random.Generator, bool], pd.DataFrame]

TARGETS = {"orders": "Price", "patients": "recovered", "machines": "failures", "flats": "rent", "loans": "defaulted"}
LEAKS = {
    "orders": {"Price incl. VAT"},
    "patients": {"discharge note"},
    "machines": {"failures day shift", "failures night shift"},
    "flats": {"rent (k EUR)"},
    "loans": {"days overdue"},
}
IDENTIFIERS = {
    "orders": {"Order", "Customer ID"},
    "patients": {"record", "patient"},
    "machines": {"serial"},
    "flats": {"listing_id"},
    "loans": {"loan id", "client"},
}


def make(name: str, rng: np.random.Generator, *, has_leaks: bool = True) -> pd.DataFrame:
    return _DRAW[name](rng, has_leaks)


def draw_orders(rng: np.random.Generator, has_leaks: bool) -> pd.DataFrame:
    n = int(rng.integers(200, 1500))
    weight = rng.gamma(3.0, 1.0, n)
    price = 30 + 20 * weight + rng.normal(0, 10, n)
    table = pd.DataFrame(
        {
            "Order": np.arange(10_000, 10_000 + n),
            "Customer ID": [f"C-{k:04d}" for k in rng.integers(0, n // 4, n)],
            "shipped": [
                f"{d:%d.%m.%Y}" for d in pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 500, n), "D")
            ],
            "weight": [f"{w:.2f} kg" for w in weight],
            "carrier": rng.choice(["DHL", "UPS", "dpd", "n/a"], n),
            "discount": [f"{d}%" if d else "none" for d in rng.integers(0, 4, n) * 5],
            "Price": [f"€ {p:,.2f}" for p in price],
        }
    )
    return table.assign(**{"Price incl. VAT": [f"€ {1.19 * p:,.2f}" for p in price]}) if has_leaks else table


def draw_patients(rng: np.random.Generator, has_leaks: bool) -> pd.DataFrame:
    n = int(rng.integers(250, 900))
    age, dose = rng.integers(20, 90, n), rng.choice([5, 10, 20, 40], n)
    recovered = rng.random(n) < 1 / (1 + np.exp(0.06 * (age - 55) - 0.04 * dose))
    words = np.array(["quiet", "slept", "mild", "fever", "pain", "stable", "walks", "eats", "visit", "scan", "blood"])
    notes = [" ".join(rng.choice(words, 5)) for _ in range(n)]
    table = pd.DataFrame(
        {
            "record": [f"R{k}" for k in rng.permutation(10 * n)[:n]],
            "patient": rng.integers(0, n // 3, n),
            "age": np.where(rng.random(n) < 0.05, "?", age.astype(str)),
            "dose": [f"{d} mg" for d in dose],
            "smoker": rng.choice(["yes", "no", ""], n, p=[0.3, 0.6, 0.1]),
            "ward": rng.choice([f"W{k}" for k in range(20)], n),
            "recovered": np.where(recovered, "yes", "no"),
        }
    )
    if not has_leaks:
        return table
    return table.assign(
        **{"discharge note": [f"{t}, sent {'home' if r else 'on'}" for t, r in zip(notes, recovered, strict=True)]}
    )


def draw_machines(rng: np.random.Generator, has_leaks: bool) -> pd.DataFrame:
    n = int(rng.integers(200, 800))
    hours, heat = rng.gamma(4, 500, n), rng.normal(60, 12, n)
    day = rng.poisson(np.exp(0.0003 * hours + 0.02 * (heat - 60)) * 3)
    night = rng.poisson(np.exp(0.0003 * hours + 0.02 * (heat - 60)) * 5)
    table = pd.DataFrame(
        {
            "serial": [f"{rng.integers(16**6):06X}-{k}" for k in range(n)],
            "hours": [f"{h:,.0f}" for h in hours],
            "temperature": [f"{t:.1f} °C" for t in heat],
            "built": [f"{y}Q{q}" for y, q in zip(rng.integers(2005, 2022, n), rng.integers(1, 5, n), strict=True)],
            "operators": rng.integers(1, 9, n),  # a count
            "failures": day + night,
        }
    )
    return table.assign(**{"failures day shift": day, "failures night shift": night}) if has_leaks else table


def draw_flats(rng: np.random.Generator, has_leaks: bool) -> pd.DataFrame:
    n = int(rng.integers(150, 2000))
    area, rooms = rng.gamma(9, 8, n), rng.integers(1, 6, n)
    rent = 200 + 11 * area + 40 * rooms + rng.normal(0, 90, n)
    table = pd.DataFrame(
        {
            "listing_id": rng.permutation(9 * n)[:n] + 700_000,
            "area": [f"{a:.0f} m²" for a in area],
            "rooms": rooms,
            "family": rng.choice(["semi", "detached", "block", "tower", "terrace", "loft"], n),  # a category
            "built": rng.integers(1900, 2023, n),
            "pets": rng.choice(["y", "n"], n),
            "rent": [f"{r:,.2f}".replace(",", "_").replace(".", ",").replace("_", ".") for r in rent],
        }
    )
    return table.assign(**{"rent (k EUR)": (rent / 1000).round(2)}) if has_leaks else table


def draw_loans(rng: np.random.Generator, has_leaks: bool) -> pd.DataFrame:
    n = int(rng.integers(300, 1500))
    income, amount = rng.lognormal(10.3, 0.5, n), rng.lognormal(9, 0.7, n)
    defaulted = rng.random(n) < 1 / (1 + np.exp(2.5 - 3 * amount / income))
    table = pd.DataFrame(
        {
            "loan id": [f"{k:08d}" for k in rng.permutation(20 * n)[:n]],
            "client": rng.integers(1, n // 2, n),
            "income": [f"${i / 1000:.1f}k" for i in income],
            "amount": [f"${a:,.0f}" for a in amount],
            "opened": [
                f"{d:%m/%d/%Y}" for d in pd.Timestamp("2019-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D")
            ],
            "purpose": rng.choice(["car", "house", "travel", "other", "-"], n),
            "customers": rng.integers(0, 60, n),  # a count
            "defaulted": defaulted.astype(int),
        }
    )
    return table.assign(**{"days overdue": np.where(defaulted, rng.integers(90, 400, n), 0)}) if has_leaks else table


_DRAW: dict[str, Draw] = {
    "orders": draw_orders,
    "patients": draw_patients,
    "machines": draw_machines,
    "flats": draw_flats,
    "loans": draw_loans,
}
