"""Small models of every kind and option that truewood supports, with in-bag and evaluation rows by tree."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sklearn
from imblearn.ensemble import BalancedRandomForestClassifier
from quantile_forest import ExtraTreesQuantileRegressor, RandomForestQuantileRegressor
from scipy import sparse
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor
from sklearn.utils.class_weight import compute_sample_weight

import truewood as tw
from helpers.oracle import OracleTree, leave_out_copies

N_ROWS, N_FEATURES, N_TREES, N_COPIES = 60, 4, 3, 12
VERSION = tuple(map(int, sklearn.__version__.split(".")[:2]))


@dataclass(frozen=True)
class Case:
    """A model to build, with the data it meets."""

    make: Callable[..., Any]
    options: dict[str, Any] = field(default_factory=dict)
    labels: str = "binary"  # binary, string, bool, three, several, number, numbers
    missing: bool = False
    copies: bool = False  # whether the last rows are copies of the first, with targets of their own
    container: str = "float64"  # float64, float32, csr, csc
    weighted: bool = False
    warm: bool = False
    odd: bool = False  # columns that are constant, tiny, huge or repeated
    scale: float = 1.0  # what numbers of y are multiplied by
    offset: float = 0.0  # what is added before

    @property
    def is_classifier(self) -> bool:
        return not self.labels.startswith("number")


RF, ET, BAG = RandomForestClassifier, ExtraTreesClassifier, BaggingClassifier
RFR, ETR, BAGR = RandomForestRegressor, ExtraTreesRegressor, BaggingRegressor
BOOT = {"bootstrap": True}
CASES = {
    "rf": Case(RF),
    "rf-entropy": Case(RF, {"criterion": "entropy"}),
    "rf-log-loss": Case(RF, {"criterion": "log_loss"}),
    "rf-string-labels": Case(RF, labels="string"),
    "rf-bool-labels": Case(RF, labels="bool"),
    "rf-three-classes": Case(RF, labels="three"),
    "rf-several-outputs": Case(RF, labels="several"),
    "rf-max-leaf-nodes": Case(RF, {"max_leaf_nodes": 6}),
    "rf-pruned": Case(RF, {"ccp_alpha": 0.02}),
    "rf-stumps": Case(RF, {"max_depth": 1}),
    "rf-max-samples": Case(RF, {"max_samples": 0.5}),
    "rf-max-samples-int": Case(RF, {"max_samples": 20}),
    "rf-class-weight": Case(RF, {"class_weight": {"a": 1.0, "b": 3.0}}, labels="string"),
    "rf-balanced": Case(RF, {"class_weight": "balanced"}, labels="three"),
    "rf-balanced-subsample": Case(RF, {"class_weight": "balanced_subsample"}, labels="three"),
    "rf-sample-weight": Case(RF, weighted=True),
    "rf-monotonic": Case(RF, {"monotonic_cst": [1, 0, -1, 0]}),
    "rf-monotonic-balanced": Case(RF, {"monotonic_cst": [1, 0, -1, 0], "class_weight": "balanced_subsample"}),
    "rf-monotonic-weighted": Case(RF, {"monotonic_cst": [1, 0, -1, 0]}, weighted=True),
    "rf-warm-start": Case(RF, {"warm_start": True}, warm=True),
    "rf-missing": Case(RF, missing=True),
    "rf-copies": Case(RF, copies=True),
    "rf-copies-weighted": Case(RF, copies=True, weighted=True),
    "rfr-copies-missing": Case(RFR, copies=True, missing=True, labels="number"),
    "rfr-copies-csr": Case(RFR, copies=True, container="csr", labels="number"),
    "rf-csr": Case(RF, container="csr"),
    "rf-csc": Case(RF, container="csc"),
    "rf-float32": Case(RF, container="float32"),
    "rfr": Case(RFR, labels="number"),
    "rfr-absolute": Case(RFR, {"criterion": "absolute_error"}, labels="number"),
    "rfr-absolute-weighted": Case(RFR, {"criterion": "absolute_error"}, labels="number", weighted=True),
    "rfr-poisson": Case(RFR, {"criterion": "poisson"}, labels="number"),
    "rfr-friedman": Case(RFR, {"criterion": "friedman_mse"}, labels="number"),
    "rfr-several-outputs": Case(RFR, labels="numbers"),
    "rfr-monotonic": Case(RFR, {"monotonic_cst": [1, 0, -1, 0]}, labels="number"),
    "rfr-missing": Case(RFR, missing=True, labels="number"),
    "rfr-csr": Case(RFR, container="csr", labels="number"),
    "rfr-sample-weight": Case(RFR, weighted=True, labels="number"),
    "et": Case(ET, BOOT, labels="three"),
    "et-missing": Case(ET, BOOT, missing=True),
    "etr": Case(ETR, BOOT, labels="number"),
    "etr-max-features": Case(ETR, {**BOOT, "max_features": 1}, labels="number"),
    "bagging": Case(BAG),
    "bagging-columns": Case(BAG, {"max_features": 0.5}, labels="string"),
    "bagging-repeated-columns": Case(BAG, {"bootstrap_features": True}, labels="three"),
    "bagging-pasting": Case(BAG, {"bootstrap": False, "max_samples": 0.6}),
    "bagging-sample-weight": Case(BAG, weighted=True),
    "bagging-class-weight": Case(BAG, {"estimator": DecisionTreeClassifier(class_weight="balanced")}),
    "bagging-extra-trees": Case(BAG, {"estimator": ExtraTreeClassifier()}),
    "bagging-csr": Case(BAG, {"max_features": 0.5}, container="csr"),
    "baggingr": Case(BAGR, labels="number"),
    "baggingr-several": Case(BAGR, {"max_features": 0.5, "bootstrap_features": True}, labels="numbers"),
    "baggingr-absolute": Case(BAGR, {"estimator": DecisionTreeRegressor(criterion="absolute_error")}, labels="number"),
    "quantile-forest": Case(RandomForestQuantileRegressor, labels="number"),
    "quantile-extra-trees": Case(ExtraTreesQuantileRegressor, BOOT, labels="number"),
    "imblearn": Case(BalancedRandomForestClassifier),
    "imblearn-bootstrap": Case(BalancedRandomForestClassifier, {"bootstrap": True, "replacement": False}),
    "imblearn-max-samples": Case(BalancedRandomForestClassifier, {"bootstrap": True, "max_samples": 0.3}),
    "imblearn-balanced": Case(BalancedRandomForestClassifier, {"class_weight": "balanced_subsample"}),
    "tree": Case(DecisionTreeClassifier, labels="three"),
    "tree-several-outputs": Case(DecisionTreeClassifier, labels="several"),
    "tree-class-weight": Case(DecisionTreeClassifier, {"class_weight": "balanced"}),
    "tree-missing": Case(DecisionTreeClassifier, missing=True),
    "tree-csc": Case(DecisionTreeClassifier, container="csc"),
    "tree-regressor": Case(DecisionTreeRegressor, labels="number"),
    "extra-tree": Case(ExtraTreeClassifier),
    "extra-tree-regressor": Case(ExtraTreeRegressor, labels="numbers"),
    "et-no-bootstrap": Case(ET),
}


def has_bags(name: str) -> bool:
    """Whether the model of this name is a forest with out-of-bag rows."""
    return records_bags(CASES[name])


def records_bags(case: Case) -> bool:
    """Whether the model of a case is a forest with out-of-bag rows."""
    by_default = case.make not in (ET, ETR, ExtraTreesQuantileRegressor)
    return not is_single_tree(case) and (case.make in (BAG, BAGR) or case.options.get("bootstrap", by_default))


def is_single_tree(case: Case) -> bool:
    return "Tree" in case.make.__name__ and "Trees" not in case.make.__name__


def supported_cases() -> list[str]:
    """Names of CASES; missing values only where scikit-learn's trees treat them alike in training and prediction."""
    return [name for name, case in CASES.items() if not case.missing or VERSION >= (1, 8)]


