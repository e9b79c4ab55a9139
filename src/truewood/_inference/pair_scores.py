"""Scores of pairs of features, with standard errors: how much of the residual target a joint effect explains.

The target minus the additive part of the prediction, r, and the joint effect g are both regressed on functions that do
not combine the two features: an additive basis of each, the predictions without one of them or without both, and a
curve of each other feature. The score is the mean product of the two residuals. The regression makes the score zero on
average without an interaction, even if the features depend on each other: neither part of the product then has a
component that the regressors explain, and only the product of two approximation errors is left.

Out-of-bag rows have two roles: a row evaluates some trees and is in bag for the others. The joint effect at a row is
(nearly) a sum over in-bag rows, g_l = sum_i K_li e_i, and the variance of sum_l e_l g_l is that of its terms plus the
sum of K_li K_il. If the kernel of infinitely many trees is symmetric, the latter is the sum of e_l^2 times the square
of their g_l, which the product of the joint effects from two halves of the trees estimates without the noise of the
trees. docs/theory/interactions.md has the derivation and measurements.
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
from truewood._inference.standard_errors import find_cluster_correction, find_cluster_shortage, find_row_shortage
from truewood._inputs.groups import sum_row_groups

Floats = NDArray[np.float64]

# Canonical correlation of the additive bases of two features above which p-values are withheld.
MOST_DEPENDENT = 0.85
# Curves of other features: one per this many rows, those of the largest main effects.
_ROWS_PER_CURVE = 20
# Singular values below this share of the largest are zero.
_RANK = 1e-7
# Joint effects that regressors explain up to this share of their square are additive.
_ADDITIVE = 1e-18
# Larger leverages are replaced by this.
_MOST_LEVERAGE = 0.9
# Number of pairs whose joint effects fit into the processor's cache.
_BLOCK_PAIRS = 16


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
        How much the regression changed the score: what dependence between the features could have added to it.
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
        curvature = np.ones_like(rows.residual) if rows.curvature is None else rows.curvature
        with _use_one_thread():
            self._bases = [_orthonormalize(basis - np.average(basis, axis=0, weights=share)) for basis in bases]
            self._columns = [
                _ColumnRegression(rows, bases, np.sqrt(share * curvature[:, c]), c)
                for c in range(rows.residual.shape[1])
            ]
        self.problem = self._find_problem()

    def _find_problem(self) -> str | None:
        n_rows, n_basis = len(self._rows.weight), sorted(basis.shape[1] for basis in self._bases)
        if (problem := find_row_shortage(n_rows)) is not None:
            return problem
        if self._size is not None and (problem := find_cluster_shortage(self._size)) is not None:
            return problem
        n_regressors = 3 + sum(n_basis[-2:]) + max(column.n_common for column in self._columns)
        if n_rows < ROWS_PER_REGRESSOR * n_regressors:
            return (
                f"tests of pairs need {ROWS_PER_REGRESSOR} evaluation rows for each of the {n_regressors} regressors "
                f"that control for additive effects, got {n_rows}"
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
            shape (n_effects, n_block, n_rows). If rows are in bag for other trees, there are three: from all trees and
            from each half of them.
        n_threads : int
            Number of threads, which share the pairs.
        """
        starts = range(0, len(pairs), _BLOCK_PAIRS)
        with _use_one_thread():
            parts = Parallel(n_jobs=n_threads, require="sharedmem")(
                delayed(self._score_block)(pairs, slice(start, min(start + _BLOCK_PAIRS, len(pairs))), take_joint)
                for start in starts
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
            scored[3, k] = self._measure_dependence(first, second)
            if not shares_path[k]:
                continue
            found = [
                column.regress(first, second, effects[:, k])
                for column, effects in zip(self._columns, left, strict=True)
            ]
            scored[:3, k] = self._measure(found, is_in_bag=len(joint[0]) > 1)
            scored[4, k] = abs(plain[k] / self._rows.n_averaged - scored[0, k])
        return PairScores(*scored)

    def _measure(self, found: list[_Residuals], *, is_in_bag: bool) -> tuple[float, float, float]:
        """Score of a pair and its standard errors, given the residuals in each column."""
        n_rows, n_averaged = len(self._rows.weight), self._rows.n_averaged
        value = sum(float(own.left @ own.effects[0]) / (n_rows - own.n_regressors) for own in found) / n_averaged

        def add(role: int, *, is_noise: bool = False) -> Floats:
            """Contributions of rows, or groups of rows, by the joint effect of all trees (0) or of half (1 and 2)."""
            rows = sum(own.inflation * (own.left - own.effects[0] * is_noise) * own.effects[role] for own in found)
            contributions = np.asarray((rows - np.mean(rows)) / (n_rows * n_averaged))
            if self._rows.groups is None or self._size is None:
                return contributions
            return sum_row_groups(contributions[:, np.newaxis], self._rows.groups, len(self._size))[:, 0]

        correction = 1.0 if self._size is None else find_cluster_correction(self._size)
        squares = float((add(0) ** 2).sum())
        tested, spread = (1.0 + self._reciprocity) * squares, (1.0 + self._reciprocity) ** 2 * squares
        if is_in_bag:
            # The sums of products of the two halves exceed those of all trees only because of noise.
            tested += float(np.clip((add(1) * add(2)).sum(), 0.0, tested))
            noise = (add(1, is_noise=True) * add(2, is_noise=True)).sum()
            spread = max(tested, spread + 3.0 * float(np.clip(noise, 0.0, None)))
        return value, float(np.sqrt(correction * tested)), float(np.sqrt(correction * spread))

    def _measure_dependence(self, first: int, second: int) -> float:
        """Largest canonical correlation of two bases, minus its expectation for independent features."""
        a, b = self._bases[first], self._bases[second]
        if not a.shape[1] or not b.shape[1]:
            return 0.0
        n_rows = len(a)
        largest = float(np.linalg.svd(a.T @ b, compute_uv=False)[0]) ** 2
        chance = min((np.sqrt(a.shape[1]) + np.sqrt(b.shape[1])) ** 2 / n_rows, 0.99)
        return float(np.sqrt(np.clip((largest - chance) / (1.0 - chance), 0.0, 1.0)))


def _use_one_thread() -> AbstractContextManager[Any]:
    """Limit linear algebra to one thread: on small matrices, several threads would mostly wait for each other."""
    limits: AbstractContextManager[Any] = threadpool_limits(1, user_api="blas")
    return limits


@dataclass(frozen=True, eq=False)
class _Residuals:
    """Residuals of a pair in one column of the target, each times the root of the row's weight.

    Parameters
    ----------
    left : ndarray of shape (n_rows,)
        Of the target minus the additive part of the prediction.
    effects : ndarray of shape (n_effects, n_rows)
        Of the joint effect of all trees and, out of bag, of each half of them.
    inflation : ndarray of shape (n_rows,)
        Factor that corrects contributions for the leverage of rows, as in HC3.
    n_regressors : int
        Number of regressors.
    """

    left: Floats
    effects: Floats
    inflation: Floats
    n_regressors: int


class _ColumnRegression:
    """Regressions in one column of the target; regressors of all pairs are partialled out first (Frisch & Waugh).

    Functions of rows are the rows of matrices here, so that each is contiguous.
    """

    def __init__(self, rows: EvaluatedRows, bases: list[Floats], root_weight: Floats, column: int) -> None:
        self._root, n_rows = root_weight, len(root_weight)
        main = rows.main[:, :, column]
        # The curve of a feature: its main effect as a function of the feature alone.
        curves = np.empty((len(bases), n_rows))
        for j, basis in enumerate(bases):
            span = _orthonormalize(root_weight[:, np.newaxis] * np.hstack([np.ones((n_rows, 1)), basis]))
            curves[j] = span @ (span.T @ (root_weight * main[:, j]))
        most = max(1, n_rows // _ROWS_PER_CURVE)
        size = ((curves - curves.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
        largest = np.sort(np.argsort(-size, kind="stable")[:most])
        self._common = _orthonormalize(np.vstack([root_weight, curves[largest]]).T)
        self.n_common = self._common.shape[1]
        self._bases = [np.ascontiguousarray(_orthonormalize(self.take_out_common(basis.T).T).T) for basis in bases]
        self._residual = rows.residual[:, column]
        self._left = self.take_out_common(self._residual)
        self._prediction = self.take_out_common(rows.prediction[:, column])
        self._main = self.take_out_common(main.T)
        self._leverage = [(basis**2).sum(axis=0) for basis in [self._common.T, *self._bases]]
        self._scale = float(np.sqrt((self._prediction**2).sum()))

    def take_out_common(self, values: Floats) -> Floats:
        """Residuals of functions of rows given the curves of all features, times the root of the row's weight.

        The last axis is the row.
        """
        weighted: Floats = np.multiply(values, self._root, order="C").reshape(-1, len(self._root))
        weighted -= (weighted @ self._common) @ self._common.T
        return weighted.reshape(values.shape)

    def multiply(self, joint: Floats) -> Floats:
        """Mean products of the target minus the additive part with joint effects, without a regression, (n_pairs,)."""
        weight = self._root**2
        centered = joint - (joint @ weight / weight.sum())[:, np.newaxis]
        products: Floats = np.einsum("pn,pn->p", (self._residual + joint) * weight, centered) / len(weight)
        return products

    def regress(self, first: int, second: int, effects: Floats) -> _Residuals:
        """Regress the target and the joint effects on functions that do not combine two features."""
        joint = effects[0]
        without_first, without_second = (self._prediction - self._main[j] for j in (first, second))
        without_both = without_first - self._main[second] + joint
        values = np.stack([self._left + joint, *effects, without_first, without_second, without_both])
        a, b = self._bases[first], self._bases[second]
        inverse, n_basis = _invert(_join_blocks(a @ b.T))
        coefficients = np.hstack([values @ a.T, values @ b.T]) @ inverse
        values -= coefficients[:, : len(a)] @ a + coefficients[:, len(a) :] @ b
        values, functions = values[:-3], values[-3:]
        size = np.sqrt((functions**2).sum(axis=1, keepdims=True))
        functions = np.divide(functions, size, out=np.zeros_like(functions), where=size > _RANK * self._scale)
        inverse, n_functions = _invert(functions @ functions.T)
        values = values - (values @ functions.T @ inverse) @ functions
        residual = values[1:]
        if (residual[0] ** 2).sum() <= _ADDITIVE * (joint**2).sum():
            residual = np.zeros_like(residual)
        leverage = self._leverage[0] + self._leverage[1 + first] + self._leverage[1 + second]
        return _Residuals(
            left=values[0],
            effects=residual,
            inflation=1.0 / (1.0 - np.minimum(leverage, _MOST_LEVERAGE)),
            n_regressors=self.n_common + n_basis + n_functions,
        )


def _join_blocks(overlap: Floats) -> Floats:
    """Products of the columns of two orthonormal bases."""
    n, m = overlap.shape
    joined = np.eye(n + m)
    joined[:n, n:], joined[n:, :n] = overlap, overlap.T
    return joined


def _invert(products: Floats) -> tuple[Floats, int]:
    """Pseudoinverse and rank of a matrix of products of columns."""
    values, vectors = np.linalg.eigh(products)
    is_kept = values > _RANK * max(values.max(initial=0.0), _RANK)
    kept = vectors[:, is_kept]
    inverse: Floats = (kept / values[is_kept]) @ kept.T
    return inverse, int(np.count_nonzero(is_kept))


def _orthonormalize(columns: Floats) -> Floats:
    """An orthonormal basis of the span of the columns, shape (n_rows, rank)."""
    left, values, _ = np.linalg.svd(columns, full_matrices=False)
    return np.ascontiguousarray(left[:, values > _RANK * max(values.max(initial=0.0), _RANK)])
