"""What a fitted model records about its training data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from truewood._exceptions import AdapterError
from truewood._inputs.target import Target

Floats = NDArray[np.float64]


class InBagRows(NamedTuple):
    """The rows a tree was trained on.

    Parameters
    ----------
    counted : ndarray of int, shape (n,)
        Row numbers as the library counts them: a row drawn twice is one row of weight two in some libraries, and two
        rows in others.
    weight : ndarray of float64, shape (n_rows,)
        Weight of every row in the tree's fit, 0 for rows that are not in bag.
    """

    counted: NDArray[Any]
    weight: Floats


@dataclass(frozen=True, eq=False)
class WeightedDraws:
    """Draws of rows into bags, by weight.

    Parameters
    ----------
    weight : ndarray of float64, shape (n_rows,)
        The probability of drawing a row is proportional to this.
    n_draws : int
        Number of draws per bag.
    with_replacement : bool, default=True
        Whether a row can be drawn again.
    """

    weight: Floats
    n_draws: int
    with_replacement: bool = True

    def __post_init__(self) -> None:
        if not (np.isfinite(self.weight.sum()) and self.weight.min() >= 0 and self.weight.any() and self.n_draws > 0):
            raise AdapterError(
                "draws of the adapter must have n_draws > 0, and weights that are finite, not negative and not all "
                "zero."
            )

    @property
    def oob_probability(self) -> Floats:
        """Probability that each row is out of bag, shape (n_rows,).

        Without replacement, it is approximated by a Poisson process for each row, with a rate proportional to its
        weight, that runs until the expected number of distinct rows is `n_draws` (Rosen 1972).
        """
        share: Floats = self.weight / self.weight.sum()
        if self.with_replacement:
            probability: Floats = (1.0 - share) ** self.n_draws
            return probability
        n_left = np.count_nonzero(share) - self.n_draws
        if n_left <= 0:
            return np.where(share > 0, 0.0, 1.0)
        rate = share[share > 0]
        shortest, longest = self.n_draws / 2, 2.0 * np.log(len(share) / n_left) / rate.min()
        log_time = optimize.brentq(
            lambda u: np.exp(-rate * np.exp(u)).sum() - n_left, np.log(shortest), np.log(longest), maxiter=1000
        )
        left_out: Floats = np.exp(-share * np.exp(log_time))
        return left_out


@dataclass(frozen=True, eq=False)
class BagSeeds:
    """Bags drawn uniformly by numpy's legacy generator: ``RandomState(seed).randint(0, n_rows, n_draws)``.

    Parameters
    ----------
    seeds : ndarray of uint32, shape (n_trees,)
        The seed of each bag.
    n_draws : int
        Number of draws per bag.
    """

    seeds: NDArray[np.uint32]
    n_draws: int


ListRows = Callable[[int, Target, Floats | None], InBagRows]


class TrainingRecord:
    """What a model records about its training data; everything that the adapter returns is validated.

    Parameters
    ----------
    n_rows : int
        Number of rows it was fit on.
    node_counts : callable
        ``node_counts(tree)`` returns the number of training rows at each node.
    training_rows : callable
        ``training_rows(tree, target, sample_weight)`` returns the tree's `InBagRows`. `sample_weight` is None for a fit
        without weights. `target` contains y: `target.codes` for classes, ``target.numbers + target.origin`` otherwise.
    bag : callable or None, default=None
        ``bag(tree)`` returns the rows of the tree's bag, in any order and as often as they were drawn; None for a model
        with trees that were fit on every row, or without recorded bags.
    splitting_rows : callable or None, default=None
        Like `training_rows`, for honest trees: the rows that determined the splits, while other rows determined the
        node values. Those other rows then also serve as evaluation rows, and out-of-bag scores use node means and
        weights computed from the rows that determined the splits.
    is_exact : bool, default=True
        Whether `n_rows` is the exact number; otherwise, it is a lower bound.
    has_weights : bool, default=True
        Whether `training_rows` returns the weights of the fit; if not, only counts identify the training data.
    draws : WeightedDraws or None, default=None
        How rows were drawn into bags, if by weight; None if all had the same probability.
    bag_seeds : BagSeeds or None, default=None
        The likely seeds of the bags; callers verify the bags drawn from them against `bag`.
    weighs_by_count : callable, optional
        ``weighs_by_count(has_weight)`` returns whether the tree fit counts each row as often as it was drawn, with no
        other weight; `has_weight` is whether the model was fit with `sample_weight`. The default returns False.

    Attributes
    ----------
    has_bags : bool
        Whether the rows of each tree's bag are known.
    is_honest : bool
        Whether the splits and the node values come from different rows.
    """

    def __init__(
        self,
        *,
        n_rows: int,
        node_counts: Callable[[int], NDArray[Any]],
        training_rows: ListRows,
        bag: Callable[[int], NDArray[Any]] | None = None,
        splitting_rows: ListRows | None = None,
        is_exact: bool = True,
        has_weights: bool = True,
        draws: WeightedDraws | None = None,
        bag_seeds: BagSeeds | None = None,
        weighs_by_count: Callable[[bool], bool] = lambda _has_weight: False,
    ) -> None:
        if draws is not None and draws.weight.shape != (n_rows,):
            raise AdapterError(
                f"draws of the adapter must have a weight for each of {n_rows} rows, got shape {draws.weight.shape}."
            )
        self.draws, self.bag_seeds, self.weighs_by_count = draws, bag_seeds, weighs_by_count
        self.n_rows, self.is_exact, self.has_weights = n_rows, is_exact, has_weights
        self._node_counts, self._bag = node_counts, bag
        self._training_rows, self._splitting_rows = training_rows, splitting_rows
        self.has_bags, self.is_honest = bag is not None, splitting_rows is not None

    def fits(self, n_rows: int) -> bool:
        """Whether the model may have been fit on this number of rows."""
        return n_rows == self.n_rows or (n_rows > self.n_rows and not self.is_exact)

    def count_at_nodes(self, tree: int, n_nodes: int) -> NDArray[Any]:
        """Number of training rows at each node of a tree, shape (n_nodes,)."""
        counts = np.asarray(self._node_counts(tree))
        if counts.shape != (n_nodes,):
            raise AdapterError(f"node_counts({tree}) of the adapter must have shape ({n_nodes},), got {counts.shape}.")
        return counts

    def list_bag(self, tree: int, n_rows: int) -> NDArray[Any]:
        """Rows of a tree's bag, in any order, given the number of all rows."""
        if self._bag is None:
            raise AdapterError("the adapter records no bags.")
        return _check_rows(self._bag(tree), n_rows, f"bag({tree})")

    def list_training_rows(self, tree: int, target: Target, sample_weight: Floats | None) -> InBagRows:
        """Rows that determined the values of a tree's nodes."""
        return _check_training(
            self._training_rows(tree, target, sample_weight), target.n_rows, f"training_rows({tree})"
        )

    def list_splitting_rows(self, tree: int, target: Target, sample_weight: Floats | None) -> InBagRows:
        """Rows that determined a tree's splits: those of `list_training_rows`, unless trees are honest."""
        if self._splitting_rows is None:
            return self.list_training_rows(tree, target, sample_weight)
        listed = self._splitting_rows(tree, target, sample_weight)
        return _check_training(listed, target.n_rows, f"splitting_rows({tree})")


def _check_rows(given: Any, n_rows: int, what: str) -> NDArray[Any]:
    rows = np.ascontiguousarray(given)
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise AdapterError(f"{what} of the adapter must be a list of row numbers, got {rows.dtype}, {rows.shape}.")
    if len(rows) and not 0 <= rows.min() <= rows.max() < n_rows:
        raise AdapterError(
            f"{what} of the adapter must hold row numbers from 0 to {n_rows - 1}, got {rows.min()} to {rows.max()}."
        )
    return rows if rows.dtype in (np.int32, np.int64) else rows.astype(np.int64)


def _check_training(given: InBagRows, n_rows: int, what: str) -> InBagRows:
    weight = np.ascontiguousarray(given.weight, dtype=np.float64)
    if weight.shape != (n_rows,):
        raise AdapterError(f"weights in {what} of the adapter must have shape ({n_rows},), got {weight.shape}.")
    if not (np.isfinite(weight.sum()) and weight.min() >= 0):
        raise AdapterError(f"weights in {what} of the adapter must be finite and not negative.")
    return InBagRows(_check_rows(given.counted, n_rows, what), weight)
