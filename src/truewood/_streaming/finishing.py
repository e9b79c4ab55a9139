"""`accumulate_errors()` and `finish()`: from sums over all rows to a result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._arguments import check_n_jobs, check_type, count_rows, read_flag
from truewood._formatting import count
from truewood._inference.influence import Moments
from truewood._inference.standard_errors import find_problem
from truewood._inputs.row_arrays import take_named
from truewood._measures.registry import find_inference_problem
from truewood._results.importance_result import ImportanceResult
from truewood._scoring.results import add_errors, join_results
from truewood._streaming.aggregated import AggregatedScores, add_moments
from truewood._streaming.model import StreamingModel
from truewood._streaming.partial_sums import Partial

Floats = NDArray[np.float64]

# Of sums of weights in another order.
_ROUNDING = 1e-9

_OTHER_ROWS = (
    "X must give the same rows each time it is read; where a random step selects or changes rows, save its output and "
    "pass that."
)


@dataclass(frozen=True, eq=False, repr=False)
class PartialErrors:
    """What standard errors take, of some rows, as `accumulate_errors` gives it.

    Those of other rows merge by ``+``, in any order, and `sum` adds up many. They can be pickled.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    """

    fingerprint: str
    settings: tuple[Any, ...]  # measure, names of groups, and the number of all rows
    n_rows: int
    weight: float
    y_sums: Floats
    moments: tuple[Moments, ...] | None  # of each grouping; None without rows

    def __add__(self, other: PartialErrors) -> PartialErrors:
        if not isinstance(other, PartialErrors):
            return NotImplemented
        for errors in (self, other):
            errors.check()
        if (self.fingerprint, self.settings) != (other.fingerprint, other.settings):
            raise ValueError("only errors of the same model, totals, measure and groups add up.")
        moments = other.moments if self.moments is None else self.moments
        if self.moments is not None and other.moments is not None:
            moments = add_moments(self.moments, other.moments)
        n_rows, weight, y_sums = self.n_rows + other.n_rows, self.weight + other.weight, self.y_sums + other.y_sums
        return replace(self, n_rows=n_rows, weight=weight, y_sums=y_sums, moments=moments)

    def __radd__(self, other: Any) -> PartialErrors:
        return self if isinstance(other, int) and other == 0 else NotImplemented  # where `sum` starts

    def split(self) -> list[PartialErrors]:
        """In pieces, as a `Partial` goes from task to task; this is small."""
        return [self]

    @staticmethod
    def join(pieces: Sequence[PartialErrors]) -> PartialErrors:
        """The whole of its pieces."""
        return pieces[0]

    def check(self) -> None:
        """Refuse errors whose fields are not what `accumulate_errors` gives, as those that were changed."""
        if not self._is_whole():
            raise ValueError("errors are damaged, and not what accumulate_errors gives; read all rows a second time.")

    def _is_whole(self) -> bool:
        kinds = {"fingerprint": str, "settings": tuple, "n_rows": int, "weight": float, "y_sums": np.ndarray}
        if not all(isinstance(self.__dict__.get(name), kind) for name, kind in kinds.items()):
            return False
        if "moments" not in self.__dict__ or self.y_sums.shape[:1] != (2,) or not np.isfinite(self.y_sums).all():
            return False
        if self.moments is None:
            return self.n_rows == 0
        if not isinstance(self.moments, tuple) or not all(isinstance(moments, Moments) for moments in self.moments):
            return False
        sums = [getattr(moments, name) for moments in self.moments for name in Moments.__dataclass_fields__]
        return all(np.isfinite(values).all() for values in sums)

    def has_rows_of(self, total: Partial) -> bool:
        """Whether there are as many rows of the same weight and sum of y."""
        is_near = np.abs(self.y_sums - total.y_sums) <= _ROUNDING * total.y_sums[1]
        same_weight = math.isclose(self.weight, total.weight, rel_tol=_ROUNDING)
        return self.n_rows == total.n_rows and same_weight and bool(is_near.all())

    def __repr__(self) -> str:
        return f"PartialErrors({self.n_rows} rows)" if self._is_whole() else "PartialErrors(damaged)"


def accumulate_errors(
    model: Any,
    total: Partial,
    X: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    target: Any = None,
    measure: str = "auto",
    feature_groups: Any = None,
    n_jobs: int | None = None,
) -> PartialErrors:
    """Sum up what some rows contribute to scores, in a second pass over all rows, for exact standard errors.

    Parameters
    ----------
    model : object
        As of `accumulate`.
    total : Partial
        The sum of the partials of all rows.
    X, y, sample_weight, target : object
        Some of these rows, as of `accumulate`.
    measure, feature_groups : object
        As they are passed to `finish`.
    n_jobs : int, default=None
        Number of threads, as in scikit-learn.

    Returns
    -------
    PartialErrors
        What `finish` takes as `errors`, when those of all rows have been added up.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> import truewood as tw
    >>> X, y = load_diabetes(return_X_y=True)
    >>> forest = RandomForestRegressor(20, random_state=0).fit(X[:200], y[:200])
    >>> total = tw.accumulate(forest, X[200:], y[200:], n_sample=0)
    >>> errors = tw.accumulate_errors(forest, total, X[200:], y[200:])
    >>> tw.finish(forest, total, errors=errors).inference_unavailable is None
    True
    """
    _check_total(total)
    total.check()
    if (target is not None) != bool(total.settings[0]):
        raise ValueError("target must be the function that the totals were accumulated with, or None as it was then.")
    totals = AggregatedScores(StreamingModel(model, target=target), total, measure, feature_groups)
    return accumulate_rows_errors(totals, X, y, sample_weight, n_threads=check_n_jobs(n_jobs))


def accumulate_rows_errors(
    totals: AggregatedScores, X: Any, y: Any, sample_weight: Any, *, n_threads: int = 1
) -> PartialErrors:
    """`accumulate_errors` with totals that have been made before, for one part of the rows after the other."""
    X, y, sample_weight = take_named(X, y=y, sample_weight=sample_weight)
    n_rows = count_rows(X)
    weight, y_sums, moments = 0.0, np.zeros((2, 1)), None
    if n_rows:
        rows = totals.opened.read(X, y, sample_weight)
        weight, y_sums = float(n_rows if rows.weight is None else rows.weight.sum()), rows.y_sums
        moments = totals.measure_rows(rows, n_threads)
    return PartialErrors(totals.opened.fingerprint, _find_settings(totals), n_rows, weight, y_sums, moments)


def _find_settings(totals: AggregatedScores) -> tuple[Any, ...]:
    names = tuple(tuple(grouping.names.tolist()) for grouping in totals.groupings)
    return totals.measure.name, names, totals.partial.n_rows, totals.partial.n_scoring


def finish(
    model: Any,
    total: Partial,
    *,
    measure: str = "auto",
    feature_groups: Any = None,
    inference: bool = True,
    errors: PartialErrors | None = None,
    n_jobs: int | None = None,
) -> ImportanceResult:
    """Make a result of the sums over all rows.

    Parameters
    ----------
    model : object
        As of `accumulate`.
    total : Partial
        The sum of the partials of all rows.
    measure, feature_groups : object
        As of `importance`; "permutation" takes a table in memory.
    inference : bool, default=True
        Whether to add standard errors and p-values: exact ones from `errors`, else from the sample that the partials
        hold.
    errors : PartialErrors or None, default=None
        The sum of `accumulate_errors` over all rows, with the same `measure` and `feature_groups`.
    n_jobs : int, default=None
        Number of threads, as in scikit-learn.

    Returns
    -------
    ImportanceResult
        As of ``importance(..., rows="heldout")``, with a note on where errors come from.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> import truewood as tw
    >>> X, y = load_diabetes(return_X_y=True)
    >>> forest = RandomForestRegressor(20, random_state=0).fit(X[:200], y[:200])
    >>> tw.finish(forest, tw.accumulate(forest, X[200:], y[200:])).notes
    ('Standard errors from all 242 rows.',)
    """
    _check_total(total)
    inference = read_flag(inference, "inference", " where rows come in parts")
    totals = AggregatedScores(StreamingModel(model), total, measure, feature_groups)
    if errors is not None:
        _check_errors(errors, totals)
    return finish_totals(totals, inference=inference, errors=errors, n_threads=check_n_jobs(n_jobs))


def finish_totals(
    totals: AggregatedScores, *, inference: bool, errors: PartialErrors | None = None, n_threads: int = 1
) -> ImportanceResult:
    """`finish` with totals that have been made before, and errors of the same rows."""
    results, notes, partial = totals.results, totals.notes, totals.partial
    problem = find_inference_problem(totals.measure, inference)
    if problem is not None:
        return _give_up(totals, problem)
    all_rows, is_whole = f"all {count(partial.n_rows, 'row')}", True
    if errors is not None:
        moments, used = errors.moments or (), all_rows
    elif partial.sample is not None:
        n_kept = int(partial.sample.count.sum())
        moments = totals.measure_sample(partial.sample, n_threads)
        is_whole = n_kept == partial.n_scoring
        used = all_rows if is_whole else f"a sample of {count(n_kept, 'row')} out of {partial.n_scoring:,}"
    else:
        return _give_up(totals, "the rows were read once, and no sample of them was kept")
    problem, cause = find_problem(partial.n_scoring), _OTHER_ROWS if is_whole else None
    results = add_errors(results, moments, totals.tree_scores, problem, cause=cause)
    return join_results(results, (*notes, f"Standard errors from {used}."))


def _give_up(totals: AggregatedScores, problem: str) -> ImportanceResult:
    return join_results([replace(result, inference_unavailable=problem) for result in totals.results], totals.notes)


def _check_total(total: Any) -> None:
    check_type(total, Partial, "total", "the sum of partials, as accumulate gives them")


def _check_errors(errors: PartialErrors, totals: AggregatedScores) -> None:
    check_type(errors, PartialErrors, "errors", "the sum of what accumulate_errors gives")
    errors.check()
    if errors.fingerprint != totals.opened.fingerprint or errors.settings != _find_settings(totals):
        raise ValueError("errors must be accumulated with the same model, totals, measure and groups.")
    if not errors.has_rows_of(totals.partial):
        raise ValueError(
            f"errors must be of all {totals.partial.n_rows} rows of the totals, got those of {errors.n_rows}, of "
            f"weight {errors.weight:.12g} and not {totals.partial.weight:.12g}; read all rows a second time, each once."
        )
    n_groups = [len(grouping.names) for grouping in totals.groupings]
    if [len(moments.C_C) for moments in errors.moments or ()] != n_groups:
        raise ValueError("errors are damaged: they are of other features; read all rows a second time.")
