"""Does a score rank signals first on real covariates? The simulations of Agarwal et al. (2023) for MDI+.

Run: python experiments/published/mdi_plus.py [--n-jobs 1] [--repetitions 12] [--output FOLDER]

Writes mdi_plus.csv: mean AUROC by covariates, response, strength and number of rows. Designs and forests are those of
the authors' repository (github.com/Yu-Group/imodels-experiments, feature_importance/fi_config/mdi_plus): random rows
and columns of a real table, standardized; y depends on the first columns, by

- linear: x1 + ... + x5;
- polynomial: (1 + x1)(1 + x2) + (1 + x3)(1 + x4) + (1 + x5)(1 + x6);
- LSS (locally spiky sparse): 1(x1 > 0, x2 > 0) + 1(x3 > 0, x4 > 0) + 1(x5 > 0, x6 > 0);
- linear and LSS: x1 + x3 + x5, and the LSS terms;

with normal noise that leaves a share of the variance (the heritability), or as the log-odds of a class (LSS twice as
strong), some of whose labels are flipped. The authors publish plots without numbers, so no figures stand beside these.
Of their covariates only "enhancer" could be had: it runs if TRUEWOOD_CHIP names a folder with enhancer.csv of
github.com/csinva/imodels-data (data_cleaned), here with all 80 columns and as log(1 + x). The others are tables of
scikit-learn, without constant columns.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pandas as pd
from common import complete, find_auroc, find_data, has_data, parse_options, summarize, write_parts, write_table
from scipy.special import expit
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegressionCV, RidgeCV

import truewood as tw

ENHANCER = ("TRUEWOOD_CHIP", "enhancer.csv")
N_TREES = 100
TABLES = ("enhancer", "breast cancer", "digits")
RESPONSES = ("linear", "linear and LSS", "polynomial", "LSS")
# Share of the variance that the columns explain, or share of the labels that are flipped.
STRENGTHS = {"numbers": (0.1, 0.4), "classes": (0.25, 0.0)}
SIZES = (250, 500)


def read_covariates(table: str) -> np.ndarray:
    """Standardized columns of a real table."""
    if table == "enhancer":
        X = np.log1p(pd.read_csv(find_data(*ENHANCER)).drop(columns="target").to_numpy(dtype=float))
    else:
        X = (load_digits if table == "digits" else load_breast_cancer)().data
    X = X[:, np.ptp(X, axis=0) > 0]
    return (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)


def _multiply(X: np.ndarray) -> np.ndarray:
    return ((1 + X[:, 0:6:2]) * (1 + X[:, 1:6:2])).sum(axis=1)


def _count_pairs(X: np.ndarray) -> np.ndarray:
    return ((X[:, 0:6:2] > 0) & (X[:, 1:6:2] > 0)).sum(axis=1).astype(float)


def respond(response: str, X: np.ndarray) -> tuple[np.ndarray, int]:
    """The mean of y, and the number of signals."""
    if response == "linear":
        return X[:, :5].sum(axis=1), 5
    if response == "polynomial":
        return _multiply(X), 6
    return _count_pairs(X) + (0.0 if response == "LSS" else X[:, 0:6:2].sum(axis=1)), 6


def draw(table: str, response: str, kind: str, strength: float, n_rows: int, rng: np.random.Generator) -> tuple:
    """A data set; drawn again if y does not vary, as with indicators that are never both 1."""
    while True:
        X = read_covariates(table)
        X = X[rng.choice(len(X), n_rows, replace=False)][:, rng.permutation(X.shape[1])]
        mean, n_signals = respond(response, X)
        is_signal = np.arange(X.shape[1]) < n_signals
        if kind == "numbers" and mean.var() > 0:
            return X, mean + rng.normal(0, np.sqrt(mean.var() * (1 / strength - 1)), n_rows), is_signal
        if kind == "classes":
            y = (rng.random(n_rows) < expit((2 if response == "LSS" else 1) * mean)).astype(int)
            flipped = rng.choice(n_rows, round(strength * n_rows), replace=False)
            y[flipped] = 1 - y[flipped]
            if 10 < y.sum() < n_rows - 10:
                return X, y, is_signal


def _score(measure: str) -> Callable[..., np.ndarray]:
    def score(forest: object, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        return tw.importance(forest, X, y, measure=measure, inference=False, random_state=0, n_jobs=1).values

    return score


def fit_line(_forest: object, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Sizes of the coefficients of a ridge or logistic regression without trees; columns are standardized."""
    penalties = np.logspace(-2, 4, 13)
    if y.dtype.kind == "i":
        model = LogisticRegressionCV(Cs=1 / penalties[::2], l1_ratios=(0.0,), use_legacy_attributes=False, max_iter=500)
        return np.abs(np.ravel(model.fit(X, y).coef_))
    return np.abs(RidgeCV(penalties).fit(X, y).coef_)


