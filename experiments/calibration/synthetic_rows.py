"""How often are SMOTE rows detected, and how often is a table without such rows flagged?

Run: python experiments/calibration/synthetic_rows.py [--repetitions 60]

The table, synthetic_rows.csv beside this script, has the share of tables in which synthetic rows are found. Needs
imbalanced-learn for the tables of SMOTE.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from truewood._rows.copies import encode_table
from truewood._rows.dependent_rows import has_synthetic_rows

Rng = np.random.Generator


def draw_amounts(rng: Rng, n_rows: int, n_columns: int, share: float) -> np.ndarray:
    """Amounts, a share of them zero."""
    return rng.gamma(1.0, 1.0, (n_rows, n_columns)) * (rng.random((n_rows, n_columns)) >= share)


def fill_means(rng: Rng, share: float) -> np.ndarray:
    """Missing values are replaced by the mean of the column."""
    X = rng.standard_normal((1000, 6))
    return np.where(rng.random(X.shape) < share, X.mean(axis=0), X)


def draw_units(rng: Rng) -> np.ndarray:
    """A temperature in three units, and two amounts."""
    celsius = rng.normal(20, 5, (2000, 1))
    return np.hstack([celsius, 1.8 * celsius + 32, celsius + 273.15, draw_amounts(rng, 2000, 2, 0.45)])


def draw_bills(rng: Rng) -> np.ndarray:
    """Price, quantity and their product."""
    price, quantity = rng.gamma(2, 5, 2000).round(2), rng.integers(1, 5, 2000) + rng.random(2000).round(2)
    return np.column_stack([price, quantity, price * quantity])


PLAIN: dict[str, Callable[[Rng], np.ndarray]] = {
    "300 rows of 3 amounts, 45% zeros": lambda rng: draw_amounts(rng, 300, 3, 0.45),
    "1000 rows of 4 amounts, 45% zeros": lambda rng: draw_amounts(rng, 1000, 4, 0.45),
    "1000 rows of 6 amounts, 45% zeros": lambda rng: draw_amounts(rng, 1000, 6, 0.45),
    "3000 rows of 5 amounts, 45% zeros": lambda rng: draw_amounts(rng, 3000, 5, 0.45),
    "3000 rows of 6 amounts, 30% zeros": lambda rng: draw_amounts(rng, 3000, 6, 0.3),
    "random walks": lambda rng: np.cumsum(rng.standard_normal((1000, 5)), axis=0),
    "six hidden units of two inputs": lambda rng: np.maximum(
        rng.standard_normal((1000, 2)) @ rng.standard_normal((2, 6)), 0
    ),
    "capped below": lambda rng: np.maximum(rng.standard_normal((1000, 6)), -0.6),
    "capped on both sides": lambda rng: np.clip(rng.standard_normal((2000, 4)), -0.9, 0.9),
    "half of the values from one profile": lambda rng: np.where(
        rng.random((1000, 6)) < 0.5, rng.standard_normal((1, 6)), rng.standard_normal((1000, 6))
    ),
    "shares that add up to 1": lambda rng: rng.dirichlet(np.full(4, 0.3), 1000),
    "rounded to 3 digits": lambda rng: rng.standard_normal((20_000, 3)).round(3),
    "single precision": lambda rng: rng.standard_normal((50_000, 3)).astype(np.float32),
    "Cauchy, cubed": lambda rng: rng.standard_cauchy((3000, 5)) ** 3,
    "log-normal": lambda rng: np.exp(4 * rng.standard_normal((3000, 4))),
    "bills": draw_bills,
    "three units": draw_units,
    "hinges of one column": lambda rng: np.maximum(
        rng.standard_normal((1000, 1)) - np.array([-1.0, -0.5, 0.0, 0.5]), 0
    ),
    "25% of the values are means": lambda rng: fill_means(rng, 0.25),
    "40% of the values are means": lambda rng: fill_means(rng, 0.4),
}


def resample(rng: Rng, share: float, n_rows: int, seed: int, *, held_out: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """A class of this share, filled up by SMOTE; in random order, or a random part."""
    from imblearn.over_sampling import SMOTE

    X, y = rng.standard_normal((n_rows, 6)), (np.arange(n_rows) < share * n_rows).astype(int)
    X, y = SMOTE(random_state=seed).fit_resample(X, y)
    order = rng.permutation(len(y))[: int(held_out * len(y))]
    return X[order], y[order]


def list_tables(seed: int) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Name, columns and classes of each table."""
    rng = np.random.default_rng(seed)
    for name, draw in PLAIN.items():
        X = draw(rng)
        yield name, X, rng.integers(0, 2, len(X))
    for share in (0.1, 0.2, 0.3, 0.4):
        for n_rows in (100, 300, 1000):
            yield f"SMOTE, {n_rows} rows, a class of {share:.0%}", *resample(rng, share, n_rows, seed)
    yield "SMOTE, 30% of 1000 rows, a class of 10%", *resample(rng, 0.1, 1000, seed, held_out=0.3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=60, help="tables of each kind")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_suffix(".csv"))
    options = parser.parse_args()
    found: dict[str, int] = {}
    for seed in range(options.repetitions):
        for name, X, y in list_tables(seed):
            found[name] = found.get(name, 0) + has_synthetic_rows(encode_table(X), y)
    table = pd.DataFrame(
        {
            "kind": list(found),
            "tables": options.repetitions,
            "found": [n_found / options.repetitions for n_found in found.values()],
        }
    )
    table.to_csv(options.output, index=False, float_format="%.4g")
    print(table.to_string(index=False, float_format=lambda share: f"{share:.0%}"))


if __name__ == "__main__":
    main()
