"""What an adapter says of a fitted model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from truewood.ensemble import TreeEnsemble
from truewood.target import Target, TargetKind


class TrainingRows(NamedTuple):
    """The rows a tree was grown on.

    Parameters
    ----------
    counted : ndarray of int, shape (n,)
        Rows as the tree's stored counts count them: a row drawn twice is one row of weight two for some libraries, and
        two rows for others.
    weight : ndarray of float64, shape (n_rows,)
        Weight of every row of the data in the tree's fit, 0 for rows it never saw.
    """

    counted: NDArray[Any]
    weight: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Training:
    """What a model remembers of the rows it was fit on.

    Parameters
    ----------
    n_rows : int
        Number of rows it was fit on.
    node_counts : callable
        ``node_counts(tree)`` gives the number of training rows at each node.
    recall : callable
        ``recall(tree, target, sample_weight)`` gives the tree's `TrainingRows`, if `target` and `sample_weight` are
        those of the fit.
    draw_bag : callable or None
        ``draw_bag(tree)`` gives the rows of the tree's bag, in any order and as often as they were drawn; None for a
        model whose trees saw every row, or whose bags are not recorded.
    is_exact : bool
        Whether `n_rows` is that number, or only known not to be above it.
    """

    n_rows: int
    node_counts: Callable[[int], NDArray[Any]]
    recall: Callable[[int, Target, NDArray[np.float64] | None], TrainingRows]
    draw_bag: Callable[[int], NDArray[Any]] | None = None
    is_exact: bool = True

    def fits(self, n_rows: int) -> bool:
        """Whether the model may have been fit on this number of rows."""
        return n_rows == self.n_rows or (n_rows > self.n_rows and not self.is_exact)


@dataclass(frozen=True, eq=False)
class ModelView:
    """A fitted model, read tree by tree so that a large forest is never held twice.

    Parameters
    ----------
    name : str
        The model's class, for messages.
    kind : TargetKind
        What it predicts.
    n_features : int
        Number of columns it was fit on.
    feature_names : ndarray of str, shape (n_features,), or None
        Their names, where the model knows them.
    n_nodes : ndarray of int, shape (n_trees,)
        Number of nodes of each tree.
    read : callable
        ``read(trees)`` gives the trees of a range as a `TreeEnsemble`.
    why_no_missing : str or None
        Why X may not hold NaN; None where NaN has a direction at every split.
    training : Training or None
        What the model remembers of its training rows.
    why_no_bags : str
        Why there are no bags, as the rest of a sentence that begins with the model's name.
    """

    name: str
    kind: TargetKind
    n_features: int
    feature_names: NDArray[Any] | None
    n_nodes: NDArray[np.int64]
    read: Callable[[range], TreeEnsemble]
    why_no_missing: str | None = None
    training: Training | None = None
    why_no_bags: str = "has no recorded bags"

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.n_nodes)

    @property
    def draw_bag(self) -> Callable[[int], NDArray[Any]] | None:
        """The bag of a tree, where bags are recorded."""
        return None if self.training is None else self.training.draw_bag
