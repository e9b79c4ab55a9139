from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

class BrokenTreeError(ValueError): ...

# What calls are made of. Arrays are taken as they are or refused, never converted, and held for as long as the object.

class Forest:
    @staticmethod
    def of_ensemble(
        feature: NDArray[np.int32],
        threshold: Floats,
        left: NDArray[np.int32],
        right: NDArray[np.int32],
        missing_left: NDArray[np.bool_],
        weight: Floats,
        value: Floats,
        offset: NDArray[np.int64],
        node_set: NDArray[np.int32] | None,
        set_offset: NDArray[np.int64] | None,
        bits: NDArray[np.uint32] | None,
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
    in_bag: RowLists,
    in_bag_weight: Floats,
    evaluation: RowLists,
    prediction: Floats,
    tree_weight: Floats,
    group_of: NDArray[np.int32],
    n_threads: int,
    out: Floats,
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
    rows: Any,
    tree_weight: Floats | None,
    criterion: SplitCriterion,
    n_threads: int,
    scores: Scores,
    influence: Influence | None,
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
    n_roles: int,
    terms: Floats | None,
    scores: Scores,
) -> None: ...
