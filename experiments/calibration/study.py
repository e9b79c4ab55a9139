"""Are the p-values and intervals right? Simulated data sets without and with signal, and what the tests say of them.

Run: python experiments/calibration/study.py null|coverage|power|all [--repetitions N] [--n-jobs N]

Each writes a CSV file beside this script, and pictures. Data set k of a design always has the same seed, so the same
command gives the same files.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from matplotlib.figure import Figure
from scipy import stats
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.inspection import permutation_importance
from sklearn.model_selection import train_test_split

import truewood as tw

HERE = Path(__file__).parent
KINDS = ("continuous", "binary", "20 levels")
ALPHA = 0.05


@dataclass(frozen=True)
class Design:
    """A way to draw data sets and a model to fit to them."""

    n_rows: int = 500
    task: str = "classification"
    model: Callable[..., Any] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    measure: str = "ufi"
    per_kind: int = 3  # features without signal of each kind
    correlation: float = 0.0  # between the features
    classes: tuple[float, ...] = (0.5, 0.5)
    noise: str = "normal"  # of a regression target: normal, t2, shifted
    weighted: bool = False
    held_out: bool = False
    signal: str | None = None  # kind of an informative feature, put first
    strength: float = 0.0


FEW, MANY = {"n_estimators": 20}, {"n_estimators": 500}
SHALLOW = {"max_depth": 3}
REG = {"task": "regression"}
NULL = {
    "100 rows": Design(n_rows=100),
    "100 rows, regression": Design(n_rows=100, **REG),
    "500 rows": Design(),
    "500 rows, regression": Design(**REG),
    "2000 rows": Design(n_rows=2000),
    "5000 rows, regression": Design(n_rows=5000, options={"max_features": 3, "n_estimators": 50}, **REG),
    "one class in twenty": Design(n_rows=1000, classes=(0.95, 0.05)),
    "three classes": Design(classes=(0.5, 0.3, 0.2)),
    "heavy tails": Design(noise="t2", **REG),
    "shifted target": Design(noise="shifted", **REG),
    "correlated features": Design(correlation=0.9),
    "correlated features, regression": Design(correlation=0.9, **REG),
    "150 features": Design(per_kind=50),
    "depth 3": Design(options=SHALLOW),
    "depth 3, regression": Design(options=SHALLOW, **REG),
    "leaves of 20 rows, regression": Design(options={"min_samples_leaf": 20}, **REG),
    "20 trees": Design(options=FEW),
    "20 trees, regression": Design(options=FEW, **REG),
    "500 trees": Design(n_rows=300, options=MANY),
    "extra trees": Design(model=ExtraTreesClassifier, options={"bootstrap": True}),
    "sample weights": Design(weighted=True),
    "sample weights, regression": Design(weighted=True, **REG),
    "another feature has signal": Design(signal="continuous", strength=1.0),
    "another feature has signal, regression": Design(signal="continuous", strength=1.0, **REG),
    "centred, regression": Design(measure="ufi_centered", **REG),
    "centred": Design(measure="ufi_centered"),
    "mdi_oob": Design(measure="mdi_oob"),
    "mdi_oob, regression": Design(measure="mdi_oob", **REG),
    "forest, held-out rows": Design(held_out=True),
    "boosting, held-out rows": Design(model=GradientBoostingClassifier, options=SHALLOW, held_out=True),
    "boosting, held-out rows, regression": Design(
        model=GradientBoostingRegressor, options=SHALLOW, held_out=True, **REG
    ),
    "hist boosting, held-out rows": Design(
        model=HistGradientBoostingRegressor, options={"max_iter": 50}, held_out=True, **REG
    ),
}


def _cover(**options: Any) -> dict[str, Design]:
    return {kind: Design(signal=kind, **options) for kind in KINDS}


COVERAGE = {
    f"{name}, {kind}": design
    for name, options in {
        "200 rows": {"n_rows": 200, "strength": 1.0},
        "200 rows, regression": {"n_rows": 200, "strength": 1.0, **REG},
        "1000 rows": {"n_rows": 1000, "strength": 1.0},
        "1000 rows, regression": {"n_rows": 1000, "strength": 1.0, **REG},
        "1000 rows, weak": {"n_rows": 1000, "strength": 0.3},
        "1000 rows, weak, regression": {"n_rows": 1000, "strength": 0.3, **REG},
        "500 rows, depth 3": {"n_rows": 500, "strength": 0.5, "options": SHALLOW},
        "500 rows, centred, regression": {"n_rows": 500, "strength": 0.5, "measure": "ufi_centered", **REG},
        "boosting, held-out": {
            "n_rows": 500,
            "strength": 0.5,
            "model": GradientBoostingRegressor,
            "options": SHALLOW,
            "held_out": True,
            **REG,
        },
    }.items()
    for kind, design in _cover(**options).items()
}


def draw_features(rng: np.random.Generator, kinds: list[str], n_rows: int, correlation: float) -> np.ndarray:
    shared = rng.standard_normal((n_rows, 1))
    latent = np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * rng.standard_normal((n_rows, len(kinds)))
    columns = []
    for kind, column in zip(kinds, latent.T, strict=True):
        if kind == "binary":
            column = column > 0
        elif kind == "20 levels":
            column = np.floor(20 * stats.norm.cdf(column)).clip(0, 19)
        columns.append(column)
    return np.column_stack(columns).astype(float)


def draw_target(rng: np.random.Generator, design: Design, x: np.ndarray | None, n_rows: int) -> np.ndarray:
    signal = np.zeros(n_rows)
    if x is not None:
        levels = np.random.default_rng(7).standard_normal(20)
        effect = {"continuous": x, "binary": 2 * x - 1, "20 levels": levels[x.astype(int) % 20]}[design.signal or ""]
        signal = design.strength * effect
    if design.task == "classification":
        if x is not None:
            return (rng.random(n_rows) < 1 / (1 + np.exp(-2 * signal))).astype(int)
        y = rng.choice(len(design.classes), n_rows, p=design.classes)
        y[: len(design.classes)] = np.arange(len(design.classes))
        return y
    noise = rng.standard_t(2, n_rows) if design.noise == "t2" else rng.standard_normal(n_rows)
    return signal + noise + (1000.0 if design.noise == "shifted" else 0.0)


def list_kinds(design: Design) -> list[str]:
    return ([design.signal] if design.signal else []) + [kind for kind in KINDS for _ in range(design.per_kind)]


def fit_and_score(design: Design, seed: int) -> dict[str, list[float]]:
    """Scores, standard errors and p-values on one data set; for held-out rows also of one large held-out set."""
    rng = np.random.default_rng([seed, design.n_rows, len(design.options)])
    kinds = list_kinds(design)

    def draw(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
        X = draw_features(rng, kinds, n_rows, design.correlation)
        return X, draw_target(rng, design, X[:, 0] if design.signal else None, n_rows)

    X, y = draw(design.n_rows)
    make = design.model or (RandomForestClassifier if design.task == "classification" else RandomForestRegressor)
    weight = rng.integers(1, 6, len(y)).astype(float) if design.weighted else None
    model = make(random_state=seed, **design.options).fit(X, y, sample_weight=weight)
    if not design.held_out:
        result = tw.importance(model, X, y, measure=design.measure, sample_weight=weight)
        truth = np.full(len(kinds), np.nan)
    else:
        result = tw.importance(model, *draw(design.n_rows), rows="heldout", measure=design.measure)
        truth = np.full(len(kinds), np.nan)
        if design.signal:
            truth = tw.importance(model, *draw(50_000), rows="heldout", measure=design.measure, inference=False).values
    low, high = result.interval()
    return {
        "value": result.values.tolist(),
        "p_value": result.p_value.tolist(),
        "adjusted": result.adjusted_p_value("bh").tolist(),
        "std_error": result.std_error.tolist(),
        "low": low.tolist(),
        "high": high.tolist(),
        "truth": truth.tolist(),
    }


def run(design: Design, repetitions: int, n_jobs: int) -> dict[str, np.ndarray]:
    results = Parallel(n_jobs=n_jobs)(delayed(fit_and_score)(design, seed) for seed in range(repetitions))
    return {name: np.array([one[name] for one in results]) for name in results[0]}


def study_null(repetitions: int, n_jobs: int) -> None:
    rows, p_values = [], {}
    for name, design in NULL.items():
        found = run(design, repetitions, n_jobs)
        kinds = np.array(list_kinds(design))
        is_null = np.arange(len(kinds)) >= (1 if design.signal else 0)
        discovered = found["adjusted"] <= 0.10
        n_false = discovered[:, is_null].sum(axis=1)
        share_false = (n_false / np.maximum(discovered.sum(axis=1), 1)).mean()
        p_values[name] = {}
        for kind in KINDS:
            p = found["p_value"][:, is_null & (kinds == kind)]
            p_values[name][kind] = p.ravel()
            rows.append(
                {
                    "design": name,
                    "kind": kind,
                    "rejected_5": (p <= ALPHA).mean(),
                    "rejected_1": (p <= 0.01).mean(),
                    "false_discovery_bh_10": share_false,
                    "tests": p.size,
                    "data_sets": repetitions,
                }
            )
        print(pd.DataFrame(rows[-3:]).to_string(index=False, header=len(rows) == 3), flush=True)
    pd.DataFrame(rows).to_csv(HERE / "null.csv", index=False, float_format="%.4g")
    draw_qq(p_values)


def draw_qq(p_values: dict[str, dict[str, np.ndarray]]) -> None:
    names = list(p_values)
    n_columns = 6
    n_rows = -(-len(names) // n_columns)
    figure = Figure(figsize=(2.5 * n_columns, 2.4 * n_rows), layout="constrained")
    axes = figure.subplots(n_rows, n_columns, sharex=True, sharey=True).ravel()
    for ax in axes[len(names) :]:
        ax.set_visible(False)
    for ax, name in zip(axes, names, strict=False):
        ax.plot([1e-3, 1], [1e-3, 1], color="black", linewidth=0.8)
        for kind, color, dash in zip(KINDS, ("#0072B2", "#E69F00", "#009E73"), ("-", "--", ":"), strict=True):
            p = np.sort(p_values[name][kind])
            expected = (np.arange(len(p)) + 0.5) / len(p)
            ax.plot(expected, np.maximum(p, 1e-4), color=color, linestyle=dash, label=kind)
        ax.set(xscale="log", yscale="log", xlim=(1e-3, 1), ylim=(1e-3, 1))
        ax.set_title(name, fontsize=8)
    axes[0].legend(fontsize=7, frameon=False)
    figure.supxlabel("p-value if uniform")
    figure.supylabel("p-value found (below the line: too many rejections)")
    figure.savefig(HERE / "null_qq.png", dpi=110)


def study_coverage(repetitions: int, n_jobs: int) -> None:
    rows = []
    for name, design in COVERAGE.items():
        found = run(design, repetitions, n_jobs)
        value, low, high = (found[part][:, 0] for part in ("value", "low", "high"))
        # Held-out rows: the score of that fixed model; out of bag: the expected score over data sets.
        truth = found["truth"][:, 0] if design.held_out else np.full(repetitions, value.mean())
        spread = (value - truth).std(ddof=1)
        rows.append(
            {
                "design": name.rpartition(", ")[0],
                "signal": name.rpartition(", ")[2],
                "coverage_95": ((low <= truth) & (truth <= high)).mean(),
                "std_error_over_spread": found["std_error"][:, 0].mean() / spread,
                "mean_score": value.mean(),
                "rejected_5": (found["p_value"][:, 0] <= ALPHA).mean(),
                "data_sets": repetitions,
            }
        )
        print(pd.DataFrame(rows[-1:]).to_string(index=False, header=len(rows) == 1), flush=True)
    table = pd.DataFrame(rows)
    table.to_csv(HERE / "coverage.csv", index=False, float_format="%.4g")
    draw_coverage(table)


def draw_coverage(table: pd.DataFrame) -> None:
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    ax = figure.subplots()
    designs = list(dict.fromkeys(table["design"]))
    ax.axvspan(0.88, 0.99, color="#dddddd", zorder=0)
    ax.axvline(0.95, color="black", linewidth=0.8)
    markers = zip(KINDS, ("o", "s", "^"), ("#0072B2", "#E69F00", "#009E73"), (-0.2, 0.0, 0.2), strict=True)
    for kind, marker, color, shift in markers:
        part = table[table["signal"] == kind]
        ax.plot(
            part["coverage_95"], [designs.index(d) + shift for d in part["design"]], marker, color=color, label=kind
        )
    ax.set_yticks(range(len(designs)), designs)
    ax.invert_yaxis()
    ax.set(xlim=(0.7, 1.0), xlabel="share of data sets whose 95 % interval holds the expected score")
    ax.legend(title="signal in a feature that is", frameon=False, loc="lower left")
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(HERE / "coverage.png", dpi=110)


POWER_STRENGTHS = (0.0, 0.15, 0.3)


def study_power(repetitions: int, n_jobs: int) -> None:
    jobs = [(kind, strength, seed) for kind in KINDS for strength in POWER_STRENGTHS for seed in range(repetitions)]
    found = Parallel(n_jobs=n_jobs)(delayed(compare_tests)(*job) for job in jobs)
    table = pd.DataFrame([row for rows in found for row in rows])
    table["rejected"] = table["p_value"] <= ALPHA
    summary = table.groupby(["test", "signal", "strength"], sort=False).agg(
        rejected_5=("rejected", "mean"), seconds=("seconds", "mean"), data_sets=("rejected", "size")
    )
    summary.reset_index().to_csv(HERE / "power.csv", index=False, float_format="%.4g")
    print(summary.to_string())
    draw_power(summary.reset_index())


def compare_tests(kind: str, strength: float, seed: int) -> list[dict[str, Any]]:
    """P-value of the informative feature by every test, and what the test costs beside the fit."""
    design = Design(n_rows=300, signal=kind, strength=strength)
    rng = np.random.default_rng([seed, KINDS.index(kind), int(100 * strength)])
    X = draw_features(rng, list_kinds(design), design.n_rows, 0.0)
    y = draw_target(rng, design, X[:, 0], design.n_rows)
    forest = RandomForestClassifier(n_estimators=100, random_state=seed)
    rows = []

    def add(test: str, p_value: float, seconds: float) -> None:
        rows.append({"test": test, "signal": kind, "strength": strength, "p_value": p_value, "seconds": seconds})

    start = time.perf_counter()
    forest.fit(X, y)
    fitted = time.perf_counter() - start
    start = time.perf_counter()
    result = tw.importance(forest, X, y)
    add("truewood p_value", result.p_value[0], time.perf_counter() - start)
    start = time.perf_counter()
    refit = tw.permutation_test(forest, X, y, n_permutations=39, random_state=seed, n_jobs=1)
    add("permutation_test, 39 refits", refit.p_value[0], time.perf_counter() - start)
    start = time.perf_counter()
    X_fit, X_new, y_fit, y_new = train_test_split(X, y, test_size=0.5, random_state=seed, stratify=y)
    half = RandomForestClassifier(n_estimators=100, random_state=seed).fit(X_fit, y_fit)
    permuted = permutation_importance(half, X_new, y_new, n_repeats=39, random_state=seed)
    spread = permuted.importances[0].std(ddof=1)
    z = permuted.importances_mean[0] / spread if spread > 0 else 0.0
    add("scikit-learn permutation, half held out", float(stats.norm.sf(z)), time.perf_counter() - start)
    for method, (p_value, seconds) in run_ranger(X, y, seed).items():
        add(f"ranger {method}", p_value, seconds)
    add("fit of the forest, for its cost", float("nan"), fitted)
    return rows


def run_ranger(X: np.ndarray, y: np.ndarray, seed: int) -> dict[str, tuple[float, float]]:
    """P-values of the first feature by ranger's importance_pvalues, where R and ranger are installed."""
    with tempfile.TemporaryDirectory() as folder:
        table = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]).assign(y=y)
        table.to_csv(Path(folder) / "data.csv", index=False)
        try:
            ran = subprocess.run(
                ["Rscript", str(HERE / "ranger_pvalues.R"), str(Path(folder) / "data.csv"), str(seed)],
                capture_output=True,
                text=True,
                check=True,
                timeout=300,
            )
        except (FileNotFoundError, subprocess.CalledProcessError):
            return {}
    return {name: tuple(pair) for name, pair in json.loads(ran.stdout.strip().splitlines()[-1]).items()}