@dataclass
class Built:
    """A fitted model with the data to score it on, and what the oracle needs."""

    case: Case
    model: Any
    X: Any
    y: Any
    rows: str
    sample_weight: np.ndarray | None
    dense: np.ndarray
    codes: np.ndarray  # (n_rows, n_outputs): class codes, or numbers
    n_classes: list[int] | None
    trees: list[OracleTree]


def build(name: str, seed: int) -> Built:
    """Fit one of CASES on random data. Some columns have few levels; scoring rows include points on thresholds."""
    return build_case(CASES[name], seed, np.random.default_rng([seed, *name.encode()]))


def build_case(case: Case, seed: int, rng: np.random.Generator) -> Built:
    """Fit the model of a case on random data."""
    X, codes = draw_rows(rng, case)
    weight = rng.integers(1, 4, len(X)).astype(float) if case.weighted else None
    model = fit(case, X, decode(case, codes), weight, seed)
    if records_bags(case):
        rows, train_X, train_codes = "oob", X, codes
    else:
        rows = "heldout"
        train_X, train_codes = X, codes
        X, codes = draw_rows(rng, case)
        put_on_thresholds(rng, model, X)
        X, codes = np.vstack([train_X, X]), np.vstack([train_codes, codes])
    trees = list_trees(case, model, train_codes, weight, len(X))
    if rows == "heldout":
        # Training rows come first in the oracle's arrays, and are not passed to truewood.
        return Built(
            case,
            model,
            contain(case, X[len(train_X) :]),
            decode(case, codes[len(train_X) :]),
            rows,
            None,
            X,
            codes,
            count_classes(case),
            trees,
        )
    scoring = (np.ones(N_ROWS) if weight is None else weight) / oob_probability(
        case, model, decode(case, codes), weight
    )
    original = [row % (N_ROWS - N_COPIES) if case.copies else row for row in range(N_ROWS)]
    for tree in trees:
        tree.evaluation = [(row, scoring[row]) for row, _ in leave_out_copies(tree, original)]
    return Built(case, model, contain(case, X), decode(case, codes), rows, weight, X, codes, count_classes(case), trees)


