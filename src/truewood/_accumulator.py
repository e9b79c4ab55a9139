"""`ImportanceAccumulator`: the scores of `importance` from rows that arrive in parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from typing import Any, Self

from truewood._arguments import check_n_jobs, is_count
from truewood._engines.selection import check_engine, use_engine
from truewood._formatting import count, quote
from truewood._inputs.table_types import bring_to_host, take_named
from truewood._measures.registry import find_inference_problem
from truewood._results.importance_result import ImportanceResult
from truewood._streaming.aggregated import AggregatedScores, PartialErrors
from truewood._streaming.model import Part, StreamingModel
from truewood._streaming.open_source import check_in_memory
from truewood._streaming.partial_sums import PartialSums
from truewood._streaming.passes import N_SAMPLE, check_streaming_options


class ImportanceAccumulator:
    """Score a model on rows that arrive in parts, in one process or on any cluster.

    Call `update` for each part of the rows, add accumulators of disjoint rows in any order, and call `finish`: the
    scores equal those of ``importance(model, X, y, rows="heldout")`` with all rows in one table. Standard errors are
    estimated from a sample of the rows, or computed exactly by a second pass over all rows, see `second_pass`.

    Parameters
    ----------
    model : object
        A fitted model, as in `importance`.
    measure : str, default="auto"
        As in `importance`, except for "permutation", "mdi_plus_oob" and "sobol_mda", which need a table in memory.
    feature_groups : dict or sequence, default=None
        As in `importance`.
    target : callable, default=None
        For boosted trees, a function of y that returns the target, as in `importance`. Required for losses with a
        target that depends on all rows: absolute error, quantile, Huber and other robust losses.
    inference : bool, default=True
        Whether to compute standard errors and p-values.
    n_sample : int, default=100_000
        Number of rows to keep for standard errors without a second pass; 0 keeps none. Which rows are kept
        depends neither on their order nor on how they are split into parts.
    n_jobs : int, default=None
        Number of threads, as in scikit-learn.
    engine : {"auto", "native", "numpy", "cuda"}, default="auto"
        As in `importance`.

    Attributes
    ----------
    n_rows : int
        Number of rows so far.

    Notes
    -----
    A pickle holds the model, the settings and the sums at the leaves of the trees. Unless `inference` is False, it also
    holds up to `n_sample` rows for standard errors, and up to 16 features of up to 4,096 rows, to find out how many
    rows are copies of each other. If too many are, p-values are withheld. To send the sums without the model, for
    example from many workers to one process that has it, use `without_model`. Create a new accumulator in each task of
    a cluster, because `update` modifies it.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> import truewood as tw
    >>> X, y = load_diabetes(return_X_y=True)
    >>> forest = RandomForestRegressor(20, random_state=0).fit(X[:200], y[:200])
    >>> parts = (slice(200, 300), slice(300, None))
    >>> sum(tw.ImportanceAccumulator(forest).update(X[part], y[part]) for part in parts).finish().n_rows
    242
    """

    def __init__(
        self,
        model: Any,
        *,
        measure: str = "auto",
        feature_groups: Any = None,
        target: Any = None,
        inference: bool = True,
        n_sample: int = N_SAMPLE,
        n_jobs: int | None = None,
        engine: str = "auto",
    ) -> None:
        self._measure, self._inference = measure, check_streaming_options("heldout", measure, inference)
        if not is_count(n_sample, 0):
            raise ValueError(f"n_sample must be the number of rows to keep, or 0 to keep none, got {quote(n_sample)}.")
        check_engine(engine)
        check_n_jobs(n_jobs)  # what it stands for may differ on another machine
        self._feature_groups, self._n_jobs, self._engine = feature_groups, n_jobs, engine
        self._n_sample = int(n_sample) if self._inference else 0
        self._model: StreamingModel | None = StreamingModel(model, target=target, traces_each_part=True)
        self._first_pass: AggregatedScores | None = None  # set in the second pass
        self._sums: PartialSums | PartialErrors = PartialSums.of_no_rows(self._model, self._n_sample)

    @property
    def n_rows(self) -> int:
        """Number of rows so far."""
        return int(self._sums.n_rows)

    def update(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Add rows that the model never saw.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
            The rows; may be empty.
        y : array-like of shape (n_rows,) or (n_rows, n_outputs), or str
            Their target, or the name of its column in X.
        sample_weight : array-like of shape (n_rows,) or str, default=None
            Their weights, or the name of the weight column in X.

        Returns
        -------
        ImportanceAccumulator
            The accumulator itself.
        """
        model = self._get_model()
        check_in_memory(X, "update()")
        X, y, sample_weight = take_named(X, y=bring_to_host(y), sample_weight=bring_to_host(sample_weight))
        part, n_threads = Part("", X, y, sample_weight), check_n_jobs(self._n_jobs)
        added: PartialSums | PartialErrors
        with use_engine(self._engine):
            if self._first_pass is not None:
                added = self._first_pass.sum_errors(part, n_threads=n_threads)
            else:
                added = PartialSums.of_part(
                    model,
                    part,
                    feature_groups=self._feature_groups,
                    inference=self._inference,
                    n_sample=self._n_sample,
                    n_threads=n_threads,
                )
        self._sums = added if self.n_rows == 0 else self._add_sums(added)
        return self

    def __add__(self, other: ImportanceAccumulator) -> ImportanceAccumulator:
        """Merge accumulators of disjoint rows into a new one."""
        if not isinstance(other, ImportanceAccumulator):
            return NotImplemented
        for name in ("measure", "feature_groups", "inference"):
            own, given = getattr(self, f"_{name}"), getattr(other, f"_{name}")
            if own is not given and _freeze(own) != _freeze(given):
                raise ValueError(
                    f"only accumulators with the same {name} can be added, got {quote(own)} and {quote(given)}; create "
                    f"both with the same {name}."
                )
        merged = copy(self if self._model is not None else other)
        merged._sums = self._add_sums(other._sums)
        return merged

    def __radd__(self, other: Any) -> ImportanceAccumulator:
        return self if isinstance(other, int) and other == 0 else NotImplemented  # `sum` starts from 0

    def finish(self) -> ImportanceResult:
        """Compute the result from all rows so far.

        Returns
        -------
        ImportanceResult
            As from ``importance(..., rows="heldout")``, with a note on which rows the standard errors come from.
        """
        n_threads = check_n_jobs(self._n_jobs)
        with use_engine(self._engine):
            self._get_model()
            if self._first_pass is not None and isinstance(self._sums, PartialErrors):
                self._sums.check()
                return self._first_pass.finish(self._sums, n_threads=n_threads)
            return self._aggregate().finish(inference=self._inference, n_threads=n_threads)

    def second_pass(self) -> ImportanceAccumulator:
        """Start a second pass over the same rows, for exact standard errors.

        Returns
        -------
        ImportanceAccumulator
            An accumulator without rows. Update it with every row again, in parts of any size, and finish it. It raises
            an error if the number, weight, target or contributions of the rows show that they are not the same rows.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from sklearn.ensemble import RandomForestRegressor
        >>> import truewood as tw
        >>> X, y = load_diabetes(return_X_y=True)
        >>> forest = RandomForestRegressor(20, random_state=0).fit(X[:200], y[:200])
        >>> first = tw.ImportanceAccumulator(forest, n_sample=0).update(X[200:], y[200:])
        >>> first.second_pass().update(X[200:], y[200:]).finish().notes
        ('Standard errors from all 242 rows.',)
        """
        if isinstance(self._sums, PartialErrors):
            raise ValueError(
                "second_pass() needs an accumulator of the first pass, got one of the second pass; call it on the "
                "accumulator that has read the rows once."
            )
        with use_engine(self._engine):
            scores = self._aggregate()
        problem = find_inference_problem(scores.measure, self._inference)
        if problem is not None:
            raise ValueError(f"second_pass() computes standard errors, but {problem}.")
        second = copy(self)
        second._first_pass, second._sums = scores, scores.no_errors
        return second

    def without_model(self) -> ImportanceAccumulator:
        """Copy the sums without the model, to send them to a process that has the model.

        Returns
        -------
        ImportanceAccumulator
            A copy that can be pickled and added, but not updated or finished until it is added to an accumulator with
            the model.
        """
        detached = copy(self)
        detached._model = detached._first_pass = None
        return detached

    def __repr__(self) -> str:
        model = "without model" if self._model is None else self._model.tree_model.name
        if isinstance(self._sums, PartialErrors):
            is_damaged, which = self._sums.is_damaged(), "second pass, "
        else:
            is_damaged, which = self._sums.find_damage() is not None, ""
        rows = "damaged" if is_damaged else count(self.n_rows, "row")
        return f"ImportanceAccumulator({model}, {which}{rows})"

    def _add_sums(self, added: PartialSums | PartialErrors) -> PartialSums | PartialErrors:
        own = self._sums
        if isinstance(own, PartialSums) and isinstance(added, PartialSums):
            return own + added
        if isinstance(own, PartialErrors) and isinstance(added, PartialErrors):
            return own + added
        raise ValueError(
            "only accumulators of the same pass can be added, got one of the first pass and one of the second; add up "
            "those of the second pass alone, and call finish()."
        )

    def _aggregate(self) -> AggregatedScores:
        model, sums = self._get_model(), self._sums
        if not isinstance(sums, PartialSums):
            raise TypeError(f"the sums of the first pass must be PartialSums, got {type(sums).__name__}.")
        sums.check_model(model)
        if sums.names is None:
            raise ValueError("the accumulator must have rows, got none; call update() first.")
        return AggregatedScores(model, sums, self._measure, self._feature_groups)

    def _get_model(self) -> StreamingModel:
        if self._model is None:
            raise ValueError(
                "this accumulator holds only sums, because it comes from without_model(); add it to an accumulator "
                "with the model first, such as ImportanceAccumulator(model)."
            )
        return self._model


def _freeze(value: Any) -> Any:
    """A setting in a form that can be compared: arrays and series cannot."""
    if isinstance(value, Mapping):
        return tuple((str(name), _freeze(own)) for name, own in value.items())
    if isinstance(value, str) or not isinstance(value, Iterable):
        return str(value)
    return tuple(map(_freeze, value))
