"""Trees of random arrays, additive or not, with categories, missing values and infinities, on odd rows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import sparse

from helpers.fuzz_checks import check_scores, check_sizes, score_everywhere
from helpers.fuzz_profiles import share
from helpers.oracle import score_arrays, size_arrays, train_from_leaves
from truewood import TargetKind, TreeEnsemble
from truewood._trees.categories import Categories

pytestmark = pytest.mark.asan

N_FEATURES = 3
EDGES = [0.0, -0.0, 1.0, 0.1, 1e-45, -1e-40, 5e-324, 3e38, -3e38, np.inf, -np.inf]


def grow(rng, n_trees, kind, column, x_dtype, move):
    """Random trees of up to 15 nodes; values of inner nodes are the weighted means of their leaves'."""
    left, right, sets, nodes, offset = [], [], [], [], [0]
    for _ in range(n_trees):
        start, n_nodes = offset[-1], 1
        most = int(rng.choice([1, 3, 7, 15]))
        k = 0
        while k < n_nodes:
            splits = n_nodes + 2 <= most and rng.random() < 0.8
            left.append(start + n_nodes if splits else -1)
            right.append(start + n_nodes + 1 if splits else -1)
            n_nodes += 2 * splits
            k += 1
        offset.append(start + n_nodes)
    n_nodes, left, right = offset[-1], np.array(left), np.array(right)
    feature = rng.integers(0, N_FEATURES, n_nodes)
    threshold = np.where(rng.random(n_nodes) < 0.3, rng.choice(EDGES, n_nodes), rng.standard_normal(n_nodes))
    categories = None
    if rng.random() < 0.5:
        nodes = np.flatnonzero((left >= 0) & (feature == 0)).tolist()
        sets = [rng.choice(70, size=int(rng.integers(0, 30)), replace=False) for _ in nodes]
        categories = Categories.from_lists(n_nodes, nodes, sets)
    weight = rng.integers(1, 9, n_nodes).astype(float)
    value = rng.standard_normal((n_nodes, kind.n_columns))
    for first, labels in zip(kind.first_column, kind.classes, strict=bool(kind.classes)):
        block = np.exp(value[:, first : first + len(labels)])
        value[:, first : first + len(labels)] = block / block.sum(axis=1, keepdims=True)
    value = value if kind.classes else move(value)
    parts = {
        "feature": feature,
        "threshold": threshold,
        "left": left,
        "right": right,
        "missing_left": rng.random(n_nodes) < 0.5,
        "offset": offset,
        "root_impurity": np.full(n_trees, np.nan),
        "n_features": N_FEATURES,
        "kind": kind,
        "x_dtype": x_dtype,
        "categories": categories,
        "column": column,
        "is_additive": column is not None,
        "statistic": "mean" if column is None else "leaf",
    }
    leaves = TreeEnsemble(weight=weight, value=value, **parts)
    trained = [train_from_leaves(leaves, node, range(kind.n_columns)) for node in range(n_nodes)]
    means = [[float(v) for v in node.mean] for node in trained]
    return TreeEnsemble(weight=[float(node.weight) for node in trained], value=means, **parts)


@st.composite
def plans(draw):
    return {
        "seed": draw(st.integers(0, 2**32 - 1)),
        "n_trees": draw(st.integers(1, 4)),
        "n_rows": draw(st.integers(1, 40)),
        "kind": draw(st.sampled_from(["classes", "several classes", "number", "numbers", "additive", "scores"])),
        "x_dtype": draw(st.sampled_from(["float32", "float64"])),
        "weights": draw(st.sampled_from(["none", "integers", "uneven", "zeros", "one row"])),
        "rows": draw(st.sampled_from(["heldout", "lists"])),
        "is_sparse": draw(st.booleans()),
        "missing": draw(st.sampled_from([0.0, 0.3])),
        "scale": draw(st.sampled_from([1.0, 1e-12, 1e-6, 1e6, 1e12])),
        "offset": draw(st.sampled_from([0.0, 1.0, -1e3, 1e6, -1e9, 1e12])),  # in units of the scale
        "leaf": draw(st.sampled_from([1.0, 0.0, 1e-13, 1e8, 1e16])),  # what one value in ten is multiplied by
    }


KINDS = {
    "classes": TargetKind((np.arange(3),)),
    "several classes": TargetKind((np.arange(2), np.arange(3)), 2),
    "number": TargetKind(),
    "numbers": TargetKind((), 2),
    "additive": TargetKind(),
    "scores": TargetKind(),
}


