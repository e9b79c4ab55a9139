"""Does a score rank signals above noise? The simulations of Li, Wang, Basu, Kumbier & Yu (NeurIPS 2019), for MDI-oob.

Run: python experiments/published/li_2019.py [--n-jobs 1] [--repetitions 40] [--output FOLDER]

Writes li_2019.csv: mean AUROC over data sets, beside what the authors published. Their figures are those that their
repository prints (github.com/shifwang/paper-debiased-feature-importance, the last cell of
simulations/05_simulations_for_noisy_feature_identification.ipynb), over 40 data sets; so are the designs (the notebook
04_generate_all_simulation_data.ipynb). Forests are theirs: 100 trees, 10 columns at each split, leaves of 1 row (deep)
or 100 rows (shallow).

The first two designs have real covariates, a ChIP experiment with 80 columns. They run if TRUEWOOD_CHIP names a folder
with 01_X_train.csv of github.com/csinva/imodels-data (data/enhancer); it is not part of this project.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd
from common import complete, find_auroc, find_data, has_data, parse_options, summarize, write_parts, write_table
from scipy.special import expit
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.preprocessing import minmax_scale

import truewood as tw

CHIP = ("TRUEWOOD_CHIP", "01_X_train.csv")
N_TREES = 100
N_SIGNALS = 5
DEPTHS = {"deep": 1, "shallow": 100}
Drawn = tuple[np.ndarray, np.ndarray, np.ndarray]

# Mean AUROC by method, for ChIP classes, ChIP numbers, levels classes, levels numbers.
PUBLISHED = {
    "shallow": {
        "MDI-oob": (0.9388, 0.9825, 0.7480, 0.5812),
        "UFI": (0.9390, 0.9798, 0.7490, 0.5641),
        "SHAP": (0.9120, 0.9720, 0.6767, 0.4624),
        "permutation": (0.4979, 0.9862, 0.5000, 0.5767),
        "MDI": (0.8772, 0.9705, 0.6317, 0.3967),
        "ranger, corrected": (0.7550, 0.9855, 0.5486, 0.4879),
        "party, cforest": (0.9004, 0.9794, 0.7009, 0.4883),
        "naive-oob": (0.8886, 0.9710, 0.5977, 0.3847),
    },
    "deep": {
        "MDI-oob": (0.8652, 0.9798, 0.7624, 0.5193),
        "UFI": (0.8838, 0.9892, 0.7243, 0.5371),
        "SHAP": (0.8205, 0.9630, 0.5480, 0.3254),
        "permutation": (0.5423, 0.9657, 0.4930, 0.5068),
        "MDI": (0.5969, 0.7057, 0.1179, 0.0921),
        "ranger, corrected": (0.7257, 0.9738, 0.5548, 0.4961),
        "party, cforest": (0.7883, 0.9290, 0.6489, 0.4994),
        "naive-oob": (0.6695, 0.7067, 0.1783, 0.0970),
    },
}
DESIGNS = ("ChIP, classes", "ChIP, numbers", "levels, classes", "levels, numbers")


def read_chip() -> np.ndarray:
    """The 80 columns of the ChIP experiment, scaled to 0 to 1."""
    return minmax_scale(pd.read_csv(find_data(*CHIP), index_col=0).to_numpy(dtype=float))


def draw_chip(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Real columns, five of them signals; the others are permuted one by one."""
    X = read_chip().copy()
    is_signal = np.zeros(X.shape[1], dtype=bool)
    is_signal[rng.choice(len(is_signal), N_SIGNALS, replace=False)] = True
    X[:, ~is_signal] = rng.permuted(X[:, ~is_signal], axis=0)
    return X, is_signal


