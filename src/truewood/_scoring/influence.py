"""The influence of single rows on the scores: memory for it, and how batches of trees add to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Condition

import numpy as np
from numpy.typing import NDArray

from truewood._engines.engine import MOST_INFLUENCE_VALUES
from truewood._engines.records import RowLists
from truewood._engines.selection import get_engine
from truewood._inference.moments import InfluenceBlock
from truewood._measures.registry import Measure
from truewood._scoring.fused import find_fused_scoring
from truewood._scoring.inputs import ScoringInputs, weigh_evaluation, weigh_in_bag
from truewood._scoring.mdi_plus import RowValues
from truewood._trees.ensemble import TreeEnsemble
from truewood._trees.node_sums import BothTerms

Floats = NDArray[np.float64]

# In-bag weights that are kept.
_MOST_WEIGHTS = 1 << 25


def allocate_influence(
    inputs: ScoringInputs, measure: Measure, *, with_bags: bool, is_summed: bool
) -> Iterator[InfluenceBlock]:
    """Allocate zeros for the influence of all rows, one block of rows that fits into memory at a time.

    Parameters
    ----------
    inputs : ScoringInputs
        Model and rows.
    measure : Measure
        How to score.
    with_bags : bool
        Whether to keep the bags of all trees; otherwise, of as many of the first trees as fit.
    is_summed : bool
        Whether the influence is only summed. If scoring is fused, too, it stays where the engine adds to it fastest.
    """
    n_rows, n_trees, n_features = inputs.data.n_rows, inputs.tree_model.n_trees, inputs.tree_model.n_features
    engine, has_inbag = get_engine(), inputs.evaluation_rows.are_training
    on_engine = is_summed and find_fused_scoring(inputs, measure) is not None
    most_values = engine.most_influence_values if on_engine else MOST_INFLUENCE_VALUES
    zeros = engine.make_zeros if on_engine else np.zeros
    n_bags = n_trees if with_bags else min(n_trees, max(1, _MOST_WEIGHTS // n_rows))
    n_blocks = max(1, -(-n_rows * n_features // most_values), -(-n_rows * n_trees * with_bags // _MOST_WEIGHTS))
    is_scoring = _find_scoring(inputs)
    n_scoring = int(np.count_nonzero(is_scoring))
    size, n_larger = divmod(n_rows, min(n_blocks, n_rows))
    end = 0  # the first blocks are larger by a row if rows cannot be divided evenly
    while end < n_rows:
        first, end = end, end + size + (n_larger > 0)
        n_larger -= 1
        yield InfluenceBlock(
            eval_influence=zeros((end - first, n_features)),
            inbag_influence=zeros((end - first, n_features)) if has_inbag else None,
            is_scoring=is_scoring[first:end],
            n_scoring=n_scoring,
            bags=zeros((n_bags, end - first), dtype=np.float32) if has_inbag else None,
            first=first,
        )


def _find_scoring(inputs: ScoringInputs) -> NDArray[np.bool_]:
    """Rows that evaluate at least one tree, or may: with out-of-bag rows, all that have weight."""
    n_rows, weight = inputs.data.n_rows, inputs.row_weight
    is_scoring = np.ones(n_rows, dtype=np.bool_) if weight is None else weight > 0
    if inputs.evaluation_rows.name == "lists":
        is_listed = np.zeros(n_rows, dtype=np.bool_)
        for tree in range(inputs.tree_model.n_trees):
            is_listed[inputs.evaluation_rows.of_tree(tree)] = True
        is_scoring = is_scoring & is_listed
    return is_scoring


class OrderedInfluence:
    """Adds the influence of batches of trees to a block of rows, from any thread, in the order of the batches.

    Parameters
    ----------
    inputs : ScoringInputs
        Model and rows.
    block : InfluenceBlock
        The block of rows, with arrays in the host's memory.
    """

    def __init__(self, inputs: ScoringInputs, block: InfluenceBlock) -> None:
        self._inputs, self._out = inputs, block
        first, data = block.first, inputs.data
        self._rows = slice(first, first + len(block.is_scoring))
        self._matrix, self._target = data.matrix, data.target
        if len(block.is_scoring) < data.n_rows:
            rows = np.arange(self._rows.start, self._rows.stop)
            self._matrix, self._target = data.matrix.take_rows(rows), data.target.take(rows)
        self._turn, self._is_broken, self._changed = 0, False, Condition()

    def add(self, turn: int, trees: range, ensemble: TreeEnsemble, evaluation: RowLists, terms: BothTerms) -> None:
        """Add a batch of trees, given their evaluation rows.

        Batches wait for their turn, so that sums do not depend on threads.
        """
        out = self._out
        scoring = [weigh_evaluation(self._inputs, evaluation.of_tree(k))[self._rows] for k in range(len(trees))]
        listed = [(terms.evaluation, out.eval_influence, self._list_rows(trees, scoring))]
        if out.inbag_influence is not None and out.bags is not None:
            in_bag = [weigh_in_bag(self._inputs, tree)[self._rows] for tree in trees]
            listed.append((terms.in_bag, out.inbag_influence, self._list_rows(trees, in_bag)))
            for tree, weight in zip(trees, in_bag, strict=True):
                if tree < len(out.bags):
                    out.bags[tree] = weight
        find_leaves = self._inputs.tree_model.find_leaves
        found = [find_leaves(trees, ensemble, self._matrix, rows) for _, _, (rows, _) in listed]
        with self._wait_for(turn):
            for (role, influence, (rows, weight)), leaves in zip(listed, found, strict=True):
                get_engine().add_path_influence(ensemble, leaves, rows, weight, self._target, role, influence)

    def add_values(self, turn: int, trees: range, values: Sequence[tuple[RowValues, RowValues] | None]) -> None:
        """Add a batch of trees, given the influence of the rows on each of them: as evaluation rows, and in bag."""
        out, tree_weight = self._out, self._inputs.tree_model.tree_weight
        with self._wait_for(turn):
            for tree, pair in zip(trees, values, strict=True):
                if out.bags is not None and tree < len(out.bags):
                    out.bags[tree] = weigh_in_bag(self._inputs, tree)[self._rows]
                influences = (out.eval_influence, out.inbag_influence)
                for own, influence in zip(pair or (), influences, strict=False):
                    if influence is not None:
                        is_here = (own.rows >= self._rows.start) & (own.rows < self._rows.stop)
                        factor = 1.0 if tree_weight is None else tree_weight[tree]
                        rows = own.rows[is_here] - self._rows.start
                        influence[np.ix_(rows, own.columns)] += factor * own.values[is_here]

    @contextmanager
    def _wait_for(self, turn: int) -> Iterator[None]:
        """Wait for the turn of a batch, and then give it to the next."""
        with self._changed:
            self._changed.wait_for(lambda: self._turn == turn or self._is_broken)
        yield
        with self._changed:
            self._turn += 1
            self._changed.notify_all()

    def release(self) -> None:
        """Release the batches that wait for one that failed."""
        with self._changed:
            self._is_broken = True
            self._changed.notify_all()

    def _list_rows(self, trees: range, weights: list[Floats]) -> tuple[RowLists, Floats]:
        """Rows with weight in each tree, and these weights, given the weights of all rows of the block."""
        tree_weight = self._inputs.tree_model.tree_weight
        if tree_weight is not None:
            weights = [weight * tree_weight[tree] for weight, tree in zip(weights, trees, strict=True)]
        lists = [np.flatnonzero(weight != 0) for weight in weights]  # much faster than np.flatnonzero(weight)
        own = [weight[listed] for weight, listed in zip(weights, lists, strict=True)]
        return RowLists.join(lists), np.concatenate(own)
