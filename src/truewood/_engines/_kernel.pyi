from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

class BrokenTreeError(ValueError): ...

# Arguments of the functions below. Arrays are never converted: one that does not fit raises an error. An object keeps
# its arrays alive.

class NodeArrays:
    def __init__(
        self,
        feature: NDArray[np.int32],
        threshold: Floats,
        left: NDArray[np.int32],
        right: NDArray[np.int32],
        missing_left: NDArray[np.bool_],
        weight: Floats,
        value: Floats,
    ) -> None: ...

class CategorySets:
    def __init__(self, node_set: NDArray[np.int32], offset: NDArray[np.int64], bits: NDArray[np.uint32]) -> None: ...

class Forest:
    @staticmethod
    def of_ensemble(
        nodes: NodeArrays,
        offset: NDArray[np.int64],
        categories: CategorySets | None,
        column: NDArray[np.int32] | None,
    ) -> Forest: ...
    @staticmethod
    def of_trees(trees: list[tuple[NDArray[Any], ...]]) -> Forest: ...

class Target:
    def __init__(
        self,
        codes: NDArray[np.int32] | None,
        numbers: Floats | None,
        columns: NDArray[np.int64],
        row_weight: Floats | None,
        origin: Floats | None,
        largest: Floats | None,
    ) -> None: ...

class Table:
    def __init__(self, X: Any, has_missing: bool, n_features: int) -> None: ...

class RowLists:
    def __init__(self, index: NDArray[np.int64], offset: NDArray[np.int64]) -> None: ...

class TreeRows:
    @staticmethod
    def every_row() -> TreeRows: ...
    @staticmethod
    def of_seeds(seeds: NDArray[np.uint32], n_draws: int) -> TreeRows: ...
    @staticmethod
    def of_bags(bags: list[NDArray[np.int64]]) -> TreeRows: ...
    @staticmethod
    def of_lists(
        rows: list[NDArray[np.int64]], evaluation_weight: list[Floats] | None, inbag_weight: list[Floats] | None
    ) -> TreeRows: ...

class ProjectionRows:
    def __init__(self, in_bag: RowLists, in_bag_weight: Floats, evaluation: RowLists, prediction: Floats) -> None: ...

class RowTerms:
    def __init__(self, linear: Floats, square: Floats | None, constant: Floats | None) -> None: ...

class SplitCriterion:
    def __init__(self, formula: str, skips: bool, scale: float, is_additive: bool) -> None: ...

class Scores:
    def __init__(
        self,
        scores: Floats,
        mdi: Floats,
        counted_mdi: Floats,
        magnitude: Floats,
        split_weight: Floats,
        skipped_weight: Floats,
        evaluation_weight: Floats,
        evaluation_impurity: Floats,
    ) -> None: ...

class Influence:
    def __init__(
        self,
        eval_influence: Floats,
        inbag_influence: Floats | None,
        bags: NDArray[np.float32] | None,
        first: int,
        tree_weight: Floats | None,
    ) -> None: ...

class InfluenceRows:
    def __init__(
        self,
        eval_influence: Floats,
        inbag_influence: Floats | None,
        is_scoring: NDArray[np.bool_],
        total_weight: float,
        mean: Floats,
        bags: NDArray[np.float32] | None,
    ) -> None: ...

def draw_bag(seed: int, n_draws: int, n_rows: int) -> NDArray[np.int64]: ...
def list_oob_rows(bag: NDArray[Any], oob_rows: NDArray[np.int64]) -> int: ...
def count_rows(listed: NDArray[Any], counts: Floats) -> None: ...
def hash_rows(table: Table, factors: NDArray[np.uint64], n_threads: int, hashes: NDArray[np.uint64]) -> bool: ...
def find_neighbors(
    table: Table,
    columns: NDArray[np.int64],
    labels: Floats,
    tested: NDArray[np.int64],
    n_threads: int,
    nearest: NDArray[np.int64],
    n_found: NDArray[np.int64],
    spread: Floats,
    largest: Floats,
) -> None: ...
def find_leaves(forest: Forest, table: Table, rows: RowLists, n_threads: int, leaves: NDArray[np.int32]) -> None: ...
def find_swapped_leaves(
    forest: Forest,
    table: Table,
    index: NDArray[np.int64],
    donors: NDArray[np.int64],
    leaves: NDArray[np.int32],
) -> None: ...
def sum_leaves(forest: Forest, leaves: NDArray[np.int32], rows: RowLists, target: Target, sums: Floats) -> None: ...
def sum_nodes(forest: Forest, table: Table, target: Target, n_threads: int, sums: Floats) -> None: ...
def add_influence(
    forest: Forest,
    table: Table,
    target: Target,
    terms: RowTerms,
    tree_weight: Floats | None,
    n_threads: int,
    eval_influence: Floats,
) -> None: ...
def add_path_influence(
    forest: Forest,
    parent: NDArray[np.int64],
    leaves: NDArray[np.int32],
    rows: RowLists,
    weight: Floats,
    target: Target,
    terms: RowTerms,
    out: Floats,
) -> None: ...
def add_sobol_projection(
    forest: Forest,
    table: Table,
    target: Target,
    rows: ProjectionRows,
    tree_weight: Floats,
    group_of: NDArray[np.int32],
    n_threads: int,
    out: Floats,
) -> None: ...
def add_joint_effects(
    forest: Forest,
    table: Table,
    rows: RowLists,
    share: Floats,
    leaf_value: Floats,
    feature_of: NDArray[np.int32],
    pair_of: NDArray[np.int32],
    n_threads: int,
    prediction: Floats,
    main: Floats,
    joint: Floats,
) -> None: ...
def add_residuals(
    forest: Forest,
    table: Table,
    target: Target,
    rows: TreeRows,
    criterion: SplitCriterion,
    residual: Floats,
    tree_weight: Floats | None,
    n_threads: int,
    by_row: Floats,
    by_tree: Floats,
) -> None: ...
def sum_row_products(
    influence: InfluenceRows,
    n_threads: int,
    products: Floats,
    totals: Floats,
    K: Floats,
    L: Floats,
    d_d: Floats,
) -> None: ...
def score_trees(
    forest: Forest,
    table: Table,
    target: Target,
    rows: TreeRows,
    criterion: SplitCriterion,
    n_threads: int,
    scores: Scores,
) -> None: ...
def score_trees_with_influence(
    forest: Forest,
    table: Table,
    target: Target,
    rows: TreeRows,
    criterion: SplitCriterion,
    n_threads: int,
    scores: Scores,
    influence: Influence,
) -> None: ...
def lay_out(
    forest: Forest, n_features: int, n_threads: int, nodes: NDArray[np.uint8], place: NDArray[np.int32]
) -> None: ...
def score_sums(
    forest: Forest,
    n_features: int,
    target: Target,
    criterion: SplitCriterion,
    n_threads: int,
    leaf_sums: Floats,
    scores: Scores,
    terms: Floats,
) -> None: ...
