"""A design: how its data sets are drawn, the model that is fit to them, and truewood's result."""

from __future__ import annotations

import importlib.util
import time
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy import sparse, stats
from scipy.special import expit, logit
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import cross_val_predict
from threadpoolctl import threadpool_limits

import truewood as tw

Floats = np.ndarray
Record = dict[str, Any]

KINDS = ("continuous", "binary", "20 levels")
# What else a useless feature may move, by task.
MOVES = {
    "regression": ", moves the noise",
    "survival": ", moves the censoring",
    "causal": ", confounder",
    "causal residuals": ", confounder",
}
FOREST = "sklearn.ensemble.RandomForest"
BOOSTING = "sklearn.ensemble.GradientBoosting"
HIST = "sklearn.ensemble.HistGradientBoosting"
FOLLOWER = "follower, correlation "
_ENDING = {"classification": "Classifier", "regression": "Regressor"}
_CAUSAL = ("causal", "causal residuals")
# Versions before the residual test can also run the studies, to measure the effect of a change.
HAS_RESIDUAL_TEST = "residual_values" in tw.ImportanceResult.__dataclass_fields__
_DIGITS = 5


@dataclass(frozen=True)
class Design:
    """A way to draw data sets and a model to fit to them.

    Parameters
    ----------
    n_rows : int
        Rows of a data set; held-out rows are as many again.
    task : {"classification", "regression", "survival", "causal", "causal residuals"}
        What the target is; "causal" is an outcome and a treatment, "causal residuals" both minus cross-fitted means.
    model : str
        Full name of the class; for classes and numbers, "Classifier" or "Regressor" is appended.
    options : dict
        Settings of the model.
    measure : str or None
        Passed to `importance`; None for its default.
    rows : {"auto", "heldout", "lists"}
        What scores the trees. "lists" are the out-of-bag rows, passed as lists.
    inference : bool or str
        Passed to `importance`. True runs the usual test and, if available, the residual test.
    kinds, per_kind
        Kinds of useless features, and how many of each.
    correlation : float
        Between the useless features.
    followers : tuple of float
        Features without an effect of their own: their correlations with the first feature that has signal.
    signal : tuple of (kind, strength)
        Informative features, which come first.
    effect : str
        The target's mean as a function of them; a name in EFFECTS.
    classes, heldout_classes
        Shares of the classes, and those in the held-out rows if they differ.
    noise : str
        Noise of a regression target; a name in NOISES.
    moved_noise : float
        How much the first useless feature of each kind moves the log of the size of the noise; of survival times that
        of the time of censoring, of causal data the treatment and the outcome, but not the effect.
    weights : str or None
        Sample weights; a name in WEIGHTS.
    is_sparse, has_mirror, has_peers, has_classes : bool
        Whether X is a sparse matrix, and whether to compute mirrored p-values, other tests, and p-values by class.
    most : int or None
        Maximum number of data sets, for costly designs.
    data : str
        Designs with the same name here draw the same data sets; by default each draws its own.
    """

    n_rows: int = 500
    task: str = "classification"
    model: str = FOREST
    options: dict[str, Any] = field(default_factory=dict)
    measure: str | None = None
    rows: str = "auto"
    inference: bool | str = True
    kinds: tuple[str, ...] = KINDS
    per_kind: int = 3
    correlation: float = 0.0
    followers: tuple[float, ...] = ()
    signal: tuple[tuple[str, float], ...] = ()
    effect: str = "sum"
    classes: tuple[float, ...] = (0.5, 0.5)
    heldout_classes: tuple[float, ...] | None = None
    noise: str = "normal"
    moved_noise: float = 0.0
    weights: str | None = None
    is_sparse: bool = False
    has_mirror: bool = False
    has_peers: bool = False
    has_classes: bool = False
    most: int | None = None
    data: str = ""

    @cached_property
    def features(self) -> tuple[str, ...]:
        """Kinds of all features; the name of one that affects the noise, or its equivalent, says so."""
        moves = [MOVES[self.task] if self.moved_noise and not place else "" for place in range(self.per_kind)]
        return (
            *(kind for kind, _ in self.signal),
            *(f"{FOLLOWER}{correlation}" for correlation in self.followers),
            *(kind + move for kind in self.kinds for move in moves),
        )

    @property
    def has_residual_test(self) -> bool:
        """Whether the residual test is available, in this design and this version of truewood."""
        has_scores = self.model in (BOOSTING, HIST) and self.task == "classification" and len(self.classes) > 2
        is_ufi = self.measure == "ufi" and self.task != "classification"
        is_weighted = self.measure == "mdi_oob" or self.weights or self.options.get("class_weight") == "balanced"
        is_available = not (has_scores or is_ufi or is_weighted or self.task == "survival")
        return self.inference is True and is_available and HAS_RESIDUAL_TEST

    @property
    def absent_library(self) -> str | None:
        """The library that the model needs, if it is not installed."""
        library = self.model.partition(".")[0]
        return None if importlib.util.find_spec(library) else library

    @property
    def fingerprint(self) -> str:
        """Changes with the design, so that a checkpoint does not mix two of the same name."""
        return f"{zlib.crc32(repr(self).encode()):08x}"

    def count(self, repetitions: int) -> int:
        """Number of data sets to draw, given the number requested."""
        return min(repetitions, self.most or repetitions)

    def make_model(self, seed: int) -> Any:
        """Return the model, not fit."""
        module, _, name = self.model.rpartition(".")
        make = getattr(importlib.import_module(module), name + _ENDING.get(self.task, ""))
        return make(random_state=seed, **self.options)


