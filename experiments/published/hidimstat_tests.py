"""Does truewood pass hidimstat's own tests? Its designs, and what its tests ask of them.

Run: python experiments/published/hidimstat_tests.py [--n-jobs 1] [--repetitions 40] [--output FOLDER]

Writes hidimstat_tests.csv. The designs are those of the tests of hidimstat 0.4 (github.com/mind-inria/hidimstat, folder
test): normal columns, a target that is the sum of some of them and noise. Data sets have the seeds 0, 1, ...; a test
of hidimstat uses the first ten of them, or one. truewood scores a forest and selects by the Benjamini-Hochberg
correction at the level that the test asks for; the methods of the tests run, on ten data sets, if hidimstat is
installed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import pandas as pd
from common import complete, find_auroc, parse_options, write_markdown, write_table
from scipy import stats
from scipy.linalg import toeplitz
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LassoCV, RidgeCV
from sklearn.model_selection import KFold

import truewood as tw

N_TREES = 500
N_OWN = 10  # data sets of hidimstat's tests


@dataclass(frozen=True)
class Design:
    """A data set of hidimstat's tests, the level they select at, and the power they ask for."""

    test: str
    n_rows: int
    n_columns: int
    n_signals: int
    signal_to_noise: float
    level: float
    asked: float
    correlation: float = 0.0  # of neighbors

    def draw(self, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Draw in hidimstat's order, so that data set k is that of its tests."""
        rng = np.random.default_rng(seed)
        covariance = toeplitz(self.correlation ** np.arange(self.n_columns))
        X = rng.multivariate_normal(np.zeros(self.n_columns), covariance, size=self.n_rows)
        is_signal = np.zeros(self.n_columns, dtype=bool)
        is_signal[rng.choice(self.n_columns, self.n_signals, replace=False)] = True
        signal, noise = X[:, is_signal].sum(axis=1), rng.standard_normal(self.n_rows)
        size = np.linalg.norm(signal) / (np.linalg.norm(noise) * np.sqrt(self.signal_to_noise))
        return X, signal + size * noise, is_signal


DESIGNS = {
    "18 of 50": Design("test_model_x_knockoff", 200, 50, 18, 10.0, 0.2, 0.7),
    "10 of 50, quantiles": Design("test_knockoff_bootstrap_quantile", 200, 50, 10, 5.0, 0.2, 0.2),
    "10 of 50, e-values": Design("test_knockoff_bootstrap_e_values", 200, 50, 10, 32.0, 0.2, 0.2),
    "5 of 50, LOCO": Design("test_loco_cv", 500, 50, 5, 8.0, 0.1, 0.8, correlation=0.1),
    "5 of 50, CFI": Design("test_cfi_cv", 500, 50, 5, 4.0, 0.05, 0.8, correlation=0.1),
}


def _test_forest(**options: str) -> Callable[..., tuple[np.ndarray, np.ndarray]]:
    def test(X: np.ndarray, y: np.ndarray, case: Design, seed: int) -> tuple[np.ndarray, np.ndarray]:
        forest = RandomForestRegressor(N_TREES, max_features=1 / 3, min_samples_leaf=5, random_state=seed).fit(X, y)
        result = tw.importance(forest, X, y, n_jobs=1, **options)
        return result.select(case.level, "bh"), result.values

    return test


def correlate(X: np.ndarray, y: np.ndarray, case: Design, _seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Correlation of each column alone with the target."""
    found = stats.pearsonr(X, y[:, np.newaxis], axis=0)
    return stats.false_discovery_control(found.pvalue) <= case.level, np.abs(found.statistic)


def run_hidimstat(X: np.ndarray, y: np.ndarray, case: Design, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The method of hidimstat's test: knockoffs with the lasso, drawn once, or LOCO or CFI of a ridge regression."""
    import hidimstat

    if "knockoff" in case.test:
        method = hidimstat.ModelXKnockoff(estimator=LassoCV(), n_repeats=1, random_state=seed + 1).fit(X, y)
        scores = np.ravel(method.importance())
    else:
        folds, ridge = KFold(5, shuffle=True, random_state=0), RidgeCV(np.logspace(-3, 3, 13))
        if case.test == "test_loco_cv":
            method = hidimstat.LOCOCV(ridge, folds)
        else:
            method = hidimstat.CFICV(ridge, folds, random_state=seed)
        scores = np.asarray(method.fit_importance(X, y)).mean(axis=1)  # over folds
    return np.asarray(method.fdr_selection(fdr=case.level)) > 0, scores


METHODS = {
    "truewood": _test_forest(),
    "truewood, residual test": _test_forest(inference="residual"),
    "truewood `mdi_plus_oob`": _test_forest(measure="mdi_plus_oob"),
    "correlation, column by column": correlate,
    "hidimstat": run_hidimstat,
}


def measure(design: str, method: str, seed: int) -> list[dict[str, object]]:
    """False discoveries, power and AUROC of a method on a data set."""
    case = DESIGNS[design]
    X, y, is_signal = case.draw(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the lasso's convergence
        is_found, scores = METHODS[method](X, y, case, seed)
    false = np.count_nonzero(is_found & ~is_signal) / max(np.count_nonzero(is_found), 1)
    power = is_found[is_signal].mean()
    line = {"design": design, "method": method, "seed": seed, "false": false, "power": float(power)}
    return [line | {"auroc": find_auroc(is_signal, scores)}]


def tabulate(lines: pd.DataFrame) -> pd.DataFrame:
    """Means beside what the tests ask for, also over the ten data sets of a test."""
    rows = []
    for (design, method), own in lines.groupby(["design", "method"], sort=False):
        case, first = DESIGNS[design], own[own["seed"] < N_OWN]
        rows.append(
            {
                "design": design,
                "test": case.test,
                "rows": case.n_rows,
                "level": case.level,
                "asked": case.asked,
                "method": method,
                "power": own["power"].mean(),
                "power_error": own["power"].sem(),
                "false": own["false"].mean(),
                "power_first": first["power"].mean(),
                "false_first": first["false"].mean(),
                "auroc": own["auroc"].mean(),
                "repetitions": len(own),
            }
        )
    order = pd.DataFrame(rows)
    keys = pd.DataFrame(
        {"design": order["design"].map([*DESIGNS].index), "method": order["method"].map([*METHODS].index)}
    )
    return order.loc[keys.sort_values(["design", "method"]).index].reset_index(drop=True)


def show(table: pd.DataFrame) -> str:
    """The table of README.md: power, and false discoveries in parentheses."""
    cells = [f"{row.power:.2f} ({100 * row.false:.0f}%)" for row in table.itertuples()]
    wide = table.assign(cell=cells).pivot_table(index="method", columns="design", values="cell", aggfunc="first")
    wide = wide.reindex(index=table["method"].unique(), columns=table["design"].unique())
    required = [f"> {row.asked} (< {100 * row.level:.0f}%)" for row in table.drop_duplicates("design").itertuples()]
    wide.loc["required"] = required
    return write_markdown(wide.reset_index())


def main() -> None:
    """Measure what is missing, and write the table."""
    options = parse_options(__doc__, "hidimstat_tests", 40)
    methods = [name for name in METHODS if name != "hidimstat" or find_spec("hidimstat")]
    cells = [(d, m, k) for k in range(options.repetitions) for d in DESIGNS for m in methods]
    cells = [(d, m, k) for d, m, k in cells if m != "hidimstat" or k < N_OWN]
    lines = complete("hidimstat_tests", cells, options.checkpoint, options.n_jobs)
    print(show(write_table(tabulate(lines), options.table)))


if __name__ == "__main__":
    main()
