"""Does `sobol_mda` measure what it says? Total Sobol indices in closed form, with correlated columns.

Run: python experiments/published/sobol_mda.py [--n-jobs 1] [--repetitions 20] [--output FOLDER]

Writes sobol_mda.csv: scores beside the total Sobol indices of functions whose indices are known, E[Var(m(X) | the other
columns)] / Var(y), which is what Benard, Da Veiga & Scornet (Biometrika 2022) prove that Sobol-MDA converges to.
Columns are normal with variance 1, those of a pair correlated; the noise has a tenth of the variance of m(X). The
indices are derived here (`Design.find_indices`); the paper's own table is not reproduced.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from common import complete, parse_options, write_markdown, write_table
from sklearn.ensemble import RandomForestRegressor

import truewood as tw

N_TREES = 300
SIZES = (1000, 3000, 10_000)
NOISE = 0.1  # of the variance of m(X)
MEASURES = ("sobol_mda", "permutation", "mdi")


@dataclass(frozen=True)
class Design:
    """Five columns, of which (0, 1) and (3, 4) are correlated pairs.

    The switch: m(X) = a x0 x1 where x2 > 0, and b x3 x4 elsewhere. The sum: m(X) = a (x0 + x1) + b (x3 + x4) + x2.
    """

    kind: str
    a: float
    b: float
    first: float
    second: float

    def draw(self, rng: np.random.Generator, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw rows."""
        X = rng.standard_normal((n_rows, 5))
        X[:, 1] = self.first * X[:, 0] + np.sqrt(1 - self.first**2) * X[:, 1]
        X[:, 4] = self.second * X[:, 3] + np.sqrt(1 - self.second**2) * X[:, 4]
        if self.kind == "switch":
            mean = np.where(X[:, 2] > 0, self.a * X[:, 0] * X[:, 1], self.b * X[:, 3] * X[:, 4])
        else:
            mean = self.a * (X[:, 0] + X[:, 1]) + self.b * (X[:, 3] + X[:, 4]) + X[:, 2]
        return X, mean + rng.normal(0, np.sqrt(NOISE * self.find_variance()), n_rows)

    def find_variance(self) -> float:
        """Variance of m(X); E[(x0 x1)^2] = 1 + 2 first^2."""
        a, b, first, second = self.a, self.b, self.first, self.second
        if self.kind == "sum":
            return 2 * a**2 * (1 + first) + 2 * b**2 * (1 + second) + 1
        square = (a**2 * (1 + 2 * first**2) + b**2 * (1 + 2 * second**2)) / 2
        return square - ((a * first + b * second) / 2) ** 2

    def find_indices(self) -> np.ndarray:
        """E[Var(m(X) | the other columns)] / Var(y), column by column."""
        a, b, first, second = self.a, self.b, self.first, self.second
        one, other = a**2 * (1 - first**2), b**2 * (1 - second**2)
        if self.kind == "sum":
            parts = np.array([one, one, 1.0, other, other])
        else:
            moved = a**2 * (1 + 2 * first**2) + b**2 * (1 + 2 * second**2) - 2 * a * b * first * second
            parts = np.array([one / 2, one / 2, moved / 4, other / 2, other / 2])
        return parts / (self.find_variance() * (1 + NOISE))


DESIGNS = {
    "switch": Design("switch", 1.5, 1.0, 0.9, 0.6),
    "sum": Design("sum", 1.0, 1.0, 0.9, 0.0),
}


def measure(design: str, n_rows: int, number: int) -> list[dict[str, object]]:
    """Scores of the columns of a data set, as shares of the variance of y."""
    X, y = DESIGNS[design].draw(np.random.default_rng([number, n_rows, *design.encode()]), n_rows)
    forest = RandomForestRegressor(N_TREES, min_samples_leaf=5, random_state=number).fit(X, y)
    lines = []
    for name in MEASURES:
        share = tw.importance(forest, X, y, measure=name, inference=False, random_state=0, n_jobs=1).share
        lines += [
            {"design": design, "rows": n_rows, "measure": name, "column": j, "share": float(s)}
            for j, s in enumerate(share)
        ]
    return lines


def tabulate(lines: pd.DataFrame) -> pd.DataFrame:
    """Means beside the indices."""
    groups = lines.groupby(["design", "column", "measure", "rows"], sort=False)["share"]
    table = groups.agg(measured="mean", std_error="sem", repetitions="size").reset_index()
    index = [DESIGNS[row.design].find_indices()[row.column] for row in table.itertuples()]
    table.insert(2, "index", index)
    keys = table.assign(design=table["design"].map([*DESIGNS].index), measure=table["measure"].map(MEASURES.index))
    return table.loc[keys.sort_values(["design", "column", "measure", "rows"]).index].reset_index(drop=True)


def show(table: pd.DataFrame) -> str:
    """The table of README.md."""
    rows = []
    for (design, column), own in table.groupby(["design", "column"], sort=False):
        by = own.set_index(["measure", "rows"])["measured"]
        cells = [f"{by['sobol_mda', n]:.3f}" for n in SIZES] + [f"{by[name, SIZES[-1]]:.3f}" for name in MEASURES[1:]]
        rows.append([f"{design}, x{column}", f"{own['index'].iloc[0]:.3f}", *cells])
    sizes = [f"{n:,} rows" for n in SIZES]
    others = [f"`{name}`" for name in MEASURES[1:]]
    return write_markdown(pd.DataFrame(rows, columns=["column", "index", *sizes, *others]))


def main() -> None:
    """Measure what is missing, and write the table."""
    options = parse_options(__doc__, "sobol_mda", 20)
    cells = [(d, n, k) for k in range(options.repetitions) for n in SIZES for d in DESIGNS]
    lines = complete("sobol_mda", cells, options.checkpoint, options.n_jobs)
    print(show(write_table(tabulate(lines), options.table)))


if __name__ == "__main__":
    main()