def _level(n_levels: int, u: Floats) -> Floats:
    return np.floor(n_levels * stats.norm.cdf(u)).clip(0, n_levels - 1)


def _above(share: float, u: Floats) -> Floats:
    return u > stats.norm.isf(share)


def _thin_out(n_levels: int, u: Floats, share: float = 0.05) -> Floats:
    """Zero except for a share of rows, which have one of the levels 1, 2, ..., or a number if there are no levels."""
    place = 1.0 - stats.norm.sf(u) / share  # uniform where positive
    return np.where(place <= 0, 0.0, np.ceil(n_levels * place) if n_levels else 1.0 + place)


# How a standard normal number becomes a feature.
MAKERS: dict[str, Callable[[Floats], Floats]] = {
    "continuous": lambda u: u,
    "binary": partial(_above, 0.5),
    "20 levels": partial(_level, 20),
    "50 levels": partial(_level, 50),
    "4 ordered levels": partial(_level, 4),
    "many ties": lambda u: np.round(2 * np.maximum(u, 0.0)),
    "binary, 1 in 500": partial(_above, 1 / 500),
    "binary, 1 in 5,000": partial(_above, 1 / 5000),
    "sparse continuous": partial(_thin_out, 0),
    "sparse binary": partial(_thin_out, 1),
    "sparse 20 levels": partial(_thin_out, 20),
}


def _standardize(kind: str, x: Floats) -> Floats:
    """What a feature of this kind does to the target at strength 1; levels have an effect each, in no order."""
    if kind.endswith("levels"):
        return np.random.default_rng(7).standard_normal(50)[x.astype(int)]
    return 2 * x - 1 if kind == "binary" else x


# The mean of the target by the features with signal (in columns, as `_standardize` gives them) and their strengths.
EFFECTS: dict[str, Callable[[Floats, Floats], Floats]] = {
    "sum": lambda z, strength: z @ strength,
    "xor": lambda z, strength: strength[0] * (2.0 * ((z[:, 0] > 0) ^ (z[:, 1] > 0)) - 1.0),
    "sine": lambda z, strength: strength[0] * np.sin(3 * z[:, 0]),
}
NOISES: dict[str, Callable[..., Floats]] = {
    "normal": lambda rng, mean, size: mean + size * rng.standard_normal(len(mean)),
    "t2": lambda rng, mean, size: mean + size * rng.standard_t(2, len(mean)),
    "cauchy": lambda rng, mean, size: mean + size * rng.standard_cauchy(len(mean)),
    "log-normal": lambda rng, mean, size: mean + size * np.exp(1.5 * rng.standard_normal(len(mean))),
    "shifted": lambda rng, mean, size: 1000.0 + mean + size * rng.standard_normal(len(mean)),
    "0/1 at 2%": lambda rng, mean, _size: (rng.random(len(mean)) < 0.02).astype(float),
    "poisson": lambda rng, mean, size: rng.poisson(np.exp(np.clip(size * mean, -3, 3))).astype(float),
}
WEIGHTS: dict[str, Callable[[np.random.Generator, Floats], Floats]] = {
    "1 to 5": lambda rng, y: rng.integers(1, 6, len(y)).astype(float),
    "log-normal": lambda rng, y: np.exp(rng.standard_normal(len(y))),
    "by target": lambda _rng, y: np.exp(0.8 * stats.zscore(y)),
}


def draw(design: Design, rng: np.random.Generator, n_rows: int, *, is_heldout: bool = False) -> tuple[Any, Floats]:
    """One data set: X and y."""
    n_signal = len(design.signal)
    latent = rng.standard_normal((n_rows, len(design.features)))
    useless = latent[:, n_signal:]
    useless *= np.sqrt(1 - design.correlation)
    useless += np.sqrt(design.correlation) * rng.standard_normal((n_rows, 1))
    for j, correlation in enumerate(design.followers, start=n_signal):
        own = rng.standard_normal(n_rows)
        latent[:, j] = correlation * latent[:, 0] + np.sqrt(1 - correlation**2) * own
    moves = MOVES.get(design.task, "")
    makers = [MAKERS.get(kind.removesuffix(moves), MAKERS["continuous"]) for kind in design.features]
    X = np.column_stack([make(u) for make, u in zip(makers, latent.T, strict=True)]).astype(float)
    mean = np.zeros(n_rows)
    if n_signal:
        parts = [_standardize(kind, X[:, j]) for j, (kind, _) in enumerate(design.signal)]
        mean = EFFECTS[design.effect](np.column_stack(parts), np.array([strength for _, strength in design.signal]))
    moving = [j for j, kind in enumerate(design.features) if moves and kind.endswith(moves)]
    moved = design.moved_noise * stats.zscore(X[:, moving], axis=0).sum(axis=1) if moving else np.zeros(n_rows)
    if design.task == "regression":
        y = NOISES[design.noise](rng, mean, np.exp(moved))
    elif design.task == "survival":
        y = _draw_survival(rng, mean, np.exp(moved))
    elif design.task in _CAUSAL:
        treatment = (rng.random(n_rows) < expit(2 * moved)).astype(float)
        y = np.column_stack([2 * moved + (1 + mean) * treatment + rng.standard_normal(n_rows), treatment])
        y = y if design.task == "causal" else y - _cross_fit(X, y)
    else:
        shares = (is_heldout and design.heldout_classes) or design.classes
        y = _draw_classes(rng, 2 * mean, shares, has_signal=n_signal > 0)
    return (sparse.csr_matrix(X) if design.is_sparse else X), y