def draw_rows(rng: np.random.Generator, case: Case) -> tuple[np.ndarray, np.ndarray]:
    X = np.column_stack(
        [
            rng.integers(0, 2, N_ROWS),
            rng.integers(0, 5, N_ROWS) / 3.0,
            rng.standard_normal(N_ROWS),
            rng.standard_normal(N_ROWS) * (rng.random(N_ROWS) < 0.5),
        ]
    )
    signal = X[:, 0] + X[:, 2] - 0.5 * X[:, 3] + rng.standard_normal(N_ROWS)
    if case.odd:
        X[:, 0] = rng.choice([0.0, 1e-45, -1e-40, 1.0], N_ROWS)
        X[:, 1] = rng.choice([1.0, 1e30, -3e38, 3e38], N_ROWS)
        X[:, 3] = 7.0 if rng.random() < 0.5 else X[:, 2]
    if case.missing:
        X[rng.random(X.shape) < 0.15] = np.nan
    if case.copies:
        X[:N_COPIES, 2] = rng.standard_normal(N_COPIES)
        X[-N_COPIES:] = X[:N_COPIES]
    if case.container == "float32":
        X = X.astype(np.float32).astype(float)
    other = rng.integers(0, 3, N_ROWS)
    if case.labels in ("number", "numbers"):
        columns = [np.exp(signal / 2.0)] + ([other + X[:, 2] ** 2] if case.labels == "numbers" else [])
        columns = [case.scale * (np.nan_to_num(column) + case.offset) for column in columns]
    else:
        columns = [np.digitize(signal, [0.0, 1.2])] if case.labels == "three" else [(signal > 0.8).astype(int)]
        columns += [other] if case.labels == "several" else []
        # Every class appears, so that codes and classes agree.
        for column in columns:
            column[:3] = np.arange(3) if column is other or case.labels == "three" else [0, 1, 1]
    return X, np.column_stack(columns)


def decode(case: Case, codes: np.ndarray) -> np.ndarray:
    if not case.is_classifier or case.labels in ("several", "binary", "three"):
        return codes if codes.shape[1] > 1 else codes[:, 0]
    return np.array(["a", "b"])[codes[:, 0]] if case.labels == "string" else codes[:, 0].astype(bool)


def count_classes(case: Case) -> list[int] | None:
    return {"three": [3], "several": [2, 3]}.get(case.labels, [2]) if case.is_classifier else None


def contain(case: Case, X: np.ndarray) -> Any:
    makers = {"csr": sparse.csr_matrix, "csc": sparse.csc_matrix, "float32": lambda x: x.astype(np.float32)}
    return makers.get(case.container, lambda x: x)(X)


def fit(case: Case, X: np.ndarray, y: np.ndarray, weight: np.ndarray | None, seed: int) -> Any:
    options = dict(case.options)
    if not is_single_tree(case):
        options["n_estimators"] = N_TREES
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated criteria and sampling defaults
        model = case.make(random_state=seed, **options)
        if weight is None:
            model.fit(contain(case, X), y)
        else:
            model.fit(contain(case, X), y, sample_weight=weight)
        if case.warm:
            model.set_params(n_estimators=N_TREES + 2).fit(contain(case, X), y)
    return model


