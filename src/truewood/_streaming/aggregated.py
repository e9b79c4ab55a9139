"""`AggregatedScores`: scores from the sums over all rows, then standard errors from a second pass over the rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._arguments import count_rows
from truewood._engines.records import RowLists
from truewood._engines.selection import get_engine
from truewood._exceptions import TrainingRowsError, warn
from truewood._formatting import count, quote
from truewood._inference.moments import GroupingScores, InfluenceBlock, Moments, measure_moments
from truewood._inference.standard_errors import find_row_shortage
from truewood._inputs.tables import FeatureMatrix
from truewood._inputs.target import NumberTarget, Target
from truewood._measures.registry import find_inference_problem, find_measure
from truewood._results.importance_result import ImportanceResult
from truewood._rows.training_check import have_training_sums
from truewood._scoring.inputs import describe_early_stopping
from truewood._scoring.results import (
    Metadata,
    add_errors,
    find_groupings,
    join_results,
    make_grouping_scores,
    make_results,
    weigh_trees,
)
from truewood._scoring.scores_by_tree import ScoresByTree, score_sums
from truewood._streaming.model import BLOCK_ROWS, Part, Rows, StreamingModel
from truewood._streaming.partial_sums import ROUNDING, PartialSums
from truewood._streaming.row_sample import RowSample
from truewood._trees.node_sums import NodeSums, RowTerms, aggregate_to_root

Floats = NDArray[np.float64]

# Row contributions held in memory at a time.
_MOST_VALUES = 1 << 23

# What the settings of `PartialErrors` are.
_SETTINGS = ("measure", "features", "number of rows in the first pass", "number of weighted rows in the first pass")

_RANDOM_STEP = "if a random step selects or changes rows, save its output and pass that"
_OTHER_ROWS = f"X must give the same rows each time it is read; {_RANDOM_STEP}."


@dataclass(frozen=True, eq=False, repr=False)
class PartialErrors:
    """Contribution of some rows to the standard errors, without the model; disjoint rows add up by ``+``."""

    fingerprint: str  # of the model
    settings: tuple[Any, ...]  # see `_SETTINGS`
    n_rows: int
    weight: float
    y_sums: Floats  # see `Rows.y_sums`
    moments: tuple[Moments, ...] | None  # of each grouping; None without rows

    def __add__(self, other: PartialErrors) -> PartialErrors:
        if not isinstance(other, PartialErrors):
            return NotImplemented
        self.check()
        other.check()
        if self.fingerprint != other.fingerprint:
            raise ValueError("only accumulators of the same model can be added, got two models; create all with one.")
        for name, own, given in zip(_SETTINGS, self.settings, other.settings, strict=True):
            if own != given:
                raise ValueError(
                    f"only second passes with the same {name} can be added, got {quote(own)} and {quote(given)}; start "
                    "both from the same first pass."
                )
        moments = other.moments if self.moments is None else self.moments
        if self.moments is not None and other.moments is not None:
            moments = _add_moments(self.moments, other.moments)
        n_rows, weight, y_sums = self.n_rows + other.n_rows, self.weight + other.weight, self.y_sums + other.y_sums
        return replace(self, n_rows=n_rows, weight=weight, y_sums=y_sums, moments=moments)

    def __radd__(self, other: Any) -> PartialErrors:
        return self if isinstance(other, int) and other == 0 else NotImplemented  # `sum` starts from 0

    def split(self) -> list[PartialErrors]:
        """Like `PartialSums.split`, but always one piece, because errors are small."""
        return [self]

    @staticmethod
    def join(pieces: Sequence[PartialErrors]) -> PartialErrors:
        """Join the pieces."""
        return pieces[0]

    def check(self) -> None:
        """Raise an error if a field is not what `AggregatedScores.sum_errors` computes."""
        if self.is_damaged():
            raise ValueError("the sums of the second pass are damaged; read all rows a second time.")

    def is_damaged(self) -> bool:
        """Whether a field is missing or not valid."""
        types = {"fingerprint": str, "settings": tuple, "n_rows": int, "weight": float, "y_sums": np.ndarray}
        if not all(isinstance(self.__dict__.get(name), own) for name, own in types.items()):
            return True
        if len(self.settings) != len(_SETTINGS):
            return True
        if "moments" not in self.__dict__ or self.y_sums.shape[:1] != (2,) or not np.isfinite(self.y_sums).all():
            return True
        if self.moments is None:
            return self.n_rows != 0
        if not isinstance(self.moments, tuple) or not all(isinstance(moments, Moments) for moments in self.moments):
            return True
        sums = [getattr(moments, name) for moments in self.moments for name in Moments.__dataclass_fields__]
        return not all(np.isfinite(values).all() for values in sums)


class AggregatedScores:
    """Scores from the sums over all rows.

    Parameters
    ----------
    model : StreamingModel
        The model.
    sums : PartialSums
        The sums over all rows.
    measure, feature_groups : object
        As in `importance`.
    """

    def __init__(self, model: StreamingModel, sums: PartialSums, measure: str, feature_groups: Any) -> None:
        if sums.names is None:
            raise ValueError("X must have at least one row, got none.")
        if sums.n_scoring == 0:
            raise ValueError("sample_weight must be positive in at least one row, got only zeros.")
        self.model, self.sums = model, sums
        self._center, self._factor = sums.origin, np.ones_like(sums.origin)
        if model.is_additive:
            low, high = sums.y_range
            # A target that does not vary is exactly zero, without rounding errors.
            self._center = np.where(low == high, low, sums.origin + sums.moments[0] / sums.weight)
            has_own_target, constant, _ = sums.settings
            if not has_own_target and constant is None:
                self._factor = model.of_mean.find_factor(self._center)
        self._centered = sums.shift(self._center)
        self._refuse_training_rows()
        variance = np.nan
        if model.is_additive:
            variance = float((self._factor**2 * self._centered.moments[1]).sum() / sums.weight)
        self._metadata = Metadata(
            tree_model=model.tree_model,
            rows="heldout",
            n_rows=sums.n_rows,
            target_variance=variance,
            has_own_target=bool(sums.settings[0]),
        )
        is_weighted = sums.least_weight < sums.largest_weight
        self.measure = find_measure(measure, model.tree_model, compares_hazards=False, is_weighted=is_weighted)
        self._names = np.asarray(sums.names, dtype=np.str_)
        self.groupings, self._notes = find_groupings(feature_groups, self._names, sums.encoding, model.tree_model)
        self._notes = (*self._notes, *describe_early_stopping(model.tree_model))
        self._block_rows = max(1, _MOST_VALUES // model.tree_model.n_features)
        self._arguments = model, sums, measure, feature_groups

    def __reduce__(self) -> tuple[Any, ...]:
        # Include the scores, so that workers neither recompute them nor repeat their warnings.
        return AggregatedScores, self._arguments, {"grouping_scores": self.grouping_scores}

    def _refuse_training_rows(self) -> None:
        """Raise an error if the sums are those of the rows that the model was fit on."""
        model, sums = self.model, self.sums
        batch_of_tree = np.repeat(
            np.arange(len(model.tree_batches)), [len(batch.trees) for batch in model.tree_batches]
        )
        found: dict[int, NodeSums] = {}  # of the last batch only

        def find_sums(tree: int) -> NodeSums:
            batch = int(batch_of_tree[tree])
            if batch not in found:
                found.clear()
                found[batch] = self._sum_nodes(batch)
            trees, ensemble, _ = model.tree_batches[batch]
            first, end = ensemble.offset[[tree - trees.start, tree - trees.start + 1]]
            return found[batch].take(np.arange(first, end))

        are_counts = sums.least_weight == sums.largest_weight == 1.0
        if have_training_sums(model.tree_model, find_sums, sums.n_rows, are_counts=are_counts):
            raise TrainingRowsError(
                "rows='heldout' needs rows the model never saw, got the rows that this "
                f"{model.tree_model.name} was fit on; pass other rows."
            )

    def _sum_nodes(self, batch: int) -> NodeSums:
        """Sums of the target at all nodes of a batch of trees."""
        model, (trees, ensemble, leaves) = self.model, self.model.tree_batches[batch]
        first, end = model.leaf_offset[[trees.start, trees.stop]]
        at_leaves = np.zeros((len(ensemble.left), self._centered.sums.shape[1]))
        at_leaves[leaves] = self._centered.sums[first:end]
        at_nodes = aggregate_to_root(ensemble, at_leaves)
        sums = NodeSums.unpack(at_nodes, ensemble.kind, self._center, counts_classes=model.counts_classes)
        if not model.is_additive:
            return sums
        factor = self._factor
        if ensemble.column is not None:
            factor = ensemble.repeat_for_nodes(self._factor[ensemble.column])[:, np.newaxis]
        return replace(sums, total=sums.total * factor, origin=np.zeros_like(self._center))

    def _make_target(self, y: NDArray[Any]) -> Target:
        """The target of rows, given `Rows.y`."""
        if self.model.is_additive:
            return NumberTarget.of_numbers(self._factor * (y - self._center))
        return self.model.make_target(y, self._center)

    @cached_property
    def scores(self) -> ScoresByTree:
        """Scores of all trees."""
        tree_model, extremes, parts = self.model.tree_model, self._make_target(self.sums.y_range), []
        for batch, (_, ensemble, _) in enumerate(self.model.tree_batches):
            largest = extremes.find_largest(ensemble.kind.n_columns)
            parts.append(score_sums(tree_model, self.measure, ensemble, self._sum_nodes(batch), largest))
        return ScoresByTree.join(parts)

    @cached_property
    def results(self) -> list[ImportanceResult]:
        """Results of each grouping, without errors."""
        return make_results(self._metadata, self.measure, self.scores, self.groupings)

    @cached_property
    def copies_problem(self) -> str | None:
        """Why standard errors are withheld, if too many rows are copies of others."""
        return None if self.sums.copies is None else self.sums.copies.find_problem()

    @cached_property
    def grouping_scores(self) -> list[GroupingScores]:
        """Scores of each grouping, in the form that standard errors need."""
        return make_grouping_scores(self.results, self.scores, self.groupings, self.model.tree_model)

    @cached_property
    def _terms(self) -> list[RowTerms]:
        """Row terms of each batch of trees."""
        if self.measure.row_terms is None:
            raise ValueError(f"measure={self.measure.name!r} {self.measure.why_no_inference}.")
        return [
            self.measure.row_terms(ensemble, self._sum_nodes(batch), None).evaluation
            for batch, (_, ensemble, _) in enumerate(self.model.tree_batches)
        ]

    def sum_errors(self, part: Part, *, n_threads: int = 1) -> PartialErrors:
        """Second pass: contribution of one part of the rows to the standard errors."""
        n_rows = count_rows(part.X)
        if n_rows == 0:
            return self.no_errors
        rows = self.model.read(part, self.sums.encoding)
        weight = float(n_rows if rows.weight is None else rows.weight.sum())
        moments = self._measure_rows(rows, n_threads)
        return replace(self.no_errors, n_rows=n_rows, weight=weight, y_sums=rows.y_sums, moments=moments)

    @cached_property
    def no_errors(self) -> PartialErrors:
        """The standard error contribution of no rows, to start a sum."""
        names = tuple(tuple(grouping.names.tolist()) for grouping in self.groupings)
        settings = self.measure.name, names, self.sums.n_rows, self.sums.n_scoring
        return PartialErrors(self.model.fingerprint, settings, 0, 0.0, np.zeros((2, 1)), None)

    def _measure_rows(self, rows: Rows, n_threads: int, multiplicity: Floats | None = None) -> tuple[Moments, ...]:
        """Moments of the contributions of some rows, each standing for `multiplicity` rows, for each grouping."""
        parts = []
        for start, stop in self.model.split_rows(rows.matrix.n_rows, self._block_rows):
            matrix, target = rows.matrix.take_range(start, stop), self._make_target(rows.y[start:stop])
            weight = None if rows.weight is None else rows.weight[start:stop]
            influence = self._find_influence(matrix, target, weight, n_threads)
            block = InfluenceBlock(influence, None, rows.is_scoring[start:stop], self.sums.n_scoring, None)
            own = None if multiplicity is None else multiplicity[start:stop]
            parts.append(
                tuple(
                    measure_moments(block, scores, grouping, count=own, n_threads=n_threads)
                    for scores, grouping in zip(self.grouping_scores, self.groupings, strict=True)
                )
            )
        return reduce(_add_moments, parts)

    def _measure_sample(self, sample: RowSample, n_threads: int) -> tuple[Moments, ...]:
        """Moments of all rows, estimated from a sample."""
        multiplicity = sample.count * (self.sums.n_scoring / sample.count.sum())
        parts = []
        for start, stop in self.model.split_rows(len(sample.key), self._block_rows):
            matrix = sample.make_matrix(self.model, self._names, start, stop)
            rows = Rows(matrix, sample.y[start:stop], sample.weight[start:stop])
            parts.append(self._measure_rows(rows, n_threads, multiplicity[start:stop]))
        return reduce(_add_moments, parts)

    def _find_influence(self, matrix: FeatureMatrix, target: Target, weight: Floats | None, n_threads: int) -> Floats:
        """Influence of some rows on each feature over all trees, shape (n_rows, n_features)."""
        engine, model, tree_model = get_engine(), self.model, self.model.tree_model
        influence = np.zeros((matrix.n_rows, tree_model.n_features))
        weight = np.ones(matrix.n_rows) if weight is None else weight
        tree_weight = weigh_trees(tree_model)
        for start, stop in model.split_rows(matrix.n_rows, BLOCK_ROWS):
            block, values = matrix.take_range(start, stop), target.take_range(start, stop)
            own, out = weight[start:stop], influence[start:stop]
            for (trees, ensemble, _), terms in zip(model.tree_batches, self._terms, strict=True):
                of_trees = tree_weight[trees.start : trees.stop]
                if tree_model.finds_leaves:
                    rows = RowLists.of_every_row(stop - start, len(trees))
                    leaves = tree_model.find_leaves(trees, ensemble, block, rows)
                    scaled = np.outer(of_trees, own).ravel()
                    engine.add_path_influence(ensemble, leaves, rows, scaled, values, terms, out)
                else:
                    engine.add_influence(ensemble, block, values, own, terms, of_trees, out, n_threads)
        return influence

    def finish(
        self, errors: PartialErrors | None = None, *, inference: bool = True, n_threads: int = 1
    ) -> ImportanceResult:
        """The result, with standard errors from the second pass if `errors` is given, otherwise from the sample."""
        sums = self.sums
        problem = find_inference_problem(self.measure, inference)
        if errors is not None:
            self._check_errors(errors)
        if problem is None and self.copies_problem is not None:
            problem = self.copies_problem
            warn(f"standard errors and p-values are withheld: {problem}.")
        if problem is None and errors is None and sums.sample is None:
            problem = (
                "the rows were read once, and no sample of them was kept; call second_pass(), or pass a source that "
                "can be read twice"
            )
        if problem is not None:
            return join_results(
                [replace(result, inference_unavailable=problem) for result in self.results], self._notes
            )
        cause: str | None
        source, cause = f"all {count(sums.n_rows, 'row')}", _OTHER_ROWS
        if errors is not None:
            moments = errors.moments or ()
        elif sums.sample is not None:
            n_kept = int(sums.sample.count.sum())
            moments = self._measure_sample(sums.sample, n_threads)
            if n_kept < sums.n_scoring:
                source, cause = f"a sample of {count(n_kept, 'row')} out of {sums.n_scoring:,}", None
        problem = find_row_shortage(sums.n_scoring)
        results = add_errors(self.results, moments, self.grouping_scores, problem, cause=cause)
        return join_results(results, (*self._notes, f"Standard errors from {source}."))

    def _check_errors(self, errors: PartialErrors) -> None:
        """Raise an error if the second pass did not read the rows of the first."""
        if (errors.fingerprint, errors.settings) != (self.no_errors.fingerprint, self.no_errors.settings):
            raise ValueError(
                "the second pass must be the one that second_pass() started, got one of another model, first pass, "
                "measure or feature_groups; read all rows again."
            )
        first = self.sums
        has_same_weight = math.isclose(errors.weight, first.weight, rel_tol=ROUNDING)
        has_same_y = (np.abs(errors.y_sums - first.y_sums) <= ROUNDING * first.y_sums[1]).all()
        has_same_rows = errors.n_rows == first.n_rows and has_same_weight
        if not has_same_rows or not has_same_y:
            raise ValueError(
                f"the second pass must read every row of the first exactly once, got {first.n_rows} rows of weight "
                f"{first.weight:.12g} and then {errors.n_rows} of weight {errors.weight:.12g}"
                f"{', with other values of y' * (has_same_rows and not has_same_y)}; {_RANDOM_STEP}."
            )
        n_features = [len(grouping.names) for grouping in self.groupings]
        if [len(moments.C_C) for moments in errors.moments or ()] != n_features:
            raise ValueError("the sums of the second pass are damaged: moments is not valid; read all rows again.")


def _add_moments(a: tuple[Moments, ...], b: tuple[Moments, ...]) -> tuple[Moments, ...]:
    return tuple(one + other for one, other in zip(a, b, strict=True))
