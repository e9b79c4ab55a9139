"""Scores of pairs of features, with standard errors: how much of the residual target a joint effect explains.

The target minus the additive part of the prediction, r, and the joint effect g are both regressed on functions that do
not combine the two features: an additive basis of each feature, and the predictions without one of the two or without
both; if there are too few rows for all bases, some features have a curve instead. The score is the mean product of the
two residuals. The regression makes the score zero on average without an interaction, even if the features depend on
each other: neither part of the product then has a component that the regressors explain, and only the product of two
approximation errors is left. The other features are among the regressors because the joint effect may stand in for one
of them: where a feature is a noisy product of j and k, a model uses that product, too.

Out-of-bag rows have two roles: a row evaluates some trees and is in bag for the others. The joint effect at a row is
(nearly) a sum over in-bag rows, g_l = sum_i K_li e_i, and the variance of sum_l e_l g_l is that of its terms plus the
sum of K_li K_il. If the kernel of infinitely many trees is symmetric, the latter is the sum of e_l^2 times the square
of their g_l. The square of g_l minus that of its noise estimates it; the noise is half the difference between the joint
effects from two halves of the trees. docs/theory/interactions.md has the derivation and measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from truewood._inference.additive_basis import ROWS_PER_REGRESSOR
from truewood._inference.pair_regression import ColumnRegression, Residuals, WeightedBases
from truewood._inference.standard_errors import find_cluster_correction, find_cluster_shortage, find_row_shortage
from truewood._inputs.groups import sum_row_groups

Floats = NDArray[np.float64]

# Canonical correlation of the additive bases of two features above which p-values are withheld.
MOST_DEPENDENT = 0.85
# Joint effects (rows times pairs) to regress together, and the smallest and largest number of pairs.
_BLOCK_VALUES = 1 << 20
_LEAST_BLOCK, _LARGEST_BLOCK = 16, 64


@dataclass(frozen=True, eq=False)
class PairScores:
    """Scores of pairs, with standard errors.

    Parameters
    ----------
    values : ndarray of shape (n_pairs,)
        The scores.
    null_std_error, std_error : ndarray of shape (n_pairs,)
        Standard errors without an interaction, and around the expected score.
    dependence : ndarray of shape (n_pairs,)
        Canonical correlation of the additive bases of the two features, adjusted for chance.
    taken_out : ndarray of shape (n_pairs,)
        Absolute change of the score by the regression, which removes what dependence between features adds to it.
    """

    values: Floats
    null_std_error: Floats
    std_error: Floats
    dependence: Floats
    taken_out: Floats

    @classmethod
    def join(cls, parts: Sequence[PairScores]) -> PairScores:
        """Concatenate the scores of several blocks of pairs."""
        names = cls.__dataclass_fields__
        return cls(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


@dataclass(frozen=True, eq=False)
class EvaluatedRows:
    """The evaluation rows: their residuals, effects and weights.

    Parameters
    ----------
    residual : ndarray of shape (n_rows, n_columns)
        The target minus the prediction; for raw scores, the negative gradient of the loss divided by `curvature`.
    prediction : ndarray of shape (n_rows, n_columns)
        The prediction.
    main : ndarray of shape (n_rows, n_features, n_columns)
        Main effects of the features.
    weight : ndarray of shape (n_rows,)
        Weights of rows.
    curvature : ndarray of shape (n_rows, n_columns), or None
        Second derivative of the loss; None if it is 1.
    n_averaged : int
        Divisor of sums over columns: the number of outputs.
    groups : ndarray of int64, shape (n_rows,), or None
        The group of each row; None if rows are not grouped.
    """

    residual: Floats
    prediction: Floats
    main: Floats
    weight: Floats
    curvature: Floats | None = None
    n_averaged: int = 1
    groups: NDArray[np.int64] | None = None


class PairScorer:
    """Scores pairs of features, a block of pairs at a time.

    Parameters
    ----------
    rows : EvaluatedRows
        The evaluation rows.
    bases : list of ndarray of shape (n_rows, n)
        An additive basis of each feature, see `make_basis`.
    reciprocity : float
        For rows held out in folds, see `measure_fold_errors`; 0 for others.

    Attributes
    ----------
    problem : str or None
        Why standard errors are unavailable; None if they are available.
    """

    def __init__(self, rows: EvaluatedRows, bases: list[Floats], reciprocity: float = 0.0) -> None:
        self._rows, self._reciprocity = rows, reciprocity
        share = rows.weight / rows.weight.mean()
        self._size = None
        if rows.groups is not None:
            self._size = np.bincount(rows.groups).astype(np.float64)
        with _use_one_thread():
            self._bases, self._columns = WeightedBases(bases, np.sqrt(share)), []
            for c in range(rows.residual.shape[1]):
                own = self._bases
                if rows.curvature is not None:
                    own = WeightedBases(bases, np.sqrt(share * rows.curvature[:, c]))
                values = rows.residual[:, c], rows.prediction[:, c], rows.main[:, :, c]
                self._columns.append(ColumnRegression(own, *values, rows.groups))
        self.problem = self._find_problem()

    def _find_problem(self) -> str | None:
        n_rows = len(self._rows.weight)
        if (problem := find_row_shortage(n_rows)) is not None:
            return problem
        if self._size is not None and (problem := find_cluster_shortage(self._size)) is not None:
            return problem
        n_regressors = 3 + max(column.n_common + column.n_own for column in self._columns)
        if n_rows < ROWS_PER_REGRESSOR * n_regressors:
            return (
                f"tests of pairs need at least {ROWS_PER_REGRESSOR * n_regressors} evaluation rows, "
                f"{ROWS_PER_REGRESSOR} for each of the {n_regressors} regressors that control for additive effects, "
                f"got {n_rows}"
            )
        return None

    def score(
        self, pairs: NDArray[np.int64], take_joint: Callable[[slice, int], Floats], n_threads: int = 1
    ) -> PairScores:
        """Score some pairs.

        Parameters
        ----------
        pairs : ndarray of int64, shape (n_pairs, 2)
            The features of each pair.
        take_joint : callable
            ``take_joint(block, column)`` gives the joint effects of a slice of the pairs in a column of the target,
            shape (n_effects, n_block, n_rows). If rows are in bag for other trees, there are two: from all trees, and
            half the difference between those from two halves of the trees.
        n_threads : int
            Number of threads, which share the pairs.
        """
        n_block = int(np.clip(_BLOCK_VALUES // len(self._rows.weight), _LEAST_BLOCK, _LARGEST_BLOCK))
        with _use_one_thread():
            parts = Parallel(n_jobs=n_threads, require="sharedmem")(
                delayed(self._score_block)(pairs, slice(start, min(start + n_block, len(pairs))), take_joint)
                for start in range(0, len(pairs), n_block)
            )
        return PairScores.join(parts)

    def _score_block(
        self, pairs: NDArray[np.int64], block: slice, take_joint: Callable[[slice, int], Floats]
    ) -> PairScores:
        own_pairs = pairs[block]
        joint = [take_joint(block, c) for c in range(len(self._columns))]
        plain = np.sum([column.multiply(own[0]) for column, own in zip(self._columns, joint, strict=True)], axis=0)
        shares_path = np.any([own[0].any(axis=1) for own in joint], axis=0)
        left = [column.take_out_common(own) for column, own in zip(self._columns, joint, strict=True)]
        scored = np.zeros((5, len(own_pairs)))
        for k, (first, second) in enumerate(own_pairs):
            scored[3, k] = self._bases.measure_dependence(first, second)
            if not shares_path[k]:
                continue
            found = [
                column.regress(first, second, effects[:, k])
                for column, effects in zip(self._columns, left, strict=True)
            ]
            scored[:3, k] = self._measure(found, is_in_bag=len(joint[0]) > 1)
            scored[4, k] = abs(plain[k] / self._rows.n_averaged - scored[0, k])
        return PairScores(*scored)

    def _measure(self, found: list[Residuals], *, is_in_bag: bool) -> tuple[float, float, float]:
        """Score of a pair and its standard errors, given the residuals in each column."""
        n_rows, n_averaged = len(self._rows.weight), self._rows.n_averaged
        value = sum(float(own.left @ own.effects[0]) / (n_rows - own.n_regressors) for own in found) / n_averaged
        # Contributions of rows, by the joint effect of all trees and by its noise.
        contributions = self._sum_groups(sum(own.inflation * own.left * own.effects for own in found))
        correction = 1.0 if self._size is None else find_cluster_correction(self._size)
        squares, of_noise = ((contributions**2).sum(axis=1)[[0, -1]]).tolist()
        tested, spread = (1.0 + self._reciprocity) * squares, (1.0 + self._reciprocity) ** 2 * squares
        if is_in_bag:
            tested += max(squares - of_noise, 0.0)
            left = self._sum_groups(sum(own.inflation * (own.left - own.effects[0]) * own.effects for own in found))
            squares, of_noise = (left**2).sum(axis=1).tolist()
            spread = max(tested, spread + 3.0 * max(squares - of_noise, 0.0))
        return value, float(np.sqrt(correction * tested)), float(np.sqrt(correction * spread))

    def _sum_groups(self, products: Any) -> Floats:
        """Contributions of rows, or groups of rows, to a score, given products of residuals, (n_effects, n_rows)."""
        contributions: Floats = products - products.mean(axis=1, keepdims=True)
        contributions /= products.shape[1] * self._rows.n_averaged
        if self._rows.groups is None or self._size is None:
            return contributions
        return sum_row_groups(contributions.T, self._rows.groups, len(self._size)).T


def _use_one_thread() -> AbstractContextManager[Any]:
    """Limit linear algebra to one thread: on small matrices, several threads would mostly wait for each other."""
    limits: AbstractContextManager[Any] = threadpool_limits(1, user_api="blas")
    return limits
