from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

import truewood as tw
from truewood import TargetKind, TreeEnsemble

pytestmark = pytest.mark.asan

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
    ensemble = TreeEnsemble(**{**STUMP, "weight": weight})
    weight[0] = 5.0
    assert weight[0] == 5.0
    assert not ensemble.weight.flags.writeable


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"threshold": [0.5]}, r"threshold.*\(3,\)"),
        ({"value": [[1.0, 2.0]] * 3}, r"value.*\(3, 1\)"),
        ({"offset": [0, 2]}, r"offset.*\b0\b.*nodes.*\b3\b.*got 0, 2\b"),
        ({"offset": [0, 3, 3], "root_impurity": [1, 1]}, "at least one node per tree"),
        ({"root_impurity": [1.0, 2.0]}, r"root_impurity.*\(1,\)"),
        ({"right": [-1, -1, -1]}, r"-1\b.*leaves.*got 1 and -1 at node 0\b"),
        ({"feature": [2, -1, -1]}, r"feature.*0\.\.1.*got 2\b"),
        ({"left": [2, -1, -1]}, r"every node\b.*once.*no parent of node 1\b"),
        ({"left": [0, -1, -1]}, r"every node\b.*once.*node 0 too often"),
        ({"weight": [0.0, 0.0, 0.0]}, r"positive.*root"),
        ({"weight": [4.0, -1.0, 5.0]}, r"not negative.*got -1 to 5\b"),
        ({"weight": [4.0, np.nan, 5.0]}, r"weight\b.*finite"),
        ({"weight": [4.0, np.inf, 5.0]}, r"weight\b.*finite"),
        ({"right": [9, -1, -1]}, r"left and right\b.*nodes.*\b2, got 9\b"),
        ({"statistic": "mode"}, r"statistic\b"),
        ({"value": [[np.inf], [1.0], [3.0]]}, r"value\b.*finite"),
        (
            {"n_features": 0, "feature": [0], "left": [-1], "right": [-1], "offset": [0, 1]},
            r"n_features\b",
        ),
        ({"n_features": 1.5}, r"n_features\b.*\b0\b.*1\.5"),
        ({"left": np.array([2**32 + 1, -1, -1])}, r"left\b.*-2147483648\.\.2147483647"),
        ({"right": np.array([2, -1, -(2**40)])}, r"right\b"),
        ({"feature": np.array([2**32, 0, 0])}, r"feature\b"),
        ({"left": [1.7, -1, -1]}, r"left\b.*float64"),
        ({"offset": [0.0, 3.9]}, r"offset\b"),
        ({"feature": [[0, -1, -1]]}, r"feature and offset\b.*dimension"),
        ({"threshold": [np.nan, 0.0, 0.0]}, r"threshold\b.*NaN at node 0\b"),
        ({"column": [0.5], "is_additive": True}, r"column\b"),
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
    with pytest.raises(ValueError, match=r"children.*parent"):
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
    with pytest.raises(ValueError, match=r"children.*parent.*tree"):
        TreeEnsemble(**stray)


def test_target_kind_wants_classes_for_every_output():
    with pytest.raises(ValueError, match=r"classes.*\b2 outputs.*\b1\b"):
        TargetKind((np.array([0, 1]),), 2)


def test_repr_and_slices():
    forest = RandomForestRegressor(4, max_depth=2, random_state=0).fit([[0.0], [1.0], [2.0]], [1.0, 2.0, 4.0])
    ensemble = tw.to_ensemble(forest)
    assert repr(ensemble).startswith("TreeEnsemble(4 trees")
    assert ensemble[1:3].n_trees == 2
    for wrong in (slice(2, 2), slice(0, 4, 2)):
        with pytest.raises(IndexError, match="step 1"):
            ensemble[wrong]


def test_a_tree_ensemble_is_a_model():
    X = np.random.default_rng(0).standard_normal((80, 2))
    forest = RandomForestRegressor(5, max_depth=3, random_state=0).fit(X[:40], X[:40, 0])
    ours = tw.importance(tw.to_ensemble(forest), X[40:], X[40:, 0], rows="heldout")
    theirs = tw.importance(forest, X[40:], X[40:, 0], rows="heldout")
    np.testing.assert_array_equal(ours.values, theirs.values)
    with pytest.raises(ValueError, match=r"TreeEnsemble.*bootstrap"):
        tw.importance(tw.to_ensemble(forest), X, X[:, 0])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"column": [0]}, r"column\b.*additive"),
        ({"column": [0, 1], "is_additive": True}, r"column\b.*target.*\b1 trees?"),
        ({"column": [-1], "is_additive": True}, r"column\b.*target"),
        ({"statistic": "mode"}, r"statistic\b.*mean, median"),
        ({"x_dtype": "float16"}, r"x_dtype\b.*'float32'.*'float64'"),
        (
            {"is_additive": True, "kind": TargetKind((np.array([0, 1]),)), "value": np.full((3, 2), 0.5)},
            r"kind\b.*additive",
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