def draw_levels(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Fifty columns of 2 to 51 levels; five of the first ten are signals."""
    X = np.column_stack([rng.integers(0, n_levels, 1000) for n_levels in range(2, 52)])
    is_signal = np.zeros(50, dtype=bool)
    is_signal[rng.choice(10, N_SIGNALS, replace=False)] = True
    return minmax_scale(X.astype(float)), is_signal


def draw(design: str, rng: np.random.Generator) -> Drawn:
    """A data set: a class, or a number, that depends on the mean of the signals."""
    columns, kind = design.split(", ")
    X, is_signal = (draw_chip if columns == "ChIP" else draw_levels)(rng)
    mean = X[:, is_signal].mean(axis=1)
    if kind == "classes":
        return X, (rng.random(len(X)) < expit((4 if columns == "ChIP" else 2) * mean)).astype(int), is_signal
    return X, mean + rng.normal(0, 100 * mean.var(), len(X)), is_signal


def _score(measure: str) -> Callable[..., np.ndarray]:
    def score(forest: object, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        return tw.importance(forest, X, y, measure=measure, inference=False, random_state=0, n_jobs=1).values

    return score


def _clip(forest: object, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.maximum(_score("mdi_oob")(forest, X, y), 0)


# The measure, and the published one beside it.
METHODS: dict[str, tuple[Callable[..., np.ndarray], str | None]] = {
    "truewood, default": (_score("auto"), None),
    "truewood `mdi_plus_oob`": (_score("mdi_plus_oob"), None),
    "truewood `mdi_oob`": (_score("mdi_oob"), None),
    "truewood `mdi_oob`, clipped at 0": (_clip, "MDI-oob"),
    "truewood `ufi`": (_score("ufi"), "UFI"),
    "truewood `permutation`": (_score("permutation"), "permutation"),
    "MDI": (lambda forest, _X, _y: forest.feature_importances_, "MDI"),
}


def measure(design: str, depth: str, number: int) -> list[dict[str, object]]:
    """AUROC of all methods on a data set."""
    X, y, is_signal = draw(design, np.random.default_rng([number, *design.encode()]))
    make = RandomForestClassifier if y.dtype.kind == "i" else RandomForestRegressor
    forest = make(N_TREES, max_features=10, min_samples_leaf=DEPTHS[depth], random_state=number).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # splits without evaluation rows
        found = {name: find_auroc(is_signal, score(forest, X, y)) for name, (score, _) in METHODS.items()}
    return [{"design": design, "depth": depth, "method": name, "auroc": auroc} for name, auroc in found.items()]


def list_published() -> pd.DataFrame:
    """The published figures, under the names of the measures that stand beside them."""
    names = {published: name for name, (_, published) in METHODS.items()}
    rows = [
        (design, depth, names.get(name, name), value)
        for depth, by_name in PUBLISHED.items()
        for name, values in by_name.items()
        for design, value in zip(DESIGNS, values, strict=True)
    ]
    return pd.DataFrame(rows, columns=["design", "depth", "method", "published"])


def tabulate(lines: pd.DataFrame) -> pd.DataFrame:
    """Means beside the published ones; methods that were only published come last."""
    published = list_published()
    table = summarize(lines, ["design", "depth", "method"], "auroc").merge(published, how="outer")
    order = list(dict.fromkeys([*METHODS, *published["method"]]))
    places = {"design": DESIGNS.index, "depth": [*DEPTHS].index, "method": order.index}
    keys = pd.DataFrame({name: table[name].map(place) for name, place in places.items()})
    return table.loc[keys.sort_values([*places]).index].reset_index(drop=True)


def show(table: pd.DataFrame) -> str:
    """The tables of README.md: measured, and published in parentheses."""
    cells = [
        (f"{row.measured:.2f}" if row.measured == row.measured else "")
        + (f" ({row.published:.2f})" if row.published == row.published else "")
        for row in table.itertuples()
    ]
    table = table.assign(cell=[cell.strip() for cell in cells], column=table["design"] + ", " + table["depth"])
    columns = [f"{design}, {depth}" for design in DESIGNS for depth in DEPTHS]
    wide = table.pivot_table(index="method", columns="column", values="cell", aggfunc="first").reindex(columns=columns)
    wide = wide.reindex(table["method"].unique()).dropna(axis=1, how="all")
    parts = {}
    for kind in dict.fromkeys(column.partition(", ")[0] for column in wide):
        own = wide.filter(regex=f"^{kind}, ")
        parts[kind[0].upper() + kind[1:]] = own.rename(columns=lambda column: column.partition(", ")[2]).reset_index()
    return write_parts(parts)


def main() -> None:
    """Measure what is missing, and write the table."""
    options = parse_options(__doc__, "li_2019", 40)
    designs = [name for name in DESIGNS if has_data(*CHIP) or not name.startswith("ChIP")]
    cells = [(design, depth, k) for k in range(options.repetitions) for design in designs for depth in DEPTHS]
    lines = complete("li_2019", cells, options.checkpoint, options.n_jobs)
    print(show(write_table(tabulate(lines), options.table)))


if __name__ == "__main__":
    main()