def put_on_thresholds(rng: np.random.Generator, model: Any, X: np.ndarray) -> None:
    """Move values onto thresholds, and one float32 or float64 step beside them."""
    for tree in getattr(model, "estimators_", [model]):
        inner = tree.tree_
        for node in np.flatnonzero(inner.children_left != -1):
            threshold = inner.threshold[node]
            if not np.isfinite(threshold):
                continue
            steps = [
                threshold,
                np.nextafter(threshold, np.inf),
                np.nextafter(threshold, -np.inf),
                float(np.nextafter(np.float32(threshold), np.float32(np.inf))),
                float(np.nextafter(np.float32(threshold), np.float32(-np.inf))),
            ]
            X[rng.integers(len(X)), inner.feature[node]] = rng.choice(steps)


def list_trees(case: Case, model: Any, codes: np.ndarray, weight: np.ndarray | None, n_rows: int) -> list[OracleTree]:
    """Training rows with their weights, and evaluation rows, for each tree."""
    y, trees = decode(case, codes), []
    everything = range(N_ROWS)
    for t, tree in enumerate(getattr(model, "estimators_", [model])):
        columns = list(getattr(model, "estimators_features_", {t: range(N_FEATURES)})[t])
        if not hasattr(model, "estimators_") or not (
            model.bootstrap or hasattr(model, "samplers_") or "_seeds" in vars(model)
        ):
            bag, evaluation = list(everything), range(N_ROWS, n_rows)
        else:
            bag = list(draw_bag(model, t))
            evaluation = sorted(set(everything) - set(bag))
        own = np.bincount(bag, minlength=N_ROWS).astype(float)
        own *= training_factor(model, tree, y, codes, bag, weight)
        classes = [range(k) for k in count_classes(case) or []]
        trees.append(
            OracleTree(
                tree.tree_,
                columns,
                [(row, own[row]) for row in everything if own[row] > 0],
                [(row, 1.0) for row in evaluation],
                classes,
            )
        )
    return trees


def draw_bag(model: Any, t: int) -> np.ndarray:
    if not hasattr(model, "samplers_"):
        return model.estimators_samples_[t]
    sample = model.samplers_[t].sample_indices_
    if not model.bootstrap:
        return sample
    n_drawn = len(sample) if model.max_samples is None else min(len(sample), int(model.max_samples * N_ROWS))
    rng = np.random.RandomState(model.estimators_[t].random_state)
    return sample[rng.randint(0, len(sample), n_drawn)]


def oob_probability(case: Case, model: Any, y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """Probability of each row to be out of a bag, over its mean, where rows are drawn by weight; else one."""
    is_forest = case.make in (RF, RFR, ET, ETR)
    class_weight = case.options.get("class_weight") if is_forest else None
    drawn = np.ones(N_ROWS) if weight is None else weight.copy()
    if class_weight not in (None, "balanced_subsample"):
        drawn *= compute_sample_weight(class_weight, y)
    if VERSION < (1, 9) or np.ptp(drawn) == 0 or not model.bootstrap:
        return np.ones(N_ROWS)
    probability = (1.0 - drawn / drawn.sum()) ** len(model.estimators_samples_[0])
    return probability / probability.mean()


def training_factor(model, tree, y, codes, bag, weight):
    """What a row's number of draws was multiplied by when the tree was fit."""
    factor = np.ones(N_ROWS)
    is_drawn_by_weight = VERSION >= (1, 9) and getattr(model, "bootstrap", False)
    class_weight = getattr(model, "class_weight", None)
    if class_weight == "balanced_subsample":
        factor *= compute_sample_weight("balanced", y, indices=bag if model.bootstrap else None)
    elif class_weight is not None and not is_drawn_by_weight:
        factor *= compute_sample_weight(class_weight, y)
    if "_seeds" in vars(model) and getattr(tree, "class_weight", None) is not None:
        factor *= compute_sample_weight(tree.class_weight, codes[:, 0])
    if weight is not None and not is_drawn_by_weight:
        factor *= weight
    return factor


def score_built(built: Built, measure: str, **options: object) -> tw.ImportanceResult:
    """Score a model of `build` on its rows."""
    return tw.importance(
        built.model,
        built.X,
        built.y,
        rows=built.rows,
        measure=measure,
        sample_weight=built.sample_weight,
        **options,
    )


def draw_donors(built: Built, seed: int) -> list[np.ndarray]:
    """The permutations that `importance` draws: one per tree, over its evaluation rows."""
    seeds = np.random.RandomState(seed).randint(np.iinfo(np.int32).max, size=len(built.trees))
    return [
        np.random.default_rng(tree_seed).permutation([row for row, _ in tree.evaluation]).astype(int)
        for tree_seed, tree in zip(seeds, built.trees, strict=True)
    ]
