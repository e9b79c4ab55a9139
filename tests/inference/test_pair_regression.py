"""Regressions of pairs against least squares with all regressors in one matrix."""

from __future__ import annotations

import numpy as np
import pytest

from truewood._inference.additive_basis import make_basis
from truewood._inference.pair_regression import ColumnRegression, WeightedBases

N_FEATURES = 5


def draw(n_rows, n_features=N_FEATURES, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    X[:, 1] += 0.8 * X[:, 0]
    X[:, 2] = rng.integers(0, 4, n_rows)
    main = np.column_stack([np.sin(x) + 0.1 * rng.normal(size=n_rows) for x in X.T]) / np.arange(1, n_features + 1)
    joint = 0.3 * X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=n_rows)
    prediction = 1 + main.sum(axis=1) + joint
    residual = rng.normal(size=n_rows)
    weight = rng.uniform(0.5, 2.0, n_rows)
    return X, main, joint, prediction, residual, weight / weight.mean()


def make_bases(X):
    return [make_basis(x[:, np.newaxis], np.array([j == 2])) for j, x in enumerate(X.T)]


def solve(regressors, values, weight):
    """Residuals of a weighted regression, times the root of the weight, and the rank and leverage of the regressors."""
    root = np.sqrt(weight)[:, np.newaxis]
    left, size, _ = np.linalg.svd(root * regressors / np.linalg.norm(regressors, axis=0), full_matrices=False)
    span = left[:, size > 1e-10 * size[0]]
    weighted = root * np.column_stack(values)
    return (weighted - span @ (span.T @ weighted)).T, span.shape[1], (span**2).sum(axis=1)


@pytest.mark.parametrize("pair", [(0, 1), (1, 2), (3, 4)])
def test_all_bases_are_taken_out(pair):
    X, main, joint, prediction, residual, weight = draw(600)
    bases = make_bases(X)
    column = ColumnRegression(WeightedBases(bases, np.sqrt(weight)), residual, prediction, main)
    found = column.regress(*pair, column.take_out_common(np.stack([joint, 2 * joint + 1])))
    without = [prediction - main[:, pair[0]], prediction - main[:, pair[1]]]
    without.append(without[0] - main[:, pair[1]] + joint)
    regressors = np.column_stack([np.ones(600), *bases, *without])
    expected, rank, _ = solve(regressors, [residual + joint, joint, 2 * joint + 1], weight)
    np.testing.assert_allclose(np.vstack([found.left, found.effects]), expected, atol=1e-9)
    assert found.n_regressors == rank
    _, _, leverage = solve(np.column_stack([np.ones(600), *bases]), [joint], weight)
    np.testing.assert_allclose(found.inflation, 600 / (600 - rank) / np.sqrt(1 - leverage), rtol=1e-9)


@pytest.mark.parametrize("size", [1, 5])
def test_errors_are_right_on_average(size):
    """Of rows with independent noise, and of groups whose rows share their noise."""
    n_rows, rng = 200 * size, np.random.default_rng(0)
    X, main, joint, prediction, _, _ = draw(n_rows // size)
    X, main, joint, prediction = (np.repeat(values, size, axis=0) for values in (X, main, joint, prediction))
    X[:, [0, 1, 3, 4]] += 0.3 * rng.normal(size=(n_rows, 4))
    groups = np.arange(n_rows) // size
    bases = WeightedBases(make_bases(X), np.ones(n_rows))
    values, squares = [], []
    for _ in range(500):
        residual = np.repeat(rng.normal(size=n_rows // size), size)
        column = ColumnRegression(bases, residual - joint, prediction, main, groups)
        found = column.regress(0, 4, column.take_out_common(joint[np.newaxis]))
        products = found.left * found.effects[0]
        values.append(products.sum() / (n_rows - found.n_regressors))
        squares.append((np.bincount(groups, found.inflation * products) ** 2).sum() / n_rows**2)
    assert np.std(values) / np.sqrt(np.mean(squares)) == pytest.approx(1.0, abs=0.07)


def test_curves_replace_bases_where_rows_are_few():
    """120 rows allow 15 functions in common: a constant, 6 curves, and more of the basis of the largest effect."""
    X, main, joint, prediction, residual, weight = draw(120, 9)
    bases = make_bases(X)
    column = ColumnRegression(WeightedBases(bases, np.sqrt(weight)), residual, prediction, main)
    found = column.regress(0, 8, column.take_out_common(joint[np.newaxis]))
    curves = []
    for j, basis in enumerate(bases):
        with_constant = np.column_stack([np.ones(120), basis])
        root = np.sqrt(weight)
        coefficients = np.linalg.lstsq(root[:, np.newaxis] * with_constant, root * main[:, j], rcond=None)[0]
        curves.append(with_constant @ coefficients)
    size = [np.average((curve - np.average(curve, weights=weight)) ** 2, weights=weight) for curve in curves]
    largest = np.argsort(-np.array(size))[:6]
    n_more = np.cumsum([bases[j].shape[1] - 1 for j in largest])
    whole = largest[1 + 6 + n_more <= 15]
    assert 0 < len(whole) < 6
    common = [np.ones(120), *(bases[j] for j in whole), *(curves[j] for j in largest if j not in whole)]
    without = [prediction - main[:, 0], prediction - main[:, 8]]
    without.append(without[0] - main[:, 8] + joint)
    regressors = np.column_stack([*common, bases[0], bases[8], *without])
    expected, rank, _ = solve(regressors, [residual + joint, joint], weight)
    np.testing.assert_allclose(np.vstack([found.left, found.effects]), expected, atol=1e-8)
    assert found.n_regressors == rank


def test_fewer_functions_are_taken_out_of_grouped_rows():
    X, main, _, prediction, residual, weight = draw(600)
    bases = WeightedBases(make_bases(X), np.sqrt(weight))
    codes = (None, np.arange(600) // 10)
    rows, groups = (ColumnRegression(bases, residual, prediction, main, own) for own in codes)
    assert rows.n_common == 1 + sum(len(functions) for functions in bases.functions)
    assert groups.n_common == 4  # a constant and 3 curves
    assert rows.n_own == 0 < groups.n_own


def test_products_without_a_regression():
    X, main, joint, prediction, residual, weight = draw(100)
    column = ColumnRegression(WeightedBases(make_bases(X), np.sqrt(weight)), residual, prediction, main)
    expected = np.average((residual + joint) * (joint - np.average(joint, weights=weight)), weights=weight)
    assert column.multiply(joint[np.newaxis])[0] == pytest.approx(expected, rel=1e-12)


def test_nearly_equal_features_are_no_problem():
    X, main, joint, prediction, residual, weight = draw(600)
    X[:, 3] = X[:, 0] * (1 + 1e-9)
    column = ColumnRegression(WeightedBases(make_bases(X), np.sqrt(weight)), residual, prediction, main)
    found = column.regress(0, 1, column.take_out_common(joint[np.newaxis]))
    span = np.column_stack([np.ones(600), *make_bases(X)])
    assert abs(found.left @ (np.sqrt(weight)[:, np.newaxis] * span)).max() < 1e-6
    assert WeightedBases(make_bases(X), np.sqrt(weight)).measure_dependence(0, 3) > 0.999
