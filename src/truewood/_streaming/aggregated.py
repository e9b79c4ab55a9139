"""`Totals`: what all rows say, made into scores, and what single rows then contribute to them."""

from __future__ import annotations

from functools import cached_property, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._exceptions import TrainingRowsError
from truewood._formatting import quote
from truewood._inference.influence import Contributions, Moments, TreeScores, measure_moments
from truewood._inputs.target import NumberTarget, Target
from truewood._measures.registry import check_measure, find_measure
from truewood._results.importance_result import ImportanceResult
from truewood._rows.training_check import have_training_sums
from truewood._scoring.results import (
    Metadata,
    find_groupings,
    make_results,
    make_tree_scores,
)
from truewood._scoring.trees import Scores, score_sums
from truewood._streaming.accumulating import make_empty
from truewood._streaming.model import Rows, StreamingModel
from truewood._streaming.partial_sums import Partial
from truewood._streaming.row_sample import RowSample
from truewood._streaming.tree_passes import find_influence
from truewood._trees.node_sums import NodeSums, RowTerms, aggregate_to_root

Floats = NDArray[np.float64]

# Contributions that are held at a time.
_MOST_VALUES = 1 << 23


class AggregatedScores:
    """What all rows say at the nodes of a model.

    Parameters
    ----------
    opened : StreamingModel
        The model.
    partial : Partial
        The sums over all rows.
    measure : str
        The argument of `importance`.
    feature_groups : object
        The argument of `importance`.
    """

    def __init__(self, opened: StreamingModel, partial: Partial, measure: str, feature_groups: Any) -> None:
        check_measure(measure)
        partial.check()
        if partial.fingerprint != opened.fingerprint:
            raise ValueError("the partial is of another model than the one that was passed.")
        if partial.names is None:
            raise ValueError("X must hold at least one row, got none.")
        if partial.n_scoring == 0:
            raise ValueError("sample_weight must not be zero for every row.")
        partial.check_trees(make_empty(opened, 0))
        if partial.sample is not None and partial.sample.values.shape[1] != len(opened.used_columns):
            raise ValueError(
                "the partial is damaged: sample has other columns than the model; accumulate its rows again."
            )
        self.opened, self.partial = opened, partial
        self._settle()
        self._guard()
        self.metadata = Metadata(
            tree_model=opened.tree_model,
            rows="heldout",
            n_rows=partial.n_rows,
            target_variance=self._find_target_variance(),
            has_own_target=bool(partial.settings[0]),
        )
        is_weighted = partial.least_weight < partial.largest_weight
        self.measure = find_measure(measure, opened.tree_model, compares_hazards=False, is_weighted=is_weighted)
        if self.measure.split_score is None:
            raise ValueError(f"measure={quote(measure)} looks at single rows again and again; pass a table in memory.")
        names = np.asarray(partial.names, dtype=np.str_)
        self.groupings, self.notes = find_groupings(feature_groups, names, partial.encoding, opened.tree_model)
        opened.encoding = partial.encoding  # no part has to tell it again
        self._arguments = opened, partial, measure, feature_groups

    def __reduce__(self) -> tuple[Any, ...]:
        # With the scores, so that what there is to warn of is said once.
        return AggregatedScores, self._arguments, {"tree_scores": self.tree_scores}

    def _settle(self) -> None:
        """Find what is taken from what rows say, and what that is multiplied by, for the target of additive trees."""
        partial = self.partial
        self._centre, self._factor = partial.origin, np.ones_like(partial.origin)
        if self.opened.is_additive:
            low, high = partial.y_range
            # A target that does not vary is zero, without rounding errors.
            self._centre = np.where(low == high, low, partial.origin + partial.moments[0] / partial.weight)
            has_target, constant, _ = partial.settings
            if not has_target and constant is None:
                self._factor = self.opened.of_mean.find_factor(self._centre)
        self._settled = partial.shift(self._centre)

    def _find_target_variance(self) -> float:
        if not self.opened.is_additive:
            return np.nan
        return float((self._factor**2 * self._settled.moments[1]).sum() / self.partial.weight)

    def _find_largest(self, n_columns: int) -> Floats:
        """Largest absolute value of the target, shape (n_columns,); of all columns together where trees sum others."""
        if self.opened.counts_classes:
            return np.ones(n_columns)
        largest: Floats = (np.abs(self._factor) * np.abs(self.partial.y_range - self._centre)).max(axis=0)
        return largest if len(largest) == n_columns else np.full(n_columns, largest.sum())

    def make_target(self, said: NDArray[Any]) -> Target:
        """The target of rows, given what is summed of them."""
        if self.opened.is_additive:
            return NumberTarget.of_numbers(self._factor * (said - self._centre))
        return self.opened.make_target(said, self._centre)

    def sum_nodes(self, run: int) -> NodeSums:
        """Sums at all nodes of a run of trees."""
        opened, (trees, ensemble) = self.opened, self.opened.runs[run]
        first, end = opened.leaf_offset[[trees.start, trees.stop]]
        at_leaves = np.zeros((len(ensemble.left), self._settled.sums.shape[1]))
        at_leaves[opened.leaves[run]] = self._settled.sums[first:end]
        sums = aggregate_to_root(ensemble, at_leaves)
        n_columns = ensemble.kind.n_columns
        weight, total = sums[:, 0].copy(), np.ascontiguousarray(sums[:, 1 : 1 + n_columns])
        if opened.counts_classes:
            square = np.broadcast_to(weight[:, np.newaxis], (len(weight), ensemble.kind.n_outputs))
            return NodeSums(weight, total, square, self._centre)
        if not opened.is_additive:
            return NodeSums(weight, total, np.ascontiguousarray(sums[:, 1 + n_columns :]), self._centre)
        factor = self._factor
        if ensemble.column is not None:
            factor = ensemble.repeat_for_nodes(self._factor[ensemble.column])[:, np.newaxis]
        return NodeSums(weight, total * factor, np.zeros_like(total), np.zeros_like(self._centre))

    def _guard(self) -> None:
        """Refuse rows that the model was fit on."""
        run_of = np.repeat(np.arange(len(self.opened.runs)), [len(trees) for trees, _ in self.opened.runs])
        found: dict[int, NodeSums] = {}

        def find_sums(tree: int) -> NodeSums:
            run = int(run_of[tree])
            if run not in found:
                found.clear()
                found[run] = self.sum_nodes(run)
            trees, ensemble = self.opened.runs[run]
            first, end = ensemble.offset[[tree - trees.start, tree - trees.start + 1]]
            return found[run].take(np.arange(first, end))

        partial, tree_model = self.partial, self.opened.tree_model
        are_counts = partial.least_weight == partial.largest_weight == 1.0
        if have_training_sums(tree_model, find_sums, partial.n_rows, are_counts=are_counts):
            raise TrainingRowsError(
                f"rows='heldout' needs rows the model never saw, got the rows that this {tree_model.name} was fit on."
            )

    @cached_property
    def scores(self) -> Scores:
        """Scores of all trees."""
        return Scores.join(
            [
                score_sums(
                    self.opened.tree_model,
                    self.measure,
                    ensemble,
                    self.sum_nodes(run),
                    self._find_largest(ensemble.kind.n_columns),
                )
                for run, (_, ensemble) in enumerate(self.opened.runs)
            ]
        )

    @cached_property
    def results(self) -> list[ImportanceResult]:
        """Results of each grouping, without errors."""
        return make_results(self.metadata, self.measure, self.scores, self.groupings)

    @cached_property
    def tree_scores(self) -> list[TreeScores]:
        """What errors have to know of the scores of each grouping."""
        return make_tree_scores(self.results, self.scores, self.groupings, self.opened.tree_model)

    @cached_property
    def _terms(self) -> list[RowTerms]:
        """What rows add at the nodes of each run of trees."""
        if self.measure.row_terms is None:
            raise ValueError(f"measure={self.measure.name!r} {self.measure.why_no_inference}.")
        return [
            self.measure.row_terms(ensemble, self.sum_nodes(run), None).evaluation
            for run, (_, ensemble) in enumerate(self.opened.runs)
        ]

    def measure_rows(self, rows: Rows, n_threads: int, count: Floats | None = None) -> tuple[Moments, ...]:
        """Sums over some rows, at least one, of what they contribute, for each grouping.

        `count` is the number of rows that each of them stands for.
        """
        parts = []
        for start, stop in self._split(rows.matrix.n_rows):
            matrix, target = rows.matrix.take_range(start, stop), self.make_target(rows.said[start:stop])
            weight = None if rows.weight is None else rows.weight[start:stop]
            phi = find_influence(self.opened, self._terms, matrix, target, weight, n_threads)
            contributions = Contributions(phi, None, rows.is_scoring[start:stop], self.partial.n_scoring, None)
            counted = None if count is None else count[start:stop]
            parts.append(
                tuple(
                    measure_moments(contributions, scores, grouping, count=counted, n_threads=n_threads)
                    for scores, grouping in zip(self.tree_scores, self.groupings, strict=True)
                )
            )
        return reduce(add_moments, parts)

    def measure_sample(self, sample: RowSample, n_threads: int) -> tuple[Moments, ...]:
        """Sums over all rows as a sample of them tells."""
        names = np.asarray(self.partial.names, dtype=np.str_)
        count = sample.count * (self.partial.n_scoring / sample.count.sum())
        parts = []
        for start, stop in self._split(len(sample.key)):
            matrix = sample.make_matrix(self.opened, names, start, stop)
            rows = Rows(matrix, sample.said[start:stop], sample.weight[start:stop])
            parts.append(self.measure_rows(rows, n_threads, count[start:stop]))
        return reduce(add_moments, parts)

    def _split(self, n_rows: int) -> list[tuple[int, int]]:
        """Blocks of rows whose contributions fit into memory; one where a library finds the leaves itself."""
        most = (
            n_rows if self.opened.tree_model.finds_leaves else max(1, _MOST_VALUES // self.opened.tree_model.n_features)
        )
        return [(start, min(start + most, n_rows)) for start in range(0, n_rows, most)]


def add_moments(a: tuple[Moments, ...], b: tuple[Moments, ...]) -> tuple[Moments, ...]:
    """Sums over two parts of the rows, for each grouping."""
    return tuple(one + other for one, other in zip(a, b, strict=True))
