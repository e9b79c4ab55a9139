"""Categorical splits of scikit-learn's trees, which have them since release 1.10."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.utils import check_array

from truewood._exceptions import AdapterError
from truewood._formatting import list_names
from truewood._sklearn_compat import count_categories, encode_tree_categories, list_nodes, list_tree_categories
from truewood._trees.categories import Categories

_NUMERIC_FIELDS = {
    "left_child",
    "right_child",
    "feature",
    "threshold",
    "impurity",
    "n_node_samples",
    "weighted_n_node_samples",
    "missing_go_to_left",
}
_CATEGORY_FIELDS = {"left_cat_bitset", "split_kind"}
# Values of `split_kind`: what sends a row left.
_LEAF, _THRESHOLD, _BITSET, _HASH = -1, 0, 1, 2
_WORD = 32


def check_nodes(tree: Any) -> None:
    """Refuse an inner tree whose nodes store what truewood does not know: it may change where rows go."""
    unknown = set(list_nodes(tree).dtype.names or ()) - _NUMERIC_FIELDS - _CATEGORY_FIELDS
    if unknown:
        raise AdapterError(
            f"truewood cannot read trees of scikit-learn {sklearn.__version__}, whose nodes store "
            f"{list_names(sorted(unknown))}; update truewood, or fit the model with an earlier scikit-learn."
        )


def read_categories(trees: Sequence[Any]) -> Categories | None:
    """Sets of categories that go left at the nodes of inner trees; None if all splits have thresholds."""
    if "left_cat_bitset" not in (list_nodes(trees[0]).dtype.names or ()):
        return None
    chosen, sets, start = [], [], 0
    for tree in trees:
        for node, words in _list_sets(tree):
            chosen.append(start + node)
            sets.append(words)
        start += tree.node_count
    if not sets:
        return None
    node_set = np.full(start, -1, dtype=np.int32)
    node_set[chosen] = np.arange(len(sets))
    return Categories(node_set, np.cumsum([0, *map(len, sets)]), np.concatenate(sets))


def _list_sets(tree: Any) -> Iterator[tuple[int, NDArray[np.uint32]]]:
    """Nodes of an inner tree that split on categories, each with a bitset of the categories that go left."""
    nodes = list_nodes(tree)
    n_categories = count_categories(tree)[np.maximum(nodes["feature"], 0)]
    kind = (
        nodes["split_kind"]
        if "split_kind" in (nodes.dtype.names or ())
        else np.where(n_categories > 0, _BITSET, _THRESHOLD)
    )
    kind = np.where(nodes["left_child"] < 0, _LEAF, kind)
    if not np.isin(kind, (_LEAF, _THRESHOLD, _BITSET, _HASH)).all():
        raise AdapterError(
            f"truewood cannot read trees of scikit-learn {sklearn.__version__}, whose nodes have an unknown "
            "split_kind; update truewood, or fit the model with an earlier scikit-learn."
        )
    for node in np.flatnonzero(kind > _THRESHOLD):
        stored: NDArray[np.uint32] = nodes["left_cat_bitset"][node]
        yield int(node), stored if kind[node] == _BITSET else _hash_categories(stored[0], int(n_categories[node]))


def _hash_categories(seed: np.uint32, n_categories: int) -> NDArray[np.uint32]:
    """The set of categories that the hash of scikit-learn's random splits (lowbias32) sends left."""
    x = seed ^ np.arange(n_categories, dtype=np.uint32)
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x7FEB352D)
    x ^= x >> np.uint32(15)
    x *= np.uint32(0x846CA68B)
    x ^= x >> np.uint32(16)
    padded = np.zeros(-(-n_categories // _WORD) * _WORD, dtype=np.uint8)
    padded[:n_categories] = x & np.uint32(1)
    words: NDArray[np.uint32] = np.packbits(padded, bitorder="little").view("<u4").astype(np.uint32)
    return words


def find_encoder(
    model: Any, trees: Sequence[Any], features: Sequence[NDArray[Any]] | None = None
) -> Callable[[Any], NDArray[np.float32]] | None:
    """How X becomes the numbers that fitted trees read; None if they have no categorical features.

    Parameters
    ----------
    model : estimator
        The ensemble, or the tree itself.
    trees : sequence of BaseDecisionTree
        Its trees.
    features : sequence of ndarray or None
        For each tree, the column of X for each of its own columns; None if all trees have all columns.
    """
    if getattr(trees[0], "is_categorical_", None) is None:
        return None
    encodes_itself = getattr(model, "is_categorical_", None) is not None
    if not encodes_itself and not _encode_alike(trees, features):
        raise ValueError(
            f"{type(model).__name__} must encode categories alike in all trees, but its trees were fit on different "
            "columns or categories; fit it on all columns, with categories as whole numbers from 0."
        )

    def encode(X: Any) -> NDArray[np.float32]:
        try:
            if encodes_itself:
                return encode_tree_categories(model, X)
            # An ensemble that knows nothing of categories gives its trees an array.
            return encode_tree_categories(trees[0], check_array(X, dtype=None, ensure_all_finite=False))
        except (NotImplementedError, TypeError, ValueError) as error:
            raise ValueError(
                f"X must be a table like the one {type(model).__name__} was fit on, with categories and numbers in "
                f"the same columns: {error}"
            ) from error

    return encode


def _encode_alike(trees: Sequence[Any], features: Sequence[NDArray[Any]] | None) -> bool:
    """Whether all trees have all columns, the same categorical features and the same categories."""
    if features is not None and any(not np.array_equal(own, np.arange(trees[0].n_features_in_)) for own in features):
        return False
    first = list_tree_categories(trees[0])
    return all(
        np.array_equal(tree.is_categorical_, trees[0].is_categorical_)
        and all(map(_are_same, list_tree_categories(tree), first))
        for tree in trees[1:]
    )


def _are_same(a: NDArray[Any], b: NDArray[Any]) -> bool:
    return len(a) == len(b) and bool(np.all((a == b) | ((a != a) & (b != b))))
