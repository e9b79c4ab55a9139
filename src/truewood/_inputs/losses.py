"""Losses, and the target that each defines for trees that were not fit to y itself.

Boosted trees follow the gradient of a loss. They are scored on the negative gradient at the best constant raw score,
which depends on y alone. The gradient at the stage of each tree would inherit the errors of earlier trees that overfit
a feature, so that noise features would score below zero. The constant is optimal for the evaluation rows; adding a
constant to the target of all rows does not change scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special, stats

from truewood._inputs.life_tables import make_life_table

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Loss:
    """How y becomes the target of the trees.

    Parameters
    ----------
    make_target : callable
        ``make_target(y, weight)`` takes y as numbers (classes as codes), shape (n_rows, n_outputs), and weights, and
        returns the negative gradient at the best constant raw scores, shape (n_rows, n_scores), or life tables.
    in_target_units : bool, default=False
        Whether raw scores are in the units of the target.
    is_life_table : bool, default=False
        Whether `make_target` returns life tables, so that splits compare hazards.
    of_mean : OfMean or None, default=None
        The target in another form, for truewood's own losses with a negative gradient of k (s - c), where s is a
        function of y, c is the mean of s, and k depends on c alone.
    of_constant : OfConstant or None, default=None
        The target in two steps, for truewood's other losses: first the best constant, then the target. A loss without
        `of_mean` and `of_constant` can be scored on a table in memory only, unless ``target=`` is passed.
    at_score : callable or None, default=None
        ``at_score(y, raw)`` returns the negative gradient at raw scores and the expected second derivative there, both
        of shape (n_rows, n_scores); None for a loss without a smooth gradient.
    """

    make_target: Callable[[Floats, Floats], Floats]
    in_target_units: bool = False
    is_life_table: bool = False
    of_mean: OfMean | None = None
    of_constant: OfConstant | None = None
    at_score: Callable[[Floats, Floats], tuple[Floats, Floats]] | None = None

    def after(self, transform: Callable[[Floats], Floats]) -> Loss:
        """Return the same loss with y replaced by ``transform(y)``."""
        mean, constant, at_score = self.of_mean, self.of_constant, self.at_score
        return replace(
            self,
            make_target=lambda y, weight: self.make_target(transform(y), weight),
            of_mean=None if mean is None else replace(mean, statistic=lambda y: mean.statistic(transform(y))),
            of_constant=None
            if constant is None
            else OfConstant(
                lambda y, weight: constant.find(transform(y), weight),
                lambda y, c: constant.make_target(transform(y), c),
            ),
            at_score=None if at_score is None else lambda y, raw: at_score(transform(y), raw),
        )


@dataclass(frozen=True, eq=False)
class OfMean:
    """A target of the form k (s - c): s is a function of a row's y, c is the mean of s, and k is a function of c.

    Sums of s over rows are enough to compute c, k and sums of the target.

    Parameters
    ----------
    statistic : callable
        ``statistic(y)`` returns s, shape (n_rows, n_scores).
    find_factor : callable
        ``find_factor(c)`` returns k, shape (n_scores,).
    """

    statistic: Callable[[Floats], Floats]
    find_factor: Callable[[Floats], Floats] = np.ones_like

    def make_target(self, y: Floats, weight: Floats) -> Floats:
        """Target of each row, shape (n_rows, n_scores)."""
        s = self.statistic(y)
        c: Floats = np.average(s, axis=0, weights=weight)
        return self.find_factor(c) * (s - c)


@dataclass(frozen=True, eq=False)
class OfConstant:
    """A target that is a function of a row's y and of a few constants, estimated from all rows.

    Parameters
    ----------
    find : callable
        ``find(y, weight)`` returns the constants, shape (n,): the best constant raw score, then any others.
    make_target : callable
        ``make_target(y, constant)`` returns the target, shape (n_rows, n_scores).
    """

    find: Callable[[Floats, Floats], Floats]
    make_target: Callable[[Floats, Floats], Floats]


def squared_error() -> Loss:
    """Target: y minus its mean."""
    return _loss_of_mean(lambda y: y, in_target_units=True, at_score=lambda y, raw: (y - raw, np.ones_like(raw)))


def logistic() -> Loss:
    """Target: y minus its mean, for classes 0 and 1 or for y between 0 and 1."""

    def statistic(y: Floats) -> Floats:
        _require((y >= 0) & (y <= 1), "between 0 and 1", "logistic loss")
        return y

    def at_score(y: Floats, raw: Floats) -> tuple[Floats, Floats]:
        p = special.expit(raw)
        return y - p, p * (1.0 - p)

    return _loss_of_mean(statistic, at_score=at_score)


def softmax(n_classes: int) -> Loss:
    """Target: one-hot class minus the class priors, as for one-vs-rest logistic losses."""

    def statistic(y: Floats) -> Floats:
        _require((y >= 0) & (y < n_classes), f"a class number from 0 to {n_classes - 1}", "softmax loss")
        one_hot: Floats = (y == np.arange(n_classes)).astype(np.float64)
        return one_hot

    def at_score(y: Floats, raw: Floats) -> tuple[Floats, Floats]:
        p = special.softmax(raw, axis=1)
        return statistic(y) - p, p * (1.0 - p)

    return _loss_of_mean(statistic, at_score=at_score)


def poisson() -> Loss:
    """Target: y minus its mean (log link)."""

    def statistic(y: Floats) -> Floats:
        _require(y >= 0, "nonnegative", "Poisson loss")
        return y

    def at_score(y: Floats, raw: Floats) -> tuple[Floats, Floats]:
        mean = np.exp(raw)
        return y - mean, mean

    return _loss_of_mean(statistic, at_score=at_score)


def gamma() -> Loss:
    """Target: y / mean - 1 (log link)."""

    def statistic(y: Floats) -> Floats:
        _require(y > 0, "positive", "gamma loss")
        return y

    def at_score(y: Floats, raw: Floats) -> tuple[Floats, Floats]:
        return y * np.exp(-raw) - 1.0, np.ones_like(raw)

    return _loss_of_mean(statistic, lambda mean: 1.0 / mean, at_score=at_score)


def tweedie(power: float) -> Loss:
    """Target: (y - mean) mean^(1 - power) (log link)."""

    def statistic(y: Floats) -> Floats:
        _require(y >= 0, "nonnegative", "Tweedie loss")
        return y

    def find_factor(mean: Floats) -> Floats:
        if not (mean > 0).all():
            raise ValueError(
                "y must be positive in at least one row, because the model was trained with Tweedie loss; "
                "got only zeros."
            )
        factor: Floats = mean ** (1.0 - power)
        return factor

    def at_score(y: Floats, raw: Floats) -> tuple[Floats, Floats]:
        return (y - np.exp(raw)) * np.exp((1.0 - power) * raw), np.exp((2.0 - power) * raw)

    return _loss_of_mean(statistic, find_factor, at_score=at_score)


def absolute_error() -> Loss:
    """Target: sign of y minus its median."""
    return _loss_of_constant(lambda y, weight: _quantile(y, weight, 0.5), lambda y, median: np.sign(y - median))


def absolute_percentage_error() -> Loss:
    """Target: w sign(y - m), with w = 1 / max(1, abs(y)) and m the median weighted by w."""

    def find_median(y: Floats, weight: Floats) -> Floats:
        return _quantile(y, weight / np.maximum(1.0, np.abs(y[:, 0])), 0.5)

    return _loss_of_constant(find_median, lambda y, median: np.sign(y - median) / np.maximum(1.0, np.abs(y)))


def quantile(*levels: float) -> Loss:
    """Target: level - 1 if y is below its quantile, otherwise level; one column per level."""

    def find_quantiles(y: Floats, weight: Floats) -> Floats:
        return np.concatenate([_quantile(y, weight, level) for level in levels])

    def negative_gradient(y: Floats, quantiles: Floats) -> Floats:
        below = y[:, np.newaxis] < quantiles.reshape(len(levels), -1)
        return (np.array(levels)[:, np.newaxis] - below).reshape(len(y), -1)

    return _loss_of_constant(find_quantiles, negative_gradient)


def huber(delta: float) -> Loss:
    """Target: y minus the best constant, clipped to +-delta."""
    return _robust(_clip(delta))


def huber_quantile(level: float) -> Loss:
    """Huber loss with delta set to a quantile of the absolute residuals around the median."""

    def find_center(y: Floats, weight: Floats) -> Floats:
        """Best constant, or the median if delta is zero; then delta."""
        median = _quantile(y, weight, 0.5)
        delta = _quantile(np.abs(y - median), weight, level)
        best = _find_best(_clip(float(delta[0])), y, weight) if delta[0] > 0 else median
        return np.append(best, delta[0])

    def negative_gradient(y: Floats, constant: Floats) -> Floats:
        best, delta = constant[:-1], float(constant[-1])
        return _clip(delta)(y - best) if delta > 0 else np.sign(y - best)

    return _loss_of_constant(find_center, negative_gradient)


def pseudo_huber(slope: float) -> Loss:
    """Target: r / sqrt(1 + (r / slope)^2), with r = y minus the best constant."""
    return _robust(lambda residual: residual / np.sqrt(1.0 + (residual / slope) ** 2))


def fair(c: float) -> Loss:
    """Target: c r / (abs(r) + c), with r = y minus the best constant."""
    return _robust(lambda residual: c * residual / (np.abs(residual) + c))


def log_cosh() -> Loss:
    """Target: tanh(r), with r = y minus the best constant."""
    return _robust(np.tanh)


def expectile(level: float) -> Loss:
    """Target: level r if r > 0, otherwise (1 - level) r, with r = y minus the expectile."""
    return _robust(lambda residual: residual * np.where(residual > 0, level, 1.0 - level))


def squared_log_error() -> Loss:
    """Target: log(1 + y) minus its mean, divided by 1 + the best constant."""

    def statistic(y: Floats) -> Floats:
        _require(y > -1, "above -1", "squared log error")
        return np.log1p(y)

    return _loss_of_mean(statistic, lambda mean: np.exp(-mean))


def aft(distribution: str, scale: float) -> Loss:
    """Accelerated failure time: y holds a lower and an upper bound of each time, equal if the event was observed.

    Parameters
    ----------
    distribution : {"normal", "logistic", "extreme"}
        Distribution of the noise in log time.
    scale : float
        Scale of the noise.
    """
    noise = {"normal": stats.norm, "logistic": stats.logistic, "extreme": stats.gumbel_l}[distribution]

    def slope(y: Floats, score: float) -> Floats:
        """Derivative of the log-likelihood with respect to the raw score."""
        with np.errstate(divide="ignore"):
            ends = (np.log(y) - score) / scale
        low, high = np.clip(ends, -700.0, 700.0).T  # exponentials overflow beyond
        # Subtract in the nearer tail to keep small masses exact; if the mass underflows, treat the time as observed.
        mass = np.where(low > 0, noise.sf(low) - noise.sf(high), noise.cdf(high) - noise.cdf(low))
        is_observed = (y[:, 0] == y[:, 1]) | (mass < np.finfo(np.float64).tiny)
        step = 1e-6
        z = np.where(is_observed, np.where(low > 0, low, high), 0.0)
        observed = (noise.logpdf(z - step) - noise.logpdf(z + step)) / (2 * step)
        censored = (noise.pdf(low) - noise.pdf(high)) / np.where(is_observed, 1.0, mass)
        derivative: Floats = np.where(is_observed, observed, censored) / scale
        return derivative

    def find_score(y: Floats, weight: Floats) -> Floats:
        _require(
            (y[:, :1] >= 0) & (y[:, 1:] >= y[:, :1]) & (y[:, 1:] > 0),
            "a lower and an upper bound of the time, with 0 <= lower <= upper and upper > 0,",
            "AFT loss",
        )
        times = np.log(y[np.isfinite(y) & (y > 0)])
        bounds = (float(times.min()) - scale, float(times.max()) + scale)
        return np.array([_find_zero(lambda score: float(np.average(slope(y, score), weights=weight)), bounds)])

    return _loss_of_constant(find_score, lambda y, score: slope(y, float(score[0]))[:, np.newaxis])


def cox() -> Loss:
    """Target: life tables, because martingale residuals of a common hazard depend on the censoring times.

    y has two columns: time, and 1 for an event or 0 for a censored row.
    """

    def read_table(y: Floats, weight: Floats) -> Floats:
        _require(np.isin(y[:, 1:], (0, 1)), "a time and an event indicator, 0 or 1,", "Cox loss")
        return make_life_table(y[:, 0], y[:, 1] > 0, weight)

    return Loss(read_table, is_life_table=True)


def read_signed_times(y: Any) -> Floats:
    """Convert times, negative for censored rows as in some libraries, to the columns that `cox` expects."""
    signed = np.asarray(y)
    if signed.ndim == 2 and signed.shape[1] == 1:
        signed = signed[:, 0]
    if signed.ndim != 1 or signed.dtype.kind not in "iuf":
        raise ValueError(
            "y must be a time for each row, negative if censored, because the model has Cox loss, got "
            f"{signed.dtype} values of shape {signed.shape}."
        )
    return np.column_stack([np.abs(signed), signed > 0]).astype(np.float64)


def _loss_of_mean(
    statistic: Callable[[Floats], Floats],
    find_factor: Callable[[Floats], Floats] = np.ones_like,
    *,
    in_target_units: bool = False,
    at_score: Callable[[Floats, Floats], tuple[Floats, Floats]] | None = None,
) -> Loss:
    of_mean = OfMean(statistic, find_factor)
    return Loss(of_mean.make_target, in_target_units, of_mean=of_mean, at_score=at_score)


def _loss_of_constant(
    find: Callable[[Floats, Floats], Floats], make_target: Callable[[Floats, Floats], Floats]
) -> Loss:
    return Loss(lambda y, weight: make_target(y, find(y, weight)), of_constant=OfConstant(find, make_target))


def _robust(slope: Callable[[Floats], Floats]) -> Loss:
    """A loss that depends only on the residual, with a nondecreasing derivative."""
    return _loss_of_constant(lambda y, weight: _find_best(slope, y, weight), lambda y, best: slope(y - best))


def _clip(delta: float) -> Callable[[Floats], Floats]:
    return lambda residual: np.clip(residual, -delta, delta)


def _find_best(slope: Callable[[Floats], Floats], y: Floats, weight: Floats) -> Floats:
    """Best constant for each column of y, for a loss that depends only on the residual."""

    def find_in_column(y: Floats) -> float:
        bounds = (float(y.min()), float(y.max()))
        return _find_zero(lambda score: float(np.average(slope(y - score), weights=weight)), bounds)

    return np.array([find_in_column(column) for column in y.T])


def _find_zero(function: Callable[[float], float], bounds: tuple[float, float]) -> float:
    low, high = bounds
    if low == high or function(low) * function(high) >= 0:
        return low if abs(function(low)) <= abs(function(high)) else high
    return float(optimize.brentq(function, low, high))


def _quantile(y: Floats, weight: Floats, level: float) -> Floats:
    """Weighted quantile of each column: the smallest value with at least this share of the weight at or below it."""
    order = np.argsort(y, axis=0, kind="stable")
    cumulative = np.cumsum(weight[order], axis=0)
    position = (cumulative < level * cumulative[-1]).sum(axis=0)
    quantiles: Floats = np.take_along_axis(y, np.take_along_axis(order, position[np.newaxis], axis=0), axis=0)[0]
    return quantiles


def _require(holds: NDArray[np.bool_], what: str, loss: str) -> None:
    if not holds.all():
        raise ValueError(
            f"y must be {what} in every row, because the model was trained with {loss}; correct or drop the other rows."
        )