def draw_weights(rng, name, n_rows):
    return {
        "none": None,
        "integers": rng.integers(1, 5, n_rows),
        "uneven": rng.random(n_rows) * 10.0 ** rng.integers(-3, 4, n_rows),
        "zeros": rng.integers(0, 2, n_rows).astype(float),
        "one row": (np.arange(n_rows) == 0).astype(float),
    }[name]


def draw_lists(rng, n_trees, n_rows):
    """Lists with repeated rows, and empty ones."""
    return [rng.integers(0, n_rows, int(rng.integers(0, 2 * n_rows))) for _ in range(n_trees)]


@share(0.3)
@given(plan=plans(), measure=st.sampled_from(["auto", "ufi", "ufi_centered", "mdi", "mdi_oob", "loss_oob"]))
def test_trees_of_arrays(plan, measure):
    rng = np.random.default_rng(plan["seed"])
    n_rows, n_trees, kind = plan["n_rows"], plan["n_trees"], KINDS[plan["kind"]]
    column = {"additive": [0] * n_trees, "scores": np.arange(n_trees) % 2}.get(plan["kind"])

    def move(numbers):
        return plan["scale"] * (numbers + plan["offset"])

    def move_values(values):
        odd = rng.random(len(values)) < 0.1
        return move(np.where(odd[:, np.newaxis], plan["leaf"] * values, values))

    trees = grow(rng, n_trees, kind, column, plan["x_dtype"], move_values)
    X = rng.standard_normal((n_rows, N_FEATURES))
    X[rng.random(X.shape) < 0.3] = rng.choice(EDGES)
    X[:, 0] = np.where(rng.random(n_rows) < 0.8, rng.integers(-1, 72, n_rows), X[:, 0])
    X = np.clip(X, -3.4e38, 3.4e38)
    X[rng.random(X.shape) < plan["missing"]] = np.nan
    weight = draw_weights(rng, plan["weights"], n_rows)
    lists = draw_lists(rng, n_trees, n_rows) if plan["rows"] == "lists" else [np.arange(n_rows)] * n_trees
    y, target, outputs, own = make_target(rng, plan["kind"], kind, n_rows, n_trees, weight, move)
    result = score_everywhere(
        trees,
        sparse.csr_array(X) if plan["is_sparse"] else X,
        y,
        measure=measure,
        sample_weight=weight,
        rows=lists if plan["rows"] == "lists" else "heldout",
        contributions=measure not in ("mdi", "loss_oob"),
        target=own,
    )
    row_weight = np.ones(n_rows) if weight is None else weight
    scorable = [math_sum(row_weight[listed]) > 0 for listed in lists]
    if isinstance(result, str):
        # New rows may happen to give the leaves of tiny trees the weights that they have.
        assume(not any(scorable) or not result.startswith("TrainingRowsError"))
        assert (measure == "loss_oob" and own is not None) or not any(scorable)
        return
    used = {"auto": result.measure, "ufi": result.measure}.get(measure, measure)
    scores = score_arrays(used, trees, X, target, row_weight, lists, outputs, is_classification=bool(kind.classes))
    kept = [s for s in scores if s is not None]
    expected = np.sum(kept, axis=0)[:, 0] if own is not None else np.mean(kept, axis=0).mean(axis=1)
    if measure == "mdi":  # which does not look at the target
        check_scores(result, expected, trees.value)
        return
    sizes = size_arrays(trees, X, y if own is None and not kind.classes else target, row_weight, lists, outputs)
    check_sizes(result, expected, sizes if own is not None else sizes / len(kept))


def math_sum(values):
    return float(np.sum(values)) if len(values) else 0.0


def make_target(rng, name, kind, n_rows, n_trees, weight, move):
    """y, the target of the oracle, value columns of each output, and the caller's own target of additive trees."""
    if kind.classes:
        codes = np.column_stack([rng.integers(0, len(labels), n_rows) for labels in kind.classes])
        one_hot = np.hstack([np.eye(len(labels))[codes[:, o]] for o, labels in enumerate(kind.classes)])
        ends = np.cumsum([0, *map(len, kind.classes)])
        return codes, one_hot, [range(a, b) for a, b in pairwise(ends)], None
    if name in ("number", "numbers"):
        y = move(rng.standard_normal((n_rows, kind.n_outputs)))
        return y, y, [[o] for o in range(kind.n_outputs)], None
    own = move(rng.standard_normal((n_rows, 1 if name == "additive" else min(2, n_trees))))
    if weight is not None and not weight.any():
        return None, own, [[0]], own  # to be refused
    return None, own - np.average(own, axis=0, weights=weight), [[0]], own
