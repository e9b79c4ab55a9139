"""The target that trees are scored against if they were not fit to y itself.

Trees that add up to a raw score follow the gradient of a loss. They are scored against the negative gradient of that
loss at the best constant score: one number per row, known from y alone. (If the gradient were taken at the raw score of
the stage at which a tree was fit, it would contain the mistakes of earlier trees that overfit a feature, and noise
would score below zero.) The constant is the best one for the evaluation rows; adding a constant to the target of all
rows changes no score.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

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
    in_target_units : bool
        Whether raw scores are in the units of the target.
    is_life_table : bool
        Whether `make_target` returns life tables (see `make_life_table`), so that splits compare hazards.
    of_mean : OfMean or None
        The target in another form, if the negative gradient is a multiple of a statistic of y minus its mean.
    of_constant : OfConstant or None
        The target in two steps for other losses: first the best constant, then the target.
    """

    make_target: Callable[[Floats, Floats], Floats]
    in_target_units: bool = False
    is_life_table: bool = False
    of_mean: OfMean | None = None
    of_constant: OfConstant | None = None

    def after(self, transform: Callable[[Floats], Floats]) -> Loss:
        """The same loss for a transform of y."""
        mean, constant = self.of_mean, self.of_constant
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
        )


@dataclass(frozen=True, eq=False)
class OfMean:
    """A target that is k (s - c), where s follows from a row's y, c is the mean of s, and k follows from c.

    Sums of s over rows are all that c, k and sums of the target take.

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
        """The target of each row, shape (n_rows, n_scores)."""
        s = self.statistic(y)
        c: Floats = np.average(s, axis=0, weights=weight)
        return self.find_factor(c) * (s - c)


@dataclass(frozen=True, eq=False)
class OfConstant:
    """A target that follows from a row's y and a few numbers that all rows decide on.

    Parameters
    ----------
    find : callable
        ``find(y, weight)`` returns these numbers, shape (n,): the best constant raw score, and what else there is.
    make_target : callable
        ``make_target(y, constant)`` returns the target, shape (n_rows, n_scores).
    """

    find: Callable[[Floats, Floats], Floats]
    make_target: Callable[[Floats, Floats], Floats]


def squared_error() -> Loss:
    """Y less its mean."""
    return _loss_of_mean(lambda y: y, in_target_units=True)


def logistic() -> Loss:
    """One less the prior for rows of the second class, minus the prior for others; also for y between 0 and 1."""

    def statistic(y: Floats) -> Floats:
        _require((y >= 0) & (y <= 1), "between 0 and 1", "logistic loss")
        return y

    return _loss_of_mean(statistic)


def softmax(n_classes: int) -> Loss:
    """One-hot class less the priors; also the negative gradient of one-vs-rest logistic losses."""

    def statistic(y: Floats) -> Floats:
        _require((y >= 0) & (y < n_classes), f"class numbers from 0 to {n_classes - 1}", "softmax loss")
        one_hot: Floats = (y == np.arange(n_classes)).astype(np.float64)
        return one_hot

    return _loss_of_mean(statistic)


def poisson() -> Loss:
    """Y less its mean, for a log link."""

    def statistic(y: Floats) -> Floats:
        _require(y >= 0, "not negative", "Poisson loss")
        return y

    return _loss_of_mean(statistic)


def gamma() -> Loss:
    """Y / mean - 1, for a log link."""

    def statistic(y: Floats) -> Floats:
        _require(y > 0, "positive", "gamma loss")
        return y

    return _loss_of_mean(statistic, lambda mean: 1.0 / mean)


def tweedie(power: float) -> Loss:
    """(y - mean) mean^(1 - power), for a log link."""

    def statistic(y: Floats) -> Floats:
        _require(y >= 0, "not negative", "Tweedie loss")
        return y

    def find_factor(mean: Floats) -> Floats:
        if not (mean > 0).all():
            raise ValueError("y must not be zero in every row, because the model has Tweedie loss.")
        factor: Floats = mean ** (1.0 - power)
        return factor

    return _loss_of_mean(statistic, find_factor)


def absolute_error() -> Loss:
    """The sign of y less its median."""
    return _loss_of_constant(lambda y, weight: _quantile(y, weight, 0.5), lambda y, median: np.sign(y - median))


def absolute_percentage_error() -> Loss:
    """The sign of y less its median of weights 1 / max(1, abs(y)), times these weights."""

    def find_median(y: Floats, weight: Floats) -> Floats:
        return _quantile(y, weight / np.maximum(1.0, np.abs(y[:, 0])), 0.5)

    return _loss_of_constant(find_median, lambda y, median: np.sign(y - median) / np.maximum(1.0, np.abs(y)))


def quantile(*levels: float) -> Loss:
    """Level less 1 where y lies below its quantile; one column per level."""

    def find_quantiles(y: Floats, weight: Floats) -> Floats:
        return np.concatenate([_quantile(y, weight, level) for level in levels])

    def negative_gradient(y: Floats, quantiles: Floats) -> Floats:
        below = y[:, np.newaxis] < quantiles.reshape(len(levels), -1)
        return (np.array(levels)[:, np.newaxis] - below).reshape(len(y), -1)

    return _loss_of_constant(find_quantiles, negative_gradient)


def huber(delta: float) -> Loss:
    """Y less the best constant, cut at +-delta."""
    return _robust(_clip(delta))


def huber_quantile(level: float) -> Loss:
    """Huber loss whose delta is a quantile of the absolute residuals around the median."""

    def find_centre(y: Floats, weight: Floats) -> Floats:
        """Best constant and delta; the median where delta is zero."""
        median = _quantile(y, weight, 0.5)
        delta = _quantile(np.abs(y - median), weight, level)
        best = _find_best(_clip(float(delta[0])), y, weight) if delta[0] > 0 else median
        return np.append(best, delta[0])

    def negative_gradient(y: Floats, constant: Floats) -> Floats:
        best, delta = constant[:-1], float(constant[-1])
        return _clip(delta)(y - best) if delta > 0 else np.sign(y - best)

    return _loss_of_constant(find_centre, negative_gradient)


def pseudo_huber(slope: float) -> Loss:
    """R / sqrt(1 + (r / slope)^2), r being y less the best constant."""
    return _robust(lambda residual: residual / np.sqrt(1.0 + (residual / slope) ** 2))


def fair(c: float) -> Loss:
    """C r / (abs(r) + c), r being y less the best constant."""
    return _robust(lambda residual: c * residual / (np.abs(residual) + c))


def log_cosh() -> Loss:
    """tanh(r), r being y less the best constant."""
    return _robust(np.tanh)


def expectile(level: float) -> Loss:
    """R times level where r is positive, times 1 - level where it is not, r being y less the expectile."""
    return _robust(lambda residual: residual * np.where(residual > 0, level, 1.0 - level))


def squared_log_error() -> Loss:
    """log(1 + y) less its mean, divided by 1 + the constant."""

    def statistic(y: Floats) -> Floats:
        _require(y > -1, "above -1", "squared log error")
        return np.log1p(y)

    return _loss_of_mean(statistic, lambda mean: np.exp(-mean))


def aft(distribution: str, scale: float) -> Loss:
    """Accelerated failure time: y is the lower and the upper bound of each row's time, equal where it was seen.

    Parameters
    ----------
    distribution : {"normal", "logistic", "extreme"}
        Of the noise of the logarithm of time.
    scale : float
        Its scale.
    """
    noise = {"normal": stats.norm, "logistic": stats.logistic, "extreme": stats.gumbel_l}[distribution]

    def slope(y: Floats, score: float) -> Floats:
        """Derivative of the log likelihood by the raw score."""
        with np.errstate(divide="ignore"):
            ends = (np.log(y) - score) / scale
        low, high = np.clip(ends, -700.0, 700.0).T  # beyond, exponentials overflow
        # From the nearer side, so that a small mass is exact; one that is still zero counts as a time seen there.
        mass = np.where(low > 0, noise.sf(low) - noise.sf(high), noise.cdf(high) - noise.cdf(low))
        is_seen = (y[:, 0] == y[:, 1]) | (mass < np.finfo(np.float64).tiny)
        step = 1e-6
        z = np.where(is_seen, np.where(low > 0, low, high), 0.0)
        seen = (noise.logpdf(z - step) - noise.logpdf(z + step)) / (2 * step)
        censored = (noise.pdf(low) - noise.pdf(high)) / np.where(is_seen, 1.0, mass)
        derivative: Floats = np.where(is_seen, seen, censored) / scale
        return derivative

    def find_score(y: Floats, weight: Floats) -> Floats:
        _require((y[:, :1] >= 0) & (y[:, 1:] >= y[:, :1]) & (y[:, 1:] > 0), "a lower and an upper bound of time", "AFT")
        times = np.log(y[np.isfinite(y) & (y > 0)])
        bounds = (float(times.min()) - scale, float(times.max()) + scale)
        return np.array([_find_zero(lambda score: float(np.average(slope(y, score), weights=weight)), bounds)])

    return _loss_of_constant(find_score, lambda y, score: slope(y, float(score[0]))[:, np.newaxis])


def cox() -> Loss:
    """Life tables: martingale residuals of one hazard for all rows would depend on when rows are censored.

    y has two columns: time, and 1 for an event, 0 for a censored row.
    """

    def read_table(y: Floats, weight: Floats) -> Floats:
        _require(np.isin(y[:, 1:], (0, 1)), "times and events", "Cox loss")
        return make_life_table(y[:, 0], y[:, 1] > 0, weight)

    return Loss(read_table, is_life_table=True)


def read_signed_times(y: Any) -> Floats:
    """Read times that are negative where a row is censored, as some libraries have them, into the columns of `cox`."""
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
) -> Loss:
    of_mean = OfMean(statistic, find_factor)
    return Loss(of_mean.make_target, in_target_units, of_mean=of_mean)


def _loss_of_constant(
    find: Callable[[Floats, Floats], Floats], make_target: Callable[[Floats, Floats], Floats]
) -> Loss:
    return Loss(lambda y, weight: make_target(y, find(y, weight)), of_constant=OfConstant(find, make_target))


def _robust(slope: Callable[[Floats], Floats]) -> Loss:
    """A loss of the residual alone, with a slope that rises with it."""
    return _loss_of_constant(lambda y, weight: _find_best(slope, y, weight), lambda y, best: slope(y - best))


def _clip(delta: float) -> Callable[[Floats], Floats]:
    return lambda residual: np.clip(residual, -delta, delta)


def _find_best(slope: Callable[[Floats], Floats], y: Floats, weight: Floats) -> Floats:
    """The best constant of each column of y, for a loss of the residual alone."""

    def find_of_column(y: Floats) -> float:
        bounds = (float(y.min()), float(y.max()))
        return _find_zero(lambda score: float(np.average(slope(y - score), weights=weight)), bounds)

    return np.array([find_of_column(column) for column in y.T])


def _find_zero(function: Callable[[float], float], bounds: tuple[float, float]) -> float:
    low, high = bounds
    if low == high or function(low) * function(high) >= 0:
        return low if abs(function(low)) <= abs(function(high)) else high
    return float(optimize.brentq(function, low, high))


def _quantile(y: Floats, weight: Floats, level: float) -> Floats:
    """Smallest value of each column up to which at least this share of the weight lies."""
    order = np.argsort(y, axis=0, kind="stable")
    reached = np.cumsum(weight[order], axis=0)
    place = (reached < level * reached[-1]).sum(axis=0)
    found: Floats = np.take_along_axis(y, np.take_along_axis(order, place[np.newaxis], axis=0), axis=0)[0]
    return found


def _require(holds: NDArray[np.bool_], what: str, loss: str) -> None:
    if not holds.all():
        raise ValueError(f"y must be {what}, because the model has {loss}.")
