"""Small trees, which tiles of rows walk together: values at thresholds, missing values, any number of leaves."""

import numpy as np
import pytest

from truewood._engines.selection import get_engine, resolve_engine
from truewood._inputs.tables import FeatureMatrix
from truewood._inputs.target import NumberTarget, TargetKind
from truewood._trees.ensemble import TreeEnsemble

pytestmark = [pytest.mark.tsan, pytest.mark.asan, pytest.mark.kernel]

N_ROWS, N_FEATURES = 2_500, 40
SPECIAL = [0.0, -0.0, np.inf, -np.inf, 1e-310, np.nextafter(1.0, 2.0), 1.0]


def draw_table(rng, dtype, *, has_gaps, digits=1):
    X = rng.normal(size=(N_ROWS, N_FEATURES)).round(digits)
    X[rng.random(X.shape) < 0.1] = rng.choice(SPECIAL)
    X[rng.random(X.shape) < 0.1] = 1.0
    if has_gaps:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X.astype(dtype)


def draw_tree(rng, n_leaves, X, n_features=N_FEATURES):
    """Split random leaves until there are enough; thresholds are values and their neighbors."""
    nodes = [None]
    while len(nodes) < 2 * n_leaves - 1:
        leaf = rng.choice([place for place, node in enumerate(nodes) if node is None])
        feature = rng.integers(n_features)
        known = X[:, feature][~np.isnan(X[:, feature])].astype(np.float64)
        threshold = rng.choice(np.append(known, SPECIAL))
        if np.isfinite(threshold) and rng.random() < 0.5:
            threshold = np.nextafter(threshold, rng.choice([-np.inf, np.inf]))
        nodes[leaf] = (feature, threshold, len(nodes), len(nodes) + 1, rng.random() < 0.5)
        nodes += [None, None]
    return nodes


def make_ensemble(trees, dtype):
    offset = np.cumsum([0, *map(len, trees)])
    nodes = [
        (-1, 0.0, -1, -1, False) if node is None else (node[0], node[1], node[2] + start, node[3] + start, node[4])
        for tree, start in zip(trees, offset, strict=False)
        for node in tree
    ]
    feature, threshold, left, right, missing_left = map(np.array, zip(*nodes, strict=True))
    return TreeEnsemble(
        feature=feature,
        threshold=threshold,
        left=left,
        right=right,
        missing_left=missing_left,
        weight=np.ones(len(feature)),
        value=np.zeros((len(feature), 1)),
        offset=offset,
        root_impurity=np.full(len(trees), np.nan),
        n_features=N_FEATURES,
        kind=TargetKind(),
        statistic="leaf",
        x_dtype=dtype,
        column=np.zeros(len(trees), dtype=np.int32),
        is_additive=True,
    )


@pytest.mark.parametrize("has_gaps", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "leaves", [[1], [2, 3], [1, 31, 32] * 6, [33, 64] * 4, [1, 32, 65, 200, 256, 257] * 3, [255, 256] * 16]
)
def test_sums_at_all_nodes_are_those_of_numpy(leaves, dtype, has_gaps):
    rng = np.random.default_rng(len(leaves))
    # Codes have one byte for at most 255 thresholds of a column, and two bytes for more.
    has_many = len(leaves) == 32
    X = draw_table(rng, dtype, has_gaps=has_gaps, digits=5 if has_many else 1)
    ensemble = make_ensemble([draw_tree(rng, n, X, 10 if has_many else N_FEATURES) for n in leaves], dtype)
    n_cuts = len(np.unique(ensemble.threshold[(ensemble.feature == 0) & ensemble.missing_left]))
    assert (n_cuts > 255) == has_many
    names = np.arange(N_FEATURES).astype(np.str_)
    matrix, y = FeatureMatrix(X, names, has_gaps), rng.normal(size=(N_ROWS, 1))
    target = NumberTarget.of_numbers(y)
    expected = resolve_engine("numpy").sum_nodes(ensemble, matrix, target, None)
    assert np.count_nonzero(expected.weight) > 0.25 * len(ensemble.feature)
    for n_threads in (1, 3):
        sums = get_engine().sum_nodes(ensemble, matrix, target, None, n_threads)
        for part in ("weight", "total", "square"):
            np.testing.assert_array_equal(getattr(sums, part), getattr(expected, part))
