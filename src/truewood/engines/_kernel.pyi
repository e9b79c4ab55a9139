from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

class BrokenTreeError(ValueError): ...

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
    ) -> None: ...

def find_leaves(
    forest: Forest,
    X: Any,
    has_missing: bool,
    n_features: int,
    index: NDArray[np.int64],
    offset: NDArray[np.int64],
    n_threads: int,
    leaves: NDArray[np.int32],
) -> None: ...
def find_swapped_leaves(
    forest: Forest,
    X: Any,
    has_missing: bool,
    n_features: int,
    index: NDArray[np.int64],
    donors: NDArray[np.int64],
    leaves: NDArray[np.int32],
) -> None: ...
def project_out(
    forest: Forest,
    X: Any,
    has_missing: bool,
    n_features: int,
    grown: NDArray[np.int64],
    grown_offset: NDArray[np.int64],
    grown_weight: Floats,
    unseen: NDArray[np.int64],
    unseen_offset: NDArray[np.int64],
    own: Floats,
    tree_weight: Floats,
    target: Target,
    group_of: NDArray[np.int32],
    n_threads: int,
    out: Floats,
) -> None: ...
def list_unseen(bag: NDArray[Any], unseen: NDArray[np.int64]) -> int: ...
def draw_bag(seed: int, n_draws: int, n_rows: int) -> NDArray[np.int64]: ...
def sum_leaves(
    forest: Forest,
    leaves: NDArray[np.int32],
    index: NDArray[np.int64],
    offset: NDArray[np.int64],
    target: Target,
    column: NDArray[np.int32] | None,
    sums: Floats,
) -> None: ...
def climb(
    parent: NDArray[np.int64],
    feature: NDArray[np.int32],
    leaves: NDArray[np.int32],
    index: NDArray[np.int64],
    offset: NDArray[np.int64],
    weight: Floats,
    target: Target,
    column: NDArray[np.int32] | None,
    linear: Floats,
    square: Floats | None,
    constant: Floats | None,
    out: Floats,
) -> None: ...
def score(
    forest: Forest,
    X: Any,
    has_missing: bool,
    n_rows: int,
    n_features: int,
    rows: Any,
    target: Target,
    origin: Floats,
    largest: Floats,
    column: NDArray[np.int32] | None,
    tree_weight: Floats | None,
    formula: str,
    skips: bool,
    scale: float,
    is_additive: bool,
    n_threads: int,
    scores: Floats,
    mdi: Floats,
    counted_mdi: Floats,
    magnitude: Floats,
    split_weight: Floats,
    skipped_weight: Floats,
    unseen_weight: Floats,
    unseen_impurity: Floats,
    phi: Floats | None,
    psi: Floats | None,
    bags: NDArray[np.float32] | None,
    first: int,
) -> None: ...
def lay_out(
    forest: Forest, n_features: int, n_threads: int, nodes: NDArray[np.uint8], place: NDArray[np.int32]
) -> None: ...
def score_sums(
    forest: Forest,
    n_features: int,
    target: Target,
    origin: Floats,
    largest: Floats,
    formula: str,
    skips: bool,
    scale: float,
    is_additive: bool,
    n_threads: int,
    leaf_sums: Floats,
    n_roles: int,
    terms: Floats | None,
    scores: Floats,
    mdi: Floats,
    counted_mdi: Floats,
    magnitude: Floats,
    split_weight: Floats,
    skipped_weight: Floats,
    unseen_weight: Floats,
    unseen_impurity: Floats,
) -> None: ...
def sum_nodes(
    forest: Forest,
    X: Any,
    has_missing: bool,
    n_rows: int,
    n_features: int,
    target: Target,
    origin: Floats,
    column: NDArray[np.int32] | None,
    n_threads: int,
    sums: Floats,
) -> None: ...
def contribute(
    forest: Forest,
    X: Any,
    has_missing: bool,
    n_features: int,
    target: Target,
    origin: Floats,
    column: NDArray[np.int32] | None,
    tree_weight: Floats | None,
    linear: Floats,
    square: Floats | None,
    constant: Floats | None,
    n_threads: int,
    phi: Floats,
) -> None: ...
def sum_row_products(
    phi: Floats,
    psi: Floats | None,
    is_scoring: NDArray[np.bool_],
    total_weight: float,
    mean: Floats,
    bags: NDArray[np.float32] | None,
    n_threads: int,
    products: Floats,
    totals: Floats,
    K: Floats,
    L: Floats,
    d_d: Floats,
) -> None: ...
