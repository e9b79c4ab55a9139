"""Regressions of joint effects, and of the residual target, on functions that do not combine two features.

Functions of rows are the rows of matrices here, so that each is contiguous; each is multiplied by the square root of
the row's weight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from truewood._inputs.groups import sum_row_groups

Floats = NDArray[np.float64]

# Rows per curve; the features with the largest main effects have one.
_ROWS_PER_CURVE = 20
# Bases replace curves, the features with the largest main effects first, as long as there are this many rows for each
# function that all pairs have in common.
_ROWS_PER_COMMON = 8
# Singular values, or eigenvalues, below this share of the largest are zero.
_RANK = 1e-7
# Joint effects that regressors explain up to this share of their square are additive.
_ADDITIVE = 1e-16
# Larger leverages are replaced by this.
_MOST_LEVERAGE = 0.9


class WeightedBases:
    """Additive bases of features, orthonormal and orthogonal to constants, with weights of rows.

    Parameters
    ----------
    bases : list of ndarray of shape (n_rows, n)
        An additive basis of each feature, see `make_basis`.
    root : ndarray of shape (n_rows,)
        Roots of the weights of rows.

    Attributes
    ----------
    stacked : ndarray of shape (n_functions, n_rows)
        A constant, and the functions of all features.
    parts : list of slice
        Place of each feature among these.
    functions : list of ndarray of shape (rank, n_rows)
        The functions of each feature.
    products : ndarray of shape (n_functions, n_functions)
        Products of all functions.
    """

    def __init__(self, bases: list[Floats], root: Floats) -> None:
        self.root = root
        share = root**2 / (root**2).sum()
        stacked = np.empty((1 + sum(basis.shape[1] for basis in bases), len(root)))
        stacked[0], ends = np.sqrt(share), [1]
        for basis in bases:
            functions = _orthonormalize(root[:, np.newaxis] * (basis - share @ basis))
            ends.append(ends[-1] + len(functions))
            stacked[ends[-2] : ends[-1]] = functions
        self.stacked = stacked[: ends[-1]]
        self.parts = list(map(slice, ends[:-1], ends[1:]))
        self.functions = [self.stacked[part] for part in self.parts]
        self.products = self.stacked @ self.stacked.T

    def measure_dependence(self, first: int, second: int) -> float:
        """Largest canonical correlation of two features, minus its expectation for independent features."""
        a, b = self.functions[first], self.functions[second]
        if not len(a) or not len(b):
            return 0.0
        overlap = self.products[self.parts[first], self.parts[second]]
        largest = float(np.linalg.svd(overlap, compute_uv=False)[0]) ** 2
        chance = min((np.sqrt(len(a)) + np.sqrt(len(b))) ** 2 / len(self.root), 0.99)
        return float(np.sqrt(np.clip((largest - chance) / (1.0 - chance), 0.0, 1.0)))


@dataclass(frozen=True, eq=False)
class Residuals:
    """Residuals of a pair in one column of the target.

    Parameters
    ----------
    left : ndarray of shape (n_rows,)
        Of the target minus the additive part of the prediction.
    effects : ndarray of shape (n_effects, n_rows)
        Of the joint effect of all trees and, out of bag, of its noise.
    inflation : ndarray of shape (n_rows,)
        Factor that corrects contributions for the leverage of rows, as in HC2, and for the number of regressors.
    n_regressors : int
        Number of regressors.
    """

    left: Floats
    effects: Floats
    inflation: Floats
    n_regressors: int


class ColumnRegression:
    """Regressions in one column of the target. Regressors of all pairs are partialled out first (Frisch & Waugh).

    Parameters
    ----------
    bases : WeightedBases
        Additive bases of the features.
    residual, prediction : ndarray of shape (n_rows,)
        The target minus the prediction, and the prediction.
    main : ndarray of shape (n_rows, n_features)
        Main effects of the features.
    groups : ndarray of int64, shape (n_rows,), or None
        The group of each row, if rows are grouped: how many functions can be taken out depends on their number.

    Attributes
    ----------
    n_common, n_own : int
        Number of functions that all pairs have in common, and largest number of functions of the two features of a pair
        that are not among these.
    """

    def __init__(
        self,
        bases: WeightedBases,
        residual: Floats,
        prediction: Floats,
        main: Floats,
        groups: NDArray[np.int64] | None = None,
    ) -> None:
        self._root = bases.root
        n_units = len(residual) if groups is None else int(groups.max()) + 1
        weighted_main = self._root * main.T
        # The curve of a feature: its main effect as a function of the feature alone.
        curves = [own @ x for own, x in zip(bases.functions, weighted_main, strict=True)]
        size = np.array([np.sqrt(curve @ curve) for curve in curves])
        largest = np.argsort(-size, kind="stable")[: max(1, n_units // _ROWS_PER_CURVE)]
        largest = largest[size[largest] > 0]
        n_more = np.array([len(bases.functions[j]) - 1 for j in largest], dtype=np.int64)
        is_whole = 1 + len(largest) + np.cumsum(n_more) <= n_units // _ROWS_PER_COMMON
        whole, smooth = set(largest[is_whole].tolist()), largest[~is_whole]
        alone = np.eye(len(bases.stacked))
        listed = [alone[:1], *(alone[bases.parts[j]] for j in sorted(whole))]
        listed += [curves[j] / size[j] @ alone[bases.parts[j]][np.newaxis] for j in smooth]
        self._common = _join_spans(np.vstack(listed), bases)
        self._bases = [
            own[:0] if j in whole else _orthonormalize(self._remove_common(own).T)
            for j, own in enumerate(bases.functions)
        ]
        self.n_common, self.n_own = len(self._common), sum(sorted(len(own) for own in self._bases)[-2:])
        self._residual = residual
        self._left, self._prediction = self.take_out_common(np.stack([residual, prediction]))
        self._main = self._remove_common(weighted_main)
        self._leverage = [_find_leverage(own, groups) for own in [self._common, *self._bases]]
        self._scale = float(np.sqrt((self._prediction**2).sum()))

    def take_out_common(self, values: Floats) -> Floats:
        """Weighted residuals of functions of rows given what all pairs have in common; the last axis is the row."""
        weighted = np.multiply(values, self._root, order="C").reshape(-1, len(self._root))
        return self._remove_common(weighted).reshape(values.shape)

    def _remove_common(self, weighted: Floats) -> Floats:
        fitted: Floats = (weighted @ self._common.T) @ self._common
        return np.subtract(weighted, fitted, out=fitted)

    def multiply(self, joint: Floats) -> Floats:
        """Mean products of the target minus the additive part with joint effects, without a regression, (n_pairs,)."""
        weight = self._root**2
        total = weight.sum()
        weighted = joint * weight
        sums, products = weighted.sum(axis=1), np.einsum("pn,pn->p", weighted, joint)
        mean_left = (self._residual @ weight + sums) / total
        means: Floats = (weighted @ self._residual + products - sums * mean_left) / len(weight)
        return means

    def regress(self, first: int, second: int, effects: Floats) -> Residuals:
        """Regress the target and the joint effects of a pair, given as `take_out_common` returns them."""
        without_first, without_second = (self._prediction - self._main[j] for j in (first, second))
        without_both = without_first - self._main[second] + effects[0]
        values = np.stack([self._left + effects[0], *effects, without_first, without_second, without_both])
        a, b = self._bases[first], self._bases[second]
        n_own = 0
        if len(a) or len(b):
            inverse, n_own = _invert(_join_blocks(a @ b.T))
            coefficients = np.hstack([values @ a.T, values @ b.T]) @ inverse
            values -= coefficients[:, : len(a)] @ a + coefficients[:, len(a) :] @ b
        # Least squares on the last three functions, from products of all.
        products = values @ values.T
        size = np.sqrt(np.diagonal(products)[-3:])
        scale = np.divide(1.0, size, out=np.zeros(3), where=size > _RANK * self._scale)
        inverse, n_functions = _invert(scale[:, np.newaxis] * products[-3:, -3:] * scale)
        coefficients = (products[:-3, -3:] * scale) @ inverse * scale
        values, functions = values[:-3], values[-3:]
        values -= coefficients @ functions
        left, residual = values[0], values[1:]
        if residual[0] @ residual[0] <= _ADDITIVE * (effects[0] @ effects[0]):
            residual = np.zeros_like(residual)
        leverage = (self._leverage[0] + self._leverage[1 + first] + self._leverage[1 + second]).max(axis=0)
        n_rows, n_regressors = len(left), self.n_common + n_own + n_functions
        inflation = n_rows / max(n_rows - n_regressors, 1) / np.sqrt(1.0 - np.minimum(leverage, _MOST_LEVERAGE))
        return Residuals(left, residual, inflation, n_regressors)


def _find_leverage(functions: Floats, groups: NDArray[np.int64] | None) -> Floats:
    """Leverage of each row and, if rows are grouped, that of a constant on its group, shape (1 or 2, n_rows)."""
    of_row: Floats = np.einsum("fn,fn->n", functions, functions)
    if groups is None:
        return of_row[np.newaxis]
    size = np.bincount(groups)
    sums = sum_row_groups(functions.T, groups, len(size))
    return np.stack([of_row, ((sums**2).sum(axis=1) / size)[groups]])


def _join_blocks(overlap: Floats) -> Floats:
    """Products of the functions of two orthonormal bases."""
    n, m = overlap.shape
    joined = np.eye(n + m)
    joined[:n, n:], joined[n:, :n] = overlap, overlap.T
    return joined


def _invert(products: Floats) -> tuple[Floats, int]:
    """Pseudoinverse and rank of a matrix of products of functions."""
    values, vectors = np.linalg.eigh(products)
    is_kept = values > _RANK * max(values.max(initial=0.0), _RANK)
    kept = vectors[:, is_kept]
    inverse: Floats = (kept / values[is_kept]) @ kept.T
    return inverse, int(np.count_nonzero(is_kept))


def _orthonormalize(functions: Floats) -> Floats:
    """An orthonormal basis, shape (rank, n_rows), of what the columns of a matrix span."""
    span, factors = np.linalg.qr(functions)
    _, values, right = np.linalg.svd(factors.T)
    kept: Floats = right[values > _RANK * max(values.max(initial=0.0), _RANK)] @ span.T
    return kept


def _join_spans(combined: Floats, bases: WeightedBases) -> Floats:
    """The same for linear combinations of the functions of several bases, at less cost."""
    values, vectors = np.linalg.eigh(combined @ bases.products @ combined.T)
    is_kept = values > _RANK * values.max()
    joined: Floats = ((vectors[:, is_kept] / np.sqrt(values[is_kept])).T @ combined) @ bases.stacked
    return joined
