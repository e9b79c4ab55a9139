"""The whole way of some trees on the GPU: leaves, sums and contributions there, formulas by the kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from truewood.data.device_arrays import is_on_device
from truewood.data.tables import FeatureMatrix
from truewood.data.target import ClassTarget, Target, TargetKind
from truewood.engines import _kernel
from truewood.engines.cuda_device import empty_pinned, fetch, put
from truewood.engines.cuda_sums import make_amounts, read_sums
from truewood.engines.cuda_trees import DeviceTerms, DeviceTrees, Roles, contribute, draw_bags, sum_rows
from truewood.engines.native_engine import wrap_target
from truewood.engines.whole_way import Contributed, Floats, RowsOfTrees, Rule, WholeScores, draw_bag
from truewood.trees.ensemble import TreeEnsemble
from truewood.trees.tree_in_place import TreeInPlace


def score_on_device(
    forest: _kernel.Forest,
    trees: TreeEnsemble | list[TreeInPlace],
    kind: TargetKind,
    matrix: FeatureMatrix,
    rows: RowsOfTrees,
    target: Target,
    row_weight: Floats | None,
    rule: Rule,
    tree_weight: Floats | None,
    contributed: Contributed | None,
    n_threads: int,
    found: WholeScores,
) -> None:
    """Fill `found`, and add to `contributed`; see `score_whole`, from which it is called."""
    n_features = matrix.values.shape[1]
    ensemble = trees if isinstance(trees, TreeEnsemble) else None
    sizes = np.diff(trees.offset) if isinstance(trees, TreeEnsemble) else np.array([len(t.feature) for t in trees])
    laid_out = DeviceTrees.lay_out(forest, sizes, n_features, n_threads, ensemble)
    roles, most_times = find_roles(rows, matrix.n_rows, with_rows=contributed is not None)
    amounts = make_amounts(kind, target, row_weight, with_squares=not rule.is_additive, most_times=most_times)
    leaf_sums = fetch(read_sums(kind, amounts, sum_rows(laid_out, matrix, amounts, roles)))
    n_roles = 0 if contributed is None else 1 if contributed.psi is None else 2
    n_terms = kind.n_columns if isinstance(target, ClassTarget) else kind.n_columns + 2
    terms = empty_pinned((len(leaf_sums), n_roles * n_terms)) if n_roles else None
    _kernel.score_sums(
        forest,
        n_features,
        wrap_target(kind, target, row_weight),
        target.origin,
        target.find_largest(kind.n_columns),
        rule.formula,
        rule.skips,
        rule.scale,
        rule.is_additive,
        n_threads,
        leaf_sums,
        n_roles,
        terms,
        found.scores,
        found.mdi,
        found.counted_mdi,
        found.magnitude,
        found.split_weight,
        found.skipped_weight,
        found.unseen_weight,
        found.unseen_impurity,
    )
    if contributed is None or terms is None:
        return
    phi, psi, bags = (_on_device(part) for part in (contributed.phi, contributed.psi, contributed.bags))
    of_nodes = DeviceTerms.join(laid_out, terms, n_terms)
    first = contributed.first
    contribute(laid_out, matrix, kind, target, row_weight, tree_weight, roles, of_nodes, first, phi, psi, bags)
    for part, summed in ((contributed.phi, phi), (contributed.psi, psi), (contributed.bags, bags)):
        if part is not None and not is_on_device(part):
            part += fetch(summed)


def _on_device(part: Any) -> Any:
    """The array itself where it lies on the GPU, else zeros there."""
    import cupy

    return part if part is None or is_on_device(part) else cupy.zeros(part.shape, dtype=part.dtype)


def find_roles(rows: RowsOfTrees, n_rows: int, *, with_rows: bool) -> tuple[Roles, int]:
    """What rows are to each tree, and how often a row scores one tree at most."""
    import cupy

    if rows is None:
        return Roles(), 1
    if isinstance(rows, tuple):
        seeds, n_draws = rows
        counts = draw_bags(seeds, n_draws, n_rows)
        first = np.bincount(draw_bag(int(seeds[0]), n_draws, n_rows), minlength=n_rows)
        if not np.array_equal(fetch(counts[0]), first):
            raise RuntimeError("the GPU draws other bags than scikit-learn; use engine='native', and please report it.")
        return Roles(counts, are_bags=True), 1
    counts = cupy.zeros((len(rows), n_rows), dtype=np.uint32)
    if not isinstance(rows[0], tuple):
        for tree, bag in enumerate(rows):
            counts[tree] = cupy.bincount(put(np.asarray(bag)), minlength=n_rows)
        return Roles(counts, are_bags=True), 1
    grown, most = None, 1
    if with_rows and rows[0][2] is not None:
        grown = cupy.empty((len(rows), n_rows))
    for tree, (listed, _, weight) in enumerate(rows):
        if len(listed):
            counts[tree] = cupy.bincount(put(listed), minlength=n_rows)
            most = max(most, int(counts[tree].max()))
        if grown is not None:
            grown[tree] = put(weight)
    return Roles(counts, grown=grown), most
