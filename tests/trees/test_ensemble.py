from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

import truewood as tw
from truewood import TargetKind, TreeEnsemble

STUMP = {
    "feature": [0, -1, -1],
    "threshold": [0.5, 0.0, 0.0],
    "left": [1, -1, -1],
    "right": [2, -1, -1],
    "missing_left": [False, False, False],
    "weight": [4.0, 1.0, 3.0],
    "value": [[2.5], [1.0], [3.0]],
    "offset": [0, 3],
    "root_impurity": [0.75],
    "n_features": 2,
    "kind": TargetKind(),
}


def test_arrays_are_converted_and_read_only():
    ensemble = TreeEnsemble(**STUMP)
    assert ensemble.feature.dtype == np.int32
    with pytest.raises(ValueError, match="read-only"):
        ensemble.value[0] = 0.0


def test_the_callers_array_stays_writable():
    weight = np.array([4.0, 1.0, 3.0])
    TreeEnsemble(**{**STUMP, "weight": weight})
    weight[0] = 5.0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"threshold": [0.5]}, r"threshold must have shape \(3,\)"),
        ({"value": [[1.0, 2.0]] * 3}, r"value must have shape \(3, 1\)"),
        ({"offset": [0, 2]}, "offset must rise from 0 to the number of nodes"),
        ({"offset": [0, 3, 3], "root_impurity": [1, 1]}, "at least one node per tree"),
        ({"root_impurity": [1.0, 2.0]}, r"root_impurity must have shape \(1,\)"),
        ({"right": [-1, -1, -1]}, "both be -1 at leaves"),
        ({"feature": [2, -1, -1]}, r"feature must lie in 0\.\.1"),
        ({"left": [2, -1, -1]}, "every node but the roots exactly once"),
        ({"left": [0, -1, -1]}, "every node but the roots exactly once"),
        ({"weight": [0.0, 0.0, 0.0]}, "positive at roots"),
        ({"weight": [4.0, -1.0, 5.0]}, "not negative"),
        ({"weight": [4.0, np.nan, 5.0]}, "weight must be finite"),
        ({"weight": [4.0, np.inf, 5.0]}, "weight must be finite"),
        ({"right": [9, -1, -1]}, "left and right must name nodes"),
        ({"statistic": "mode"}, "statistic must be"),
        ({"value": [[np.inf], [1.0], [3.0]]}, "value must be finite"),
        (
            {"n_features": 0, "feature": [0], "left": [-1], "right": [-1], "offset": [0, 1]},
            "n_features must be a whole",
        ),
        ({"n_features": 1.5}, "n_features must be a whole number above 0, got 1.5"),
        ({"left": np.array([2**32 + 1, -1, -1])}, r"left must lie in -2147483648\.\.2147483647"),
        ({"right": np.array([2, -1, -(2**40)])}, "right must lie in"),
        ({"feature": np.array([2**32, 0, 0])}, "feature must lie in"),
        ({"left": [1.7, -1, -1]}, "left must be whole numbers, got float64"),
        ({"offset": [0.0, 3.9]}, "offset must be whole numbers"),
        ({"feature": [[0, -1, -1]]}, "feature and offset must have one dimension"),
        ({"threshold": [np.nan, 0.0, 0.0]}, "threshold must not be NaN at splits"),
        ({"column": [0.5], "is_additive": True}, "column must be whole numbers"),
    ],
)
def test_broken_trees_are_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        TreeEnsemble(**{**STUMP, **changed})


def test_children_must_follow_their_parent():
    chain = {
        **STUMP,
        "feature": [0, 0, -1, -1, -1],
        "threshold": [0.0] * 5,
        "left": [2, 3, -1, -1, -1],
        "right": [1, 4, -1, -1, -1],
        "missing_left": [False] * 5,
        "weight": [4.0, 2.0, 2.0, 1.0, 1.0],
        "value": [[0.0]] * 5,
        "offset": [0, 5],
    }
    assert TreeEnsemble(**chain).n_trees == 1
    swapped = {**chain, "left": [3, -1, -1, 1, -1], "right": [4, -1, -1, 2, -1], "feature": [0, -1, -1, 0, -1]}
    with pytest.raises(ValueError, match="children must come after their parent"):
        TreeEnsemble(**swapped)


