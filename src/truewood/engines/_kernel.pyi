from typing import Any

import numpy as np
from numpy.typing import NDArray

class TreeArrays:
    def __init__(
        self,
        feature: NDArray[np.int32],
        threshold: NDArray[np.float64],
        left: NDArray[np.int32],
        right: NDArray[np.int32],
        missing_left: NDArray[np.bool_],
        offset: NDArray[np.int64],
        node_set: NDArray[np.int32] | None,
        set_offset: NDArray[np.int64] | None,
        bits: NDArray[np.uint32] | None,
    ) -> None: ...

def find_leaves(
    trees: TreeArrays,
    X: Any,
    has_missing: bool,
    index: NDArray[np.int64],
    offset: NDArray[np.int64],
    leaves: NDArray[np.int32],
) -> None: ...
def find_swapped_leaves(
    trees: TreeArrays,
    X: Any,
    has_missing: bool,
    index: NDArray[np.int64],
    donors: NDArray[np.int64],
    leaves: NDArray[np.int32],
) -> None: ...
def list_unseen(bag: NDArray[Any], unseen: NDArray[np.int64]) -> int: ...
def sum_codes(
    trees: TreeArrays,
    leaves: NDArray[np.int32],
    index: NDArray[np.int64],
    codes: NDArray[np.int32],
    first_column: NDArray[np.int64],
    row_weight: NDArray[np.float64] | None,
    weight: NDArray[np.float64],
    total: NDArray[np.float64],
) -> None: ...
def sum_numbers(
    trees: TreeArrays,
    leaves: NDArray[np.int32],
    index: NDArray[np.int64],
    offset: NDArray[np.int64],
    numbers: NDArray[np.float64],
    column: NDArray[np.int32] | None,
    row_weight: NDArray[np.float64] | None,
    weight: NDArray[np.float64],
    total: NDArray[np.float64],
    square: NDArray[np.float64],
) -> None: ...
def add_class_terms(
    trees: TreeArrays,
    X: Any,
    index: NDArray[np.int64],
    offset: NDArray[np.int64],
    row_weight: NDArray[np.float64],
    codes: NDArray[np.int32],
    first_column: NDArray[np.int64],
    by_class: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None: ...
def add_number_terms(
    trees: TreeArrays,
    X: Any,
    index: NDArray[np.int64],
    offset: NDArray[np.int64],
    row_weight: NDArray[np.float64],
    numbers: NDArray[np.float64],
    column: NDArray[np.int32] | None,
    linear: NDArray[np.float64],
    square: NDArray[np.float64],
    constant: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None: ...
