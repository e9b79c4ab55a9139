"""The direction in which a feature moves predictions: rising, falling, mixed or by level, with a small curve."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood._arguments import check_type
from truewood._formatting import ROWS_IN_WORDS, count, find_unit, shorten
from truewood._results.summary import NOT_SIGNIFICANT, classify_features

if TYPE_CHECKING:
    from truewood._results.explanation import Explanation
    from truewood._results.importance_result import ImportanceResult

RISING, FALLING, MIXED, BY_LEVEL = "rising", "falling", "mixed", "by level"
HIGHER_RISK, LOWER_RISK = "higher risk", "lower risk"
# Rows to use, evenly spaced, and rows with a known value that a direction needs.
_MAX_ROWS = 2_000
_MIN_ROWS = 20
# Part of the change in mean effects, from low to high values, that must go up (or down).
_MIN_MONOTONE = 0.7
# Part of the variance of effects that bin means must explain; otherwise the direction depends on other features.
_MIN_EXPLAINED = 0.25
_MAX_BINS = 10
_MAX_LEVELS = 8

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Direction:
    """The direction in which a feature moves predictions of rows the trees were not trained on.

    Parameters
    ----------
    word : str
        Rising or falling (for survival times: higher risk or lower risk), mixed, or by level; empty if unknown.
    effects : list of float
        Mean effects on the prediction, either in bins from low to high values or by level.
    levels : list of str
        The most frequent levels, from the lowest to the highest effect; empty for numbers.
    errors : list of float
        Standard errors of the mean effects over rows; NaN for a single row.
    values : list of float
        Mean value of the feature in each bin, for dates in seconds since 1970; empty for levels.
    counts : list of int
        Number of rows in each bin or level.
    is_date : bool
        Whether the values are dates.
    output : str
        The class that effects refer to if there are more than two; else empty.
    n_more : int
        Number of levels that are left out because they are less frequent.
    """

    word: str = ""
    effects: list[float] = field(default_factory=list)
    levels: list[str] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    is_date: bool = False
    output: str = ""
    n_more: int = 0

    @property
    def text(self) -> str:
        """The word, or the level with the highest effect if no level is left out, and the class."""
        if not self.levels or self.n_more:  # a less frequent level may be higher
            return self.short_text
        return f"{self._add_output('highest')}: {self.levels[-1]}"

    @property
    def short_text(self) -> str:
        """The word and the class, for narrow tables."""
        return self._add_output(self.word)

    def _add_output(self, text: str) -> str:
        return f"{text} for {self.output}" if self.output else text


UNKNOWN = Direction()


def find_directions(result: ImportanceResult, explanation: Explanation | None, alpha: float) -> list[Direction] | None:
    """Find the directions of a result's features, unknown for those that are not significant.

    Parameters
    ----------
    result : ImportanceResult
        The scores.
    explanation : Explanation or None
        The explanation of the same features; without it, the return value is None.
    alpha : float
        Significance level for adjusted p-values.
    """
    if explanation is None:
        return None
    from truewood._results.explanation import Explanation  # a circular import at the top

    check_type(explanation, Explanation, "explanation", "an Explanation from truewood.explain")
    if not np.array_equal(explanation.feature_names, result.feature_names):
        raise ValueError(
            "explanation must have the features of this result in the same order, got others; explain the same model "
            "and table, with the same feature_groups."
        )
    is_wanted = np.ones(len(result.values), dtype=np.bool_)
    if result.inference_unavailable is None:
        is_wanted = classify_features(result, alpha) != NOT_SIGNIFICANT
    rows = pick_rows(explanation)
    return [_find(explanation, rows, j) if wanted else UNKNOWN for j, wanted in enumerate(is_wanted)]


def pick_rows(explanation: Explanation) -> NDArray[np.intp]:
    """Pick up to 2,000 evenly spaced rows that have an explanation."""
    base = explanation.base_values
    rows = np.flatnonzero(~np.isnan(base if base.ndim == 1 else base[:, 0]))
    return rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), _MAX_ROWS)).astype(np.intp))]


def name_prediction(explanation: Explanation, output_name: str | None = None) -> str:
    """Name what an explanation adds up to: a prediction, predicted risk or raw score, and for which output."""
    name = "raw score" if explanation.is_additive else "predicted risk" if explanation.is_risk else "prediction"
    return name if output_name is None else f'{name} for "{shorten(output_name, 24)}"'


def find_predicted_class(explanation: Explanation) -> str | None:
    """Return the class that effects refer to, if it is the same for all features."""
    names = explanation.output_names
    if names is None:
        return explanation.positive_class
    return str(names[1]) if len(names) == 2 else None


def explain_directions(explanation: Explanation, *, with_inference: bool = True) -> str:
    """Explain how directions are determined; without inference, all features have one."""
    what, (up, down) = name_prediction(explanation, find_predicted_class(explanation)), _name_trends(explanation)
    which = ""
    if explanation.output_names is not None and len(explanation.output_names) > 2:
        which = ", for the class that it affects most"
    rows = f"{len(pick_rows(explanation)):,} {ROWS_IN_WORDS[explanation.rows]}"
    unit = ""
    if explanation.is_additive:
        unit = " Raw score: the sum of the trees' values, before any transformation such as the logistic function."
    elif explanation.is_risk:
        unit = " Predicted risk: the predicted cumulative hazard, summed over the event times of the training rows."
    which_not = "Features that are not significant, and groups of features," if with_inference else "Groups of features"
    return (
        f"Direction: how the mean effect on the {what} changes from low to high values of the feature{which}. It is "
        f'"{up}" if at least {100 * _MIN_MONOTONE:g}% of the total change is upward, "{down}" if at least '
        f'{100 * _MIN_MONOTONE:g}% is downward, and "mixed" otherwise or if the effect depends on other features. '
        "For categories, the mean effect of each level is given instead. "
        f"{which_not} have no direction. Effects are means over {rows}.{unit}"
    )


def describe_levels(result: ImportanceResult, directions: list[Direction]) -> list[str]:
    """Describe the effects of levels, a line per feature that has some, the most important first."""
    more = [f" ({count(own.n_more, 'more level')})" if own.n_more else "" for own in directions]
    return [
        f"Mean effects of {result.feature_names[j]}{f' for {directions[j].output}' * bool(directions[j].output)}: "
        f"{'; '.join(f'{level} {effect}' for level, effect in list_effects(directions[j]))}{more[j]}."
        for j in result.order.tolist()
        if directions[j].levels
    ]


def list_effects(direction: Direction) -> list[tuple[str, str]]:
    """List levels and effects as text, the highest effect first, all in one unit; empty for numbers."""
    if not direction.levels:
        return []
    unit = find_unit(direction.effects)
    power = f"e{unit.exponent}" if unit.exponent else ""
    pairs = zip(direction.levels, direction.effects, strict=True)
    return [(level, f"{unit.write(effect, sign='+')}{power}") for level, effect in pairs][::-1]


def _name_trends(explanation: Explanation) -> tuple[str, str]:
    """Words for up and down; for survival times they must not be mistaken for a longer or shorter time."""
    return (HIGHER_RISK, LOWER_RISK) if explanation.is_risk else (RISING, FALLING)


def find_class_directions(explanation: Explanation, j: int) -> list[Direction]:
    """Find the directions of a feature for each of more than two classes, the class it affects most first."""
    rows, names = pick_rows(explanation), explanation.output_names
    if names is None or len(names) == 2:
        return []
    return [_find_output(explanation, rows, j, k) for k in _order_outputs(explanation.values[rows, j])]


def _order_outputs(effects: Floats) -> list[int]:
    """Order outputs by the size of effects of shape (n_rows, n_outputs), the largest first."""
    order: list[int] = np.argsort(-np.abs(effects).mean(axis=0), kind="stable").tolist()
    return order


def _find(explanation: Explanation, rows: NDArray[np.intp], j: int) -> Direction:
    names = explanation.output_names
    if names is None or len(names) == 2:
        return _find_output(explanation, rows, j, None if names is None else 1)
    return _find_output(explanation, rows, j, _order_outputs(explanation.values[rows, j])[0])


def _find_output(explanation: Explanation, rows: NDArray[np.intp], j: int, k: int | None) -> Direction:
    """Find the direction for one output, None for the only one."""
    effects, names, output = explanation.values[rows, j], explanation.output_names, ""
    if k is not None and names is not None:
        effects, output = effects[:, k], "" if len(names) == 2 else str(names[k])
    column = pd.Series(explanation.data[rows, j]).infer_objects()
    is_known = column.notna().to_numpy()
    if np.count_nonzero(is_known) < min(_MIN_ROWS, len(rows)) or column[is_known].nunique() < 2:
        return UNKNOWN
    column, effects = column[is_known].reset_index(drop=True), effects[is_known]
    is_date = pd.api.types.is_datetime64_any_dtype(column)
    if is_date:
        column = (column - pd.Timestamp(0)) / pd.Timedelta(seconds=1)
    if not pd.api.types.is_numeric_dtype(column):
        return _describe_levels(column, effects, output)
    trend = measure_trend(column.to_numpy().astype(np.float64), effects)
    up, down = _name_trends(explanation)
    is_clear = trend.explained >= _MIN_EXPLAINED
    word = MIXED
    if is_clear and trend.rising >= _MIN_MONOTONE:
        word = up
    elif is_clear and trend.rising <= 1 - _MIN_MONOTONE:
        word = down
    return Direction(
        word,
        trend.effects.tolist(),
        errors=trend.errors.tolist(),
        values=trend.values.tolist(),
        counts=trend.counts.tolist(),
        is_date=is_date,
        output=output,
    )


@dataclass(frozen=True, eq=False)
class Trend:
    """The trend of effects from low to high numbers.

    Parameters
    ----------
    effects, errors : ndarray of shape (n_bins,)
        Mean effects in bins from low to high numbers, and their standard errors.
    values : ndarray of shape (n_bins,)
        Mean numbers of the bins.
    counts : ndarray of int, shape (n_bins,)
        Rows in the bins.
    rising : float
        Part of the total change from bin to bin that goes up; 0.5 without any change.
    explained : float
        Part of the variance of effects that bin means explain; 0 if effects do not vary.
    """

    effects: Floats
    errors: Floats
    values: Floats
    counts: NDArray[np.int64]
    rising: float
    explained: float


def measure_trend(numbers: Floats, effects: Floats) -> Trend:
    """Bin rows by their numbers, and follow the mean effects from bin to bin."""
    starts, counts = np.unique(numbers, return_counts=True)
    if len(starts) > _MAX_BINS:
        # A frequent value gets a bin of its own.
        frequent = np.flatnonzero(counts > len(numbers) / _MAX_BINS)
        own = starts[np.union1d(frequent, np.minimum(frequent + 1, len(starts) - 1))]
        starts = np.union1d(np.quantile(numbers, np.arange(_MAX_BINS) / _MAX_BINS, method="lower"), own)
    bins = np.searchsorted(starts, numbers, side="right") - 1
    sizes = np.bincount(bins)
    means: Floats = np.bincount(bins, weights=effects) / sizes
    steps, variance = np.diff(means), float(effects.var())
    length = float(np.abs(steps).sum())
    return Trend(
        means,
        errors=_find_errors(effects - means[bins], bins, sizes),
        values=np.bincount(bins, weights=numbers) / sizes,
        counts=sizes,
        rising=float(steps.clip(min=0).sum()) / length if length > 0 else 0.5,
        explained=float(means[bins].var()) / variance if variance > 0 else 0.0,
    )


def _find_errors(residuals: Floats, bins: NDArray[np.intp], sizes: NDArray[np.intp]) -> Floats:
    """Standard errors of the means of bins, given the residuals from these means; NaN for a single row."""
    squares = np.bincount(bins, weights=residuals**2)
    errors: Floats = np.sqrt(squares / np.where(sizes > 1, (sizes - 1) * sizes, np.nan))
    return errors


def _describe_levels(column: pd.Series[Any], effects: Floats, output: str) -> Direction:
    texts = column.astype(str)
    common = texts.value_counts().index[:_MAX_LEVELS]
    groups = pd.Series(effects).groupby(texts)
    table = groups.agg(["mean", "sem", "size"]).loc[common].sort_values("mean")
    return Direction(
        BY_LEVEL,
        table["mean"].tolist(),
        list(map(str, table.index)),
        errors=table["sem"].tolist(),
        counts=table["size"].tolist(),
        output=output,
        n_more=groups.ngroups - len(table),
    )