def test_children_must_stay_in_their_tree():
    # Every node has one parent before it, but node 2 of the first tree leads into the second tree, which begins at 5.
    stray = {
        **STUMP,
        "feature": [0] * 10,
        "threshold": [0.0] * 10,
        "left": [1, 3, 8, -1, -1, 6, -1, -1, -1, -1],
        "right": [2, 4, 9, -1, -1, 7, -1, -1, -1, -1],
        "missing_left": [False] * 10,
        "weight": [1.0] * 10,
        "value": [[0.0]] * 10,
        "offset": [0, 5, 10],
        "root_impurity": [1.0, 1.0],
    }
    with pytest.raises(ValueError, match="children must belong to their parent's tree"):
        TreeEnsemble(**stray)


def test_target_kind_wants_classes_for_every_output():
    with pytest.raises(ValueError, match="one array per output: 2, got 1"):
        TargetKind((np.array([0, 1]),), 2)


def test_repr_and_slices():
    forest = RandomForestRegressor(4, max_depth=2, random_state=0).fit([[0.0], [1.0], [2.0]], [1.0, 2.0, 4.0])
    ensemble = tw.to_ensemble(forest)
    assert repr(ensemble).startswith("TreeEnsemble(4 trees")
    assert ensemble[1:3].n_trees == 2
    for wrong in (slice(2, 2), slice(0, 4, 2)):
        with pytest.raises(IndexError, match="slice of step 1"):
            ensemble[wrong]


def test_a_tree_ensemble_is_a_model():
    X = np.random.default_rng(0).standard_normal((80, 2))
    forest = RandomForestRegressor(5, max_depth=3, random_state=0).fit(X[:40], X[:40, 0])
    ours = tw.importance(tw.to_ensemble(forest), X[40:], X[40:, 0], rows="heldout")
    theirs = tw.importance(forest, X[40:], X[40:, 0], rows="heldout")
    np.testing.assert_array_equal(ours.values, theirs.values)
    with pytest.raises(ValueError, match="TreeEnsemble has no recorded bags"):
        tw.importance(tw.to_ensemble(forest), X, X[:, 0])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"column": [0]}, "column is for additive trees of one value each"),
        ({"column": [0, 1], "is_additive": True}, "column must hold a column of the target for each of the 1 trees"),
        ({"column": [-1], "is_additive": True}, "column must hold a column of the target"),
        ({"statistic": "mode"}, "statistic must be one of mean, median"),
        ({"x_dtype": "float16"}, "x_dtype must be 'float32' or 'float64'"),
        (
            {"is_additive": True, "kind": TargetKind((np.array([0, 1]),)), "value": np.full((3, 2), 0.5)},
            "kind must be numbers for additive trees",
        ),
    ],
)
def test_additive_trees_are_checked(changed, message):
    with pytest.raises(ValueError, match=message):
        TreeEnsemble(**{**STUMP, **changed})


def test_a_pickled_ensemble_is_checked_and_read_only():
    again = pickle.loads(pickle.dumps(TreeEnsemble(**STUMP)))
    np.testing.assert_array_equal(again.threshold, [0.5, 0.0, 0.0])
    with pytest.raises(ValueError, match="read-only"):
        again.left[0] = 7


def test_misaligned_arrays_are_copied():
    raw = np.zeros(3 * 8 + 1, dtype=np.uint8)
    threshold = raw[1:].view(np.float64)
    threshold[:] = STUMP["threshold"]
    assert not threshold.flags.aligned
    ensemble = TreeEnsemble(**{**STUMP, "threshold": threshold})
    assert ensemble.threshold.flags.aligned
    np.testing.assert_array_equal(ensemble.threshold, STUMP["threshold"])