def _draw_survival(rng: np.random.Generator, log_hazard: Floats, censoring: Floats) -> Floats:
    """Events and times as scikit-survival takes them; `censoring` is its mean time, but for a factor."""
    life, study = rng.exponential(np.exp(-log_hazard)), rng.exponential(1.5 * censoring)
    y = np.empty(len(life), dtype=[("event", bool), ("time", float)])
    y["event"], y["time"] = life <= study, np.minimum(life, study)
    return y


def _cross_fit(X: Floats, y: Floats) -> Floats:
    """Means of outcome and treatment given X, for each row from forests that were not trained on it."""
    forest = RandomForestRegressor(50, min_samples_leaf=5, random_state=0)
    return np.column_stack([cross_val_predict(forest, X, column) for column in y.T])


def _draw_classes(rng: np.random.Generator, mean: Floats, shares: tuple[float, ...], *, has_signal: bool) -> Floats:
    if has_signal and len(shares) > 2:  # ordered classes
        score = mean + rng.logistic(size=len(mean))
        return np.searchsorted(np.quantile(score, np.cumsum(shares)[:-1]), score).astype(int)
    if has_signal:
        return (rng.random(len(mean)) < expit(mean + logit(shares[1]))).astype(int)
    y = rng.choice(len(shares), len(mean), p=shares)
    y[: len(shares)] = np.arange(len(shares))
    return y


@dataclass(frozen=True)
class Fitted:
    """A data set, the model that was fit to it, and its result."""

    design: Design
    rng: np.random.Generator
    X: Any
    y: Floats
    model: Any
    result: tw.ImportanceResult
    fit_seconds: float
    score_seconds: float


def fit_and_score(name: str, design: Design, number: int) -> Fitted:
    """Draw data set `number` of a design, fit its model and score the features."""
    rng = np.random.default_rng([number, zlib.crc32((design.data or name).encode())])
    X, y = draw(design, rng, design.n_rows)
    weigh = WEIGHTS[design.weights] if design.weights else lambda *_: None
    weight = weigh(rng, y)
    settings: dict[str, Any] = {
        "inference": "residual" if design.has_residual_test else design.inference,
        "per_class": design.has_classes,
    }
    if design.measure is not None:
        settings["measure"] = design.measure
    start = time.perf_counter()
    parts = (y[:, 1], y[:, 0]) if design.task in _CAUSAL else (y,)
    model = design.make_model(number).fit(X, *parts, **({} if weight is None else {"sample_weight": weight}))
    fitted = time.perf_counter()
    if design.rows == "heldout":
        X_new, y_new = draw(design, rng, design.n_rows, is_heldout=True)
        result = tw.importance(model, X_new, y_new, rows="heldout", sample_weight=weigh(rng, y_new), **settings)
    elif design.rows == "lists":
        every_row = np.arange(len(y))
        lists = [np.setdiff1d(every_row, bag) for bag in model.estimators_samples_]
        result = tw.importance(model, X, y, rows=lists, sample_weight=weight, **settings)
    else:
        result = tw.importance(model, X, y, sample_weight=weight, **settings)
    if result.inference_unavailable is not None:
        raise ValueError(result.inference_unavailable)
    return Fitted(design, rng, X, y, model, result, fitted - start, time.perf_counter() - fitted)


def run_one(name: str, design: Design, number: int, describe: Callable[[Fitted], Record]) -> Record:
    """The checkpoint entry of a data set: the output of `describe` and the cost, or the error."""
    entry: Record = {"design": name, "fingerprint": design.fingerprint, "number": number}
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught, threadpool_limits(1):
        warnings.simplefilter("always")
        try:
            entry |= _shorten(describe(fit_and_score(name, design, number)))
        except Exception as error:  # a long run continues, and reports failures at its end
            entry["error"] = f"{type(error).__name__}: {error}"
    entry["warnings"] = sorted({str(warning.message)[:200] for warning in caught})
    entry["seconds"] = round(time.perf_counter() - start, 3)
    return entry


def _shorten(value: Any) -> Any:
    """Numbers with as many digits as matter, in types that JSON has."""
    if isinstance(value, dict):
        return {name: _shorten(part) for name, part in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_shorten(part) for part in value]
    return value if isinstance(value, str) else float(f"{float(value):.{_DIGITS}g}")
