"""What an adapter says of a fitted model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from truewood.data.losses import Loss
from truewood.data.tables import TableForm
from truewood.data.target import Target, TargetKind
from truewood.trees.ensemble import TreeEnsemble


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
    recall_growth : callable or None
        Like `recall`, for honest trees: the rows that chose the splits, where other rows gave nodes their values. The
        latter are then unseen rows too, and out-of-bag scores take means and weights of nodes from the former.
    has_weights : bool
        Whether `recall` gives the weights of the fit; where it does not, rows are known by their counts alone.
    """

    n_rows: int
    node_counts: Callable[[int], NDArray[Any]]
    recall: Callable[[int, Target, NDArray[np.float64] | None], TrainingRows]
    draw_bag: Callable[[int], NDArray[Any]] | None = None
    is_exact: bool = True
    recall_growth: Callable[[int, Target, NDArray[np.float64] | None], TrainingRows] | None = None
    has_weights: bool = True

    def fits(self, n_rows: int) -> bool:
        """Whether the model may have been fit on this number of rows."""
        return n_rows == self.n_rows or (n_rows > self.n_rows and not self.is_exact)


@dataclass(frozen=True, eq=False)
class ModelView:
    """A fitted model, read tree by tree so that a large forest is never held twice.

    Parameters
    ----------
    kind : TargetKind
        What it predicts: what y is.
    form : TableForm
        The table it takes.
    n_nodes : ndarray of int, shape (n_trees,)
        Number of nodes of each tree.
    read : callable
        ``read(trees)`` gives the trees of a range as a `TreeEnsemble`.
    training : Training or None
        What the model remembers of its training rows.
    why_no_bags : str
        Why there are no bags, as the rest of a sentence that begins with the model's name.
    n_scores : int
        Number of columns of the target that `loss` makes: of raw scores per row.
    loss : Loss or None
        How y becomes the target of the trees; None where the trees were fit to y itself.
    why_no_loss : str or None
        Why no target follows from y, for a model whose trees were not fit to y and that has no `loss`.
    is_additive : bool
        Whether the trees' values add up to a raw score, rather than each being an estimate of the target.
    tree_weight : ndarray of shape (n_trees,), or None
        How much each tree counts in the mean; None where all count the same.
    read_y : callable or None
        ``read_y(y)`` gives y in the form of `kind`, where the library has a form of its own.
    find_leaves : callable or None
        ``find_leaves(trees, values)`` gives the leaf of each row in each tree of a range, shape (n_rows, n_trees), as
        node numbers within the tree, for a library that has to find them itself.
    why_no_heldout : str or None
        Why only out-of-bag rows can score, as the rest of a sentence that begins with the model's name: it has no node
        means of its target, and only the training rows give them.
    combined : tuple of str
        Names of features that are made of several columns, which follow the columns in the numbering of features.
    """

    kind: TargetKind
    form: TableForm
    n_nodes: NDArray[np.int64]
    read: Callable[[range], TreeEnsemble]
    training: Training | None = None
    why_no_bags: str = "has no recorded bags"
    n_scores: int = 1
    loss: Loss | None = None
    why_no_loss: str | None = None
    is_additive: bool = False
    tree_weight: NDArray[np.float64] | None = None
    read_y: Callable[[Any], Any] | None = None
    find_leaves: Callable[[range, Any], NDArray[Any]] | None = None
    why_no_heldout: str | None = None
    combined: tuple[str, ...] = ()

    @classmethod
    def of_ensemble(cls, ensemble: TreeEnsemble, **parts: Any) -> ModelView:
        """View trees that have been read already, with the other parts of a view."""
        return cls(
            n_nodes=np.diff(ensemble.offset),
            read=lambda trees: ensemble[trees.start : trees.stop],
            is_additive=ensemble.is_additive,
            **parts,
        )

    @property
    def name(self) -> str:
        """The model's class, for messages."""
        return self.form.model

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.n_nodes)

    @property
    def draw_bag(self) -> Callable[[int], NDArray[Any]] | None:
        """The bag of a tree, where bags are recorded."""
        return None if self.training is None else self.training.draw_bag
