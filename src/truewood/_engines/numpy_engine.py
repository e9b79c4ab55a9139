"""`NumpyEngine`: the readable reference, and the fallback without the compiled kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood._engines.engine import Engine
from truewood._engines.joint_effects import JointEffects, PairedFeatures
from truewood._engines.numpy_joint_effects import add_tree
from truewood._engines.numpy_row_hashes import hash_rows
from truewood._engines.numpy_row_neighbors import find_neighbors
from truewood._engines.numpy_sobol_projection import project_tree
from truewood._engines.numpy_walk import walk
from truewood._engines.records import ListedRows, RowLists, RowNeighbors, RowProducts, SplitCriterion
from truewood._inputs.tables import FeatureMatrix
from truewood._inputs.target import ClassTarget, NumberTarget, Target
from truewood._trees.ensemble import TreeEnsemble
from truewood._trees.node_sums import ClassTerms, NodeSums, NumberTerms, RowTerms, aggregate_to_root

_BLOCK_VALUES = 4_000_000
# The same values as in the kernel, so that both engines add in the same order: in trees with at most FEW_NODES nodes,
# rows are summed in chunks of CHUNK_ROWS rows; products of influence are summed in blocks of ROW_BLOCK rows, and
# residuals by tree in blocks of RESIDUAL_ROWS.
FEW_NODES, CHUNK_ROWS = 1024, 2048
ROW_BLOCK = 1024
RESIDUAL_ROWS = 8192

Floats = NDArray[np.float64]


class NumpyEngine(Engine):
    """The readable reference, and the fallback without the compiled kernel."""

    name = "numpy"

    def draw_bag(self, seed: int, n_draws: int, n_rows: int) -> NDArray[np.int64]:
        """Draw the bag of a seed, as numpy's ``RandomState(seed).randint(0, n_rows, n_draws)`` does."""
        return np.random.RandomState(seed).randint(0, n_rows, n_draws, dtype=np.int64)

    def list_oob_rows(self, bag: NDArray[Any], n_rows: int) -> NDArray[np.int64]:
        """Return the rows outside a bag, ascending."""
        is_oob = np.ones(n_rows, dtype=np.bool_)
        is_oob[bag] = False
        return np.flatnonzero(is_oob)

    def count_rows(self, listed: NDArray[Any], n_rows: int) -> Floats:
        """Return how often each row is listed, shape (n_rows,)."""
        return np.bincount(listed, minlength=n_rows).astype(np.float64)

    def hash_rows(
        self,
        matrix: FeatureMatrix,
        factors: NDArray[np.uint64],
        n_threads: int = 1,  # noqa: ARG002
    ) -> NDArray[np.uint64] | None:
        """Return hashes of the rows, shape (n_rows,), or None if all of them differ."""
        hashes = hash_rows(matrix, factors)
        return None if pd.Index(hashes).is_unique else hashes

    def find_neighbors(
        self,
        matrix: FeatureMatrix,
        columns: NDArray[np.int64],
        labels: Floats,
        tested: NDArray[np.int64],
        n_nearest: int,
        n_threads: int = 1,  # noqa: ARG002
    ) -> RowNeighbors:
        """Find the rows nearest to each tested row by some columns of a dense matrix, among those with its label."""
        return find_neighbors(matrix.values, columns, labels, tested, n_nearest)

    def find_leaves(
        self,
        ensemble: TreeEnsemble,
        matrix: FeatureMatrix,
        rows: RowLists,
        n_threads: int = 1,  # noqa: ARG002
    ) -> NDArray[np.int32]:
        """Return the leaf of each listed row, shape (n,), as a position in the ensemble's arrays."""
        leaves = np.empty(len(rows.index), dtype=np.int32)
        block = max(1, _BLOCK_VALUES // ensemble.n_features)
        for tree in range(ensemble.n_trees):
            start, end = rows.offset[tree], rows.offset[tree + 1]
            for first in range(start, end, block):
                part = slice(first, min(first + block, end))
                leaves[part] = walk(ensemble, tree, matrix.take(rows.index[part]))
        return leaves

    def find_swapped_leaves(
        self, ensemble: TreeEnsemble, matrix: FeatureMatrix, rows: NDArray[np.int64], donors: NDArray[np.int64]
    ) -> NDArray[np.int32]:
        """Return the leaves in a single tree when one column at a time is taken from the donor, (n, n_features)."""
        values, swapped = matrix.take(rows), matrix.take(donors)
        leaves = np.repeat(walk(ensemble, 0, values)[:, np.newaxis], ensemble.n_features, axis=1)
        for feature in np.unique(ensemble.split_features):
            changed = values.copy()
            changed[:, feature] = swapped[:, feature]
            leaves[:, feature] = walk(ensemble, 0, changed)
        return leaves

    def add_joint_effects(
        self,
        ensemble: TreeEnsemble,
        matrix: FeatureMatrix,
        rows: RowLists,
        share: Floats,
        leaf_value: Floats,
        features: PairedFeatures,
        out: JointEffects,
        n_threads: int = 1,  # noqa: ARG002
    ) -> None:
        """Add predictions, main effects and joint effects of pairs of features to `out`, for listed rows."""
        block = max(1, _BLOCK_VALUES // ensemble.n_features)
        for tree in range(ensemble.n_trees):
            listed = rows.of_tree(tree)
            for first in range(0, len(listed), block):
                part = listed[first : first + block]
                add_tree(ensemble, tree, matrix.take(part), part, share, leaf_value, features, out)

    def sum_leaves(
        self,
        ensemble: TreeEnsemble,
        leaves: NDArray[np.int32],
        rows: RowLists,
        target: Target,
        row_weight: Floats | None,
    ) -> NodeSums:
        """Sum rows at their leaves, chunk by chunk in row order, and aggregate the sums to the roots."""
        kind, n_nodes = ensemble.kind, len(ensemble.feature)
        weight, total, square = (
            np.zeros(n_nodes),
            np.zeros((n_nodes, kind.n_columns)),
            np.zeros((n_nodes, kind.n_outputs)),
        )
        for chunk in _list_chunks(ensemble, rows):
            at, row = leaves[chunk], rows.index[chunk]
            w = np.ones(len(at)) if row_weight is None else row_weight[row]
            weight += _sum_by(at, w, n_nodes)
            if isinstance(target, ClassTarget):
                total += _count_classes(at, target, row, w, n_nodes)
                continue
            for o in range(kind.n_columns):
                numbers = target.numbers[row, _find_column(ensemble, rows, chunk, o)]
                weighted = w * numbers
                total[:, o] += _sum_by(at, weighted, n_nodes)
                square[:, o] += _sum_by(at, weighted * numbers, n_nodes)
        weight, total = aggregate_to_root(ensemble, weight), aggregate_to_root(ensemble, total)
        if isinstance(target, ClassTarget):
            square = np.broadcast_to(weight[:, np.newaxis], (n_nodes, kind.n_outputs))
            return NodeSums(weight, total, square, target.origin)
        return NodeSums(weight, total, aggregate_to_root(ensemble, square), target.origin)

    def sum_nodes(
        self,
        ensemble: TreeEnsemble,
        matrix: FeatureMatrix,
        target: Target,
        row_weight: Floats | None,
        n_threads: int = 1,
    ) -> NodeSums:
        """Sum all rows at the nodes of all trees; for additive trees, sums of squares stay zero."""
        rows = RowLists.of_every_row(matrix.n_rows, ensemble.n_trees)
        leaves = self.find_leaves(ensemble, matrix, rows, n_threads)
        sums = self.sum_leaves(ensemble, leaves, rows, target, row_weight)
        return replace(sums, square=np.zeros_like(sums.square)) if ensemble.is_additive else sums

    def add_path_influence(
        self,
        ensemble: TreeEnsemble,
        leaves: NDArray[np.int32],
        rows: RowLists,
        weight: Floats,
        target: Target,
        terms: RowTerms,
        out: Floats,
    ) -> None:
        """Add the influence of listed rows on each feature, given their leaves, to `out`, (n_rows, n_features)."""
        block = max(1, _BLOCK_VALUES // ensemble.n_features)
        for tree in range(ensemble.n_trees):
            column = 0 if ensemble.column is None else int(ensemble.column[tree])
            start, end = rows.offset[tree], rows.offset[tree + 1]
            for first in range(start, end, block):
                part = slice(first, min(first + block, end))
                row = rows.index[part]
                out[row] += weight[part, np.newaxis] * _find_influence(
                    ensemble, leaves[part], row, target, column, terms
                )

    def add_influence(
        self,
        ensemble: TreeEnsemble,
        matrix: FeatureMatrix,
        target: Target,
        row_weight: Floats | None,
        terms: RowTerms,
        tree_weight: Floats,
        out: Floats,
        n_threads: int = 1,
    ) -> None:
        """Add the influence of all rows on each feature, over all trees, to `out`, shape (n_rows, n_features)."""
        rows = RowLists.of_every_row(matrix.n_rows, ensemble.n_trees)
        weight = np.outer(tree_weight, np.ones(matrix.n_rows) if row_weight is None else row_weight).ravel()
        leaves = self.find_leaves(ensemble, matrix, rows, n_threads)
        self.add_path_influence(ensemble, leaves, rows, weight, target, terms, out)

    def add_sobol_projection(
        self,
        ensemble: TreeEnsemble,
        matrix: FeatureMatrix,
        target: Target,
        *,
        in_bag: RowLists,
        in_bag_weight: Floats,
        evaluation: RowLists,
        prediction: Floats,
        tree_weight: Floats,
        group_of: NDArray[np.int32],
        out: Floats,
        n_threads: int = 1,  # noqa: ARG002
    ) -> None:
        """Add the change in predictions for evaluation rows without each group of columns to `out`."""
        for tree in range(ensemble.n_trees):
            weight = in_bag_weight[in_bag.offset[tree] : in_bag.offset[tree + 1]]
            before = prediction[evaluation.offset[tree] : evaluation.offset[tree + 1]]
            rows = evaluation.of_tree(tree)
            for group, place, mean in project_tree(
                ensemble, tree, matrix, target, in_bag.of_tree(tree), weight, rows, group_of
            ):
                np.add.at(out, (rows[place], group), tree_weight[tree] * (mean - before[place]))

    def add_residuals(
        self,
        ensemble: TreeEnsemble,
        matrix: FeatureMatrix,
        target: Target,
        *,
        rows: ListedRows,
        row_weight: Floats | None,
        criterion: SplitCriterion,
        tree_weight: Floats,
        residual: Floats,
        by_row: Floats,
        by_tree: Floats,
        n_threads: int = 1,
    ) -> None:
        """Add the influence of evaluation rows with residuals in place of the target, by row and by tree."""
        listed = RowLists.join(rows.rows)
        leaves = self.find_leaves(ensemble, matrix, listed, n_threads)
        sums = self.sum_leaves(ensemble, leaves, listed, target, row_weight)
        terms = criterion.row_terms(ensemble, sums, None).evaluation
        # Residuals of the classes of an output sum to zero, so the constants in the terms do not matter.
        linear = terms.by_class if isinstance(terms, ClassTerms) else terms.linear
        number = _number_leaves(ensemble)
        for tree, weight in enumerate(rows.evaluation_weight or ()):
            first = 0 if ensemble.column is None else ensemble.column[tree]
            once = np.flatnonzero(weight)
            for block in np.split(once, np.searchsorted(once, np.arange(RESIDUAL_ROWS, len(weight), RESIDUAL_ROWS))):
                if not len(block):
                    continue
                leaf = walk(ensemble, tree, matrix.take(block))
                summed = _sum_path(ensemble, leaf, linear, 0) * residual[block, first]
                for column in range(1, linear.shape[1]):
                    summed += _sum_path(ensemble, leaf, linear, column) * residual[block, first + column]
                added = weight[block, np.newaxis] * summed
                by_row[block] += tree_weight[tree] * added
                order = np.argsort(number[leaf], kind="stable")
                by_tree[tree] += np.cumsum(added[order], axis=0)[-1]

    def sum_row_products(
        self,
        eval_influence: Floats,
        inbag_influence: Floats | None,
        is_scoring: NDArray[np.bool_],
        total_weight: float,
        mean: Floats,
        bags: NDArray[np.float32] | None,
        n_threads: int = 1,  # noqa: ARG002
    ) -> RowProducts:
        """Sum products of influence over rows; influence is first divided by `total_weight` and centered by `mean`."""
        counts = is_scoring[:, np.newaxis]
        evaluation = np.where(counts, eval_influence / total_weight - mean, 0.0)
        inbag = np.zeros_like(evaluation)
        if inbag_influence is not None:
            inbag = np.where(counts, inbag_influence / total_weight - mean, 0.0)
        eval_total, inbag_total = (np.cumsum(part, axis=1)[:, -1:] for part in (evaluation, inbag))
        n_bags, K, L, d_d, n_inbag = 0 if bags is None else len(bags), [], [], [], 0
        if bags is not None:
            bag_mean = np.add.reduce(bags, axis=0, dtype=np.float64) / n_bags
            is_inbag = is_scoring & (bag_mean > 0)
            rate, n_inbag = np.divide(1.0, bag_mean, out=np.zeros_like(bag_mean), where=is_inbag), is_inbag.sum()
            by_rate = rate[:, np.newaxis] * np.hstack([evaluation, inbag])
            for bag in bags:
                more = bag - bag_mean
                projected = sum_blocks(more[:, np.newaxis] * by_rate)
                K.append(projected[: evaluation.shape[1]])
                L.append(projected[evaluation.shape[1] :])
                d_d.append(sum_blocks(((more * rate) ** 2)[:, np.newaxis])[0])
        empty = np.zeros((0, evaluation.shape[1]))
        return RowProducts(
            eval_eval=sum_blocks(evaluation * evaluation),
            eval_inbag=sum_blocks(evaluation * inbag),
            inbag_inbag=sum_blocks(inbag * inbag),
            eval_sum=sum_blocks(evaluation),
            total_eval_eval=float(sum_blocks(eval_total * eval_total)[0]),
            total_eval_inbag=float(sum_blocks(eval_total * inbag_total)[0]),
            K=np.array(K) if n_bags else empty,
            L=np.array(L) if n_bags else empty,
            d_d=np.array(d_d),
            n_inbag=int(n_inbag),
        )


def _list_chunks(ensemble: TreeEnsemble, rows: RowLists) -> Iterator[NDArray[np.intp]]:
    """Iterate over positions of rows that are summed together: chunks in small trees, all rows in larger ones."""
    sizes, n_rows = np.diff(ensemble.offset), np.diff(rows.offset)
    chunk_size = np.where(sizes <= FEW_NODES, CHUNK_ROWS, np.maximum(n_rows, 1))
    place = np.arange(len(rows.index)) - np.repeat(rows.offset[:-1], n_rows)
    number = place // np.repeat(chunk_size, n_rows)
    for chunk in range(int(number.max(initial=-1)) + 1):
        yield np.flatnonzero(number == chunk)


def _sum_by(leaves: NDArray[np.int32], weights: Floats, n_nodes: int) -> Floats:
    return np.bincount(leaves, weights=weights, minlength=n_nodes).astype(np.float64, copy=False)


def _find_column(ensemble: TreeEnsemble, rows: RowLists, chunk: NDArray[np.intp], output: int) -> Any:
    """Return the target column of each row if trees predict one column each, or else the output's column."""
    if ensemble.column is None:
        return output
    return ensemble.column[np.searchsorted(rows.offset, chunk, side="right") - 1]


def _count_classes(
    leaves: NDArray[np.int32], target: ClassTarget, rows: NDArray[np.int64], w: Floats, n_nodes: int
) -> Floats:
    """Sum the weight of each class at the leaves, shape (n_nodes, n_columns)."""
    total = np.empty((n_nodes, target.kind.n_columns))
    for o, (first, labels) in enumerate(zip(target.kind.first_column, target.kind.classes, strict=True)):
        cell = leaves.astype(np.int64) * len(labels) + target.codes[rows, o]
        sums = np.bincount(cell, weights=w, minlength=n_nodes * len(labels))
        total[:, first : first + len(labels)] = sums.reshape(n_nodes, len(labels))
    return total


def _find_influence(
    ensemble: TreeEnsemble,
    leaves: NDArray[np.int32],
    rows: NDArray[np.int64],
    target: Target,
    column: int,
    terms: RowTerms,
) -> Floats:
    """Compute the influence of rows of weight one on each feature, shape (n, n_features)."""
    if isinstance(target, ClassTarget) and isinstance(terms, ClassTerms):
        codes = target.codes[rows] + target.kind.first_column
        by_output = [_sum_path(ensemble, leaves, terms.by_class, codes[:, o]) for o in range(codes.shape[1])]
        return reduce(np.add, by_output)
    if not (isinstance(target, NumberTarget) and isinstance(terms, NumberTerms)):
        raise TypeError(f"{type(terms).__name__} cannot be added for a {type(target).__name__}.")
    summed: Any = 0.0
    squared: Any = 0.0
    for c in range(terms.linear.shape[1]):
        y = target.numbers[rows, column + c][:, np.newaxis]
        summed = summed + _sum_path(ensemble, leaves, terms.linear, c) * y
        squared = squared + y * y
    by_square = _sum_path(ensemble, leaves, terms.square[:, np.newaxis], 0)
    added: Floats = (summed + by_square * squared) + _sum_path(ensemble, leaves, terms.constant[:, np.newaxis], 0)
    return added


def _sum_path(ensemble: TreeEnsemble, leaves: NDArray[np.int32], at_nodes: Floats, column: Any) -> Floats:
    """Sum `at_nodes` along the path of each row, by the feature of the split above the node, (n, n_features)."""
    node, path = leaves.astype(np.intp), []
    while len(below := np.flatnonzero(ensemble.parent[node] != node)):
        path.append((below, node[below]))
        node = ensemble.parent[node]
    columns = np.broadcast_to(column, leaves.shape)
    sums = np.zeros((len(leaves), ensemble.n_features))
    for row, child in reversed(path):
        sums[row, ensemble.feature[ensemble.parent[child]]] += at_nodes[child, columns[row]]
    return sums


def _number_leaves(ensemble: TreeEnsemble) -> NDArray[np.int64]:
    """Position of each leaf among the leaves of its tree from left to right, shape (n_nodes,)."""
    n_leaves = aggregate_to_root(ensemble, (ensemble.left < 0).astype(np.float64)).astype(np.int64)
    number = np.zeros(len(n_leaves), dtype=np.int64)
    for level in ensemble.levels:
        left, right = ensemble.left[level], ensemble.right[level]
        number[left], number[right] = number[level], number[level] + n_leaves[left]
    return number


def sum_blocks(products: Floats) -> Floats:
    """Sum over rows in order within each block, then over blocks in order, shape (n_columns,)."""
    n_rows, n_columns = products.shape
    n_blocks = -(-n_rows // ROW_BLOCK)
    # With two or more columns, numpy adds row by row; it sums a single column pairwise.
    padded = np.zeros((n_blocks * ROW_BLOCK, max(n_columns, 2)))
    padded[:n_rows, :n_columns] = products
    by_block = np.add.reduce(padded.reshape(n_blocks, ROW_BLOCK, -1), axis=1)
    summed: Floats = np.add.reduce(by_block, axis=0)[:n_columns] + 0.0
    return summed