def draw_power(summary: pd.DataFrame) -> None:
    tests = [test for test in dict.fromkeys(summary["test"]) if not test.startswith("fit")]
    figure = Figure(figsize=(11, 3.8), layout="constrained")
    axes = figure.subplots(1, len(KINDS), sharey=True)
    colors = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#555555")
    for ax, kind in zip(axes, KINDS, strict=True):
        for test, color, marker in zip(tests, colors, "os^vD", strict=False):
            part = summary[(summary["signal"] == kind) & (summary["test"] == test)]
            ax.plot(part["strength"], part["rejected_5"], color=color, marker=marker, label=test)
        ax.axhline(ALPHA, color="black", linewidth=0.8, linestyle=":")
        ax.set(title=f"signal in a {kind} feature", xlabel="strength", ylim=(-0.02, 1.02))
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("rejected at 5 %")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(HERE / "power.png", dpi=110)


STUDIES = {"null": study_null, "coverage": study_coverage, "power": study_power}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=[*STUDIES, "all"])
    parser.add_argument("--repetitions", type=int, default=300)
    parser.add_argument("--n-jobs", type=int, default=-1)
    options = parser.parse_args()
    for name in STUDIES if options.name == "all" else [options.name]:
        STUDIES[name](options.repetitions, options.n_jobs)


if __name__ == "__main__":
    main()