PEERS = Path(__file__).parents[1] / "ranking" / "peers.py"


def score_mdi_plus(forest: object, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """MDI+ itself, as the study of rankings has it."""
    spec = spec_from_file_location("ranking_peers", PEERS)
    peers = module_from_spec(spec)
    spec.loader.exec_module(peers)
    return peers.score_mdi_plus(forest, X, y)


METHODS: dict[str, Callable[..., np.ndarray]] = {
    "MDI+": score_mdi_plus,
    "truewood `mdi_plus_oob`": _score("mdi_plus_oob"),
    "truewood, default": _score("auto"),
    "truewood `mdi_oob`": _score("mdi_oob"),
    "truewood `sobol_mda`": _score("sobol_mda"),
    "truewood `permutation`": _score("permutation"),
    "MDI": lambda forest, _X, _y: forest.feature_importances_,
    "ridge, no trees": fit_line,
}


def measure(table: str, response: str, kind: str, strength: float, n_rows: int, number: int) -> list[dict[str, object]]:
    """AUROC of all methods on a data set."""
    rng = np.random.default_rng([number, n_rows, round(100 * strength), *f"{table}{response}{kind}".encode()])
    X, y, is_signal = draw(table, response, kind, strength, n_rows, rng)
    if kind == "classes":
        forest = RandomForestClassifier(N_TREES, max_features="sqrt", random_state=number).fit(X, y)
    else:
        forest = RandomForestRegressor(N_TREES, max_features=0.33, min_samples_leaf=5, random_state=number).fit(X, y)
    line = {"covariates": table, "response": response, "kind": kind, "strength": strength, "rows": n_rows}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # splits without evaluation rows
        found = {name: find_auroc(is_signal, score(forest, X, y)) for name, score in METHODS.items()}
    return [line | {"number": number, "method": name, "auroc": auroc} for name, auroc in found.items()]


def tabulate(lines: pd.DataFrame) -> pd.DataFrame:
    """Means, and their differences from the default on the same data sets."""
    keys = ["covariates", "response", "kind", "strength", "rows"]
    usual = lines[lines["method"] == "truewood, default"].set_index([*keys, "number"])["auroc"]
    lines = lines.assign(
        gain=lines["auroc"] - usual.loc[list(lines[[*keys, "number"]].itertuples(index=False))].to_numpy()
    )
    table = summarize(lines, [*keys, "method"], "auroc")
    table["gain"] = summarize(lines, [*keys, "method"], "gain")["measured"]
    return table


def show(table: pd.DataFrame) -> str:
    """The tables of README.md: means over covariates, strengths and sizes."""
    columns = [f"{response}, {kind}" for kind in STRENGTHS for response in RESPONSES]
    named = table.assign(column=table["response"] + ", " + table["kind"])
    wide = named.pivot_table(index="method", columns="column", values="measured", sort=False)[columns]
    gains = table.groupby("method")["gain"]
    gain, error = gains.mean()[wide.index], gains.sem()[wide.index]
    differences = [f"{a:+.3f} ± {b:.3f}" if b > 0 else "" for a, b in zip(gain, error, strict=True)]
    means = wide.mean(axis=1).map("{:.3f}".format)
    parts = {"All responses": pd.DataFrame({"AUC": means, "minus the default": differences})}
    for kind, title in (("numbers", "Regression"), ("classes", "Classification")):
        own = wide.filter(regex=f", {kind}$").map("{:.3f}".format)
        parts[title] = own.rename(columns=lambda column: column.rpartition(", ")[0])
    return write_parts({title: part.reset_index() for title, part in parts.items()})


def main() -> None:
    """Measure what is missing, and write the table."""
    options = parse_options(__doc__, "mdi_plus", 12)
    tables = [name for name in TABLES if name != "enhancer" or has_data(*ENHANCER)]
    cells = [
        (table, response, kind, strength, n_rows, k)
        for k in range(options.repetitions)
        for table in tables
        for response in RESPONSES
        for kind, strengths in STRENGTHS.items()
        for strength in strengths
        for n_rows in SIZES
    ]
    lines = complete("mdi_plus", cells, options.checkpoint, options.n_jobs)
    print(show(write_table(tabulate(lines), options.table)))


if __name__ == "__main__":
    main()
