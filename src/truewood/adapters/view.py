"""What an adapter says of a fitted model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood.ensemble import TreeEnsemble
from truewood.target import Target, TargetKind


@dataclass(frozen=True, eq=False)
class Bags:
    """The training rows of each tree, where the model has recorded them.

    Parameters
    ----------
    n_rows : int or None
        Number of rows the model was fit on, where it is recorded.
    draw : callable
        ``draw(tree)`` gives the tree's training rows, each as often as it was drawn.
    enter : callable
        ``enter(tree)`` gives the rows as the tree's fit counted them: a row drawn twice is one row of weight two for
        some libraries and two rows for others.
    weigh : callable
        ``weigh(tree, target, sample_weight)`` gives the weight that each of the n_rows rows had in the tree's fit,
        where `sample_weight` is what the model was fit with.
    """

    n_rows: int | None
    draw: Callable[[int], NDArray[Any]]
    enter: Callable[[int], NDArray[Any]]
    weigh: Callable[[int, Target, NDArray[np.float64] | None], NDArray[np.float64]]


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
    no_missing : str or None
        Why X may not hold NaN; None where NaN has a direction at every split.
    holds_means : bool
        Whether node values are training means and root impurities are known. Otherwise the values of inner nodes are
        weighted means of their leaves' values, and the means are recomputed from the bags where there are any.
    training_counts : callable or None
        ``training_counts(tree)`` gives the number of training rows at each node of a tree.
    bags : Bags or None
        The training rows of each tree.
    no_bags : str
        Why there are no bags, as the rest of a sentence that begins with the model's name.
    """

    name: str
    kind: TargetKind
    n_features: int
    feature_names: NDArray[Any] | None
    n_nodes: NDArray[np.int64]
    read: Callable[[range], TreeEnsemble]
    no_missing: str | None = None
    holds_means: bool = True
    training_counts: Callable[[int], NDArray[Any]] | None = None
    bags: Bags | None = None
    no_bags: str = "has no recorded bags"

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.n_nodes)
