"""An adapter that lies gets the same clear error from both engines, on every route that its lie could do harm on."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor

import truewood as tw
from truewood._engines.selection import ENGINE_VARIABLE
from truewood._exceptions import AdapterError
from truewood._inputs.losses import Loss
from truewood._inputs.target import TargetKind
from truewood.adapters import InBagRows, TargetSpec, TrainingRecord, TreeModel, TreeReader, open_model
from truewood.adapters._registry import _REGISTRY

pytestmark = pytest.mark.asan

N_ROWS, N_TREES = 60, 4


class Liar:
    """A model whose adapter declares whatever a test needs."""

    def __init__(self, view: TreeModel) -> None:
        self.tree_model = view


@pytest.fixture(autouse=True)
def _lying_adapter(monkeypatch):
    module = ModuleType("lying_adapter")
    module.open_model = lambda model: model.tree_model
    monkeypatch.setitem(sys.modules, "lying_adapter", module)
    monkeypatch.setattr("truewood.adapters._registry._REGISTRY", {**_REGISTRY})
    tw.register_adapter(f"{Liar.__module__}.Liar", "lying_adapter")


def draw_rows(n_columns, *, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N_ROWS, n_columns))
    return X, X[:, 0] + 0.5 * rng.standard_normal(N_ROWS)


def fit_forest(n_columns, n_classes):
    X, y = draw_rows(n_columns)
    if n_classes is None:
        return RandomForestRegressor(N_TREES, random_state=0).fit(X, y)
    return RandomForestClassifier(N_TREES, random_state=0).fit(X, cut(y, n_classes))


def cut(y, n_classes):
    return np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))


def borrow(view, **changes):
    """The reader of a view, with changes."""
    return replace(view._reader, **changes)


def rebuild(view, **changes):
    """A view with some of its parts changed."""
    parts = {name: getattr(view, name) for name in ("table", "target", "training", "why_no_bags")}
    return TreeModel(**{**parts, "reader": view._reader, **changes})


def remember(forest, **changes):
    """What a forest remembers of its rows, with lies."""
    declared = {
        "n_rows": N_ROWS,
        "node_counts": lambda tree: forest.estimators_[tree].tree_.n_node_samples,
        "training_rows": lambda tree, _target, _weight: weigh(forest.estimators_samples_[tree]),
        "bag": lambda tree: forest.estimators_samples_[tree],
    }
    return TrainingRecord(**{**declared, **changes})


def weigh(bag):
    weight = np.bincount(bag, minlength=N_ROWS).astype(float)
    return InBagRows(np.flatnonzero(weight), weight)


# Each of these has to be caught wherever rows meet trees.
def trees_of_more_columns():
    wide = open_model(fit_forest(5, 2))
    return rebuild(wide, table=replace(wide.table, n_features=2)), (2, 2), "\\b5 columns.*\\b2\\b"


def trees_of_fewer_classes():
    view = open_model(fit_forest(2, 2))
    three = TargetSpec(TargetKind((np.arange(3),)))
    return rebuild(view, target=three), (2, 3), "target.*3 columns"


def trees_of_more_outputs():
    X, y = draw_rows(2)
    view = open_model(RandomForestRegressor(N_TREES, random_state=0).fit(X, np.column_stack([y, -y])))
    return rebuild(view, target=TargetSpec(TargetKind())), (2, None), r"target.*\b1 columns"


def trees_of_other_sizes():
    view = open_model(fit_forest(2, 2))
    return rebuild(view, reader=borrow(view, n_nodes=view.n_nodes + 2)), (2, 2), "nodes"


def too_many_trees():
    view = open_model(fit_forest(2, 2))
    read = view._reader.read
    return rebuild(view, reader=borrow(view, read=lambda _trees: read(range(2)))), (2, 2), "nodes"


def trees_of_another_precision():
    view = open_model(fit_forest(2, 2))
    double = replace(view.table, dtype="float64")
    return rebuild(view, table=double), (2, 2), r"float32.*float64"


def trees_that_do_not_add_up():
    view = open_model(fit_forest(2, None))
    return rebuild(view, reader=borrow(view, is_additive=True)), (2, None), "additive"


TREE_LIES = [
    trees_of_more_columns,
    trees_of_fewer_classes,
    trees_of_more_outputs,
    trees_of_other_sizes,
    too_many_trees,
    trees_of_another_precision,
    trees_that_do_not_add_up,
]


def score(view, data, route):
    """One way to scores; the guard is on every way but that of lists of a model without bags."""
    n_columns, n_classes = data
    X, y = draw_rows(n_columns, seed=1 if route in ("heldout", "lists") else 0)
    if n_classes is not None:
        y = cut(y, n_classes)
    options = {
        "oob": {"rows": "oob", "inference": False},
        "heldout": {"rows": "heldout", "inference": False},
        "lists": {"rows": [np.arange(tree, N_ROWS, 3) for tree in range(view.n_trees)], "inference": False},
        "inference": {"rows": "oob", "inference": True},
        "rows": {"rows": "oob", "contributions": True},
        "permutation": {"rows": "oob", "measure": "permutation", "random_state": 0},
    }[route]
    return tw.importance(Liar(view), X, y, **options)


ROUTES = ["oob", "heldout", "lists", "inference", "rows", "permutation"]


def collect_outcomes(view, data, route, engines, monkeypatch):
    """What each engine gives: an error's class and text, or scores."""
    outcomes = []
    for engine in engines:
        monkeypatch.setenv(ENGINE_VARIABLE, engine)
        try:
            outcomes.append((None, score(view, data, route).values.tolist()))
        except ValueError as error:
            outcomes.append((type(error), str(error)))
    return outcomes


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("lie", TREE_LIES)
def test_trees_that_contradict_the_model(lie, route, engines, monkeypatch):
    view, data, message = lie()
    outcomes = collect_outcomes(view, data, route, engines, monkeypatch)
    assert all(outcome == outcomes[0] for outcome in outcomes)
    # The guard of additive trees looks at other things first, and permutation is not for them.
    if lie is trees_that_do_not_add_up and route in ("oob", "inference", "rows", "permutation"):
        assert issubclass(outcomes[0][0], ValueError)
        return
    with pytest.raises(AdapterError, match=message):
        score(view, data, route)


@pytest.mark.parametrize("lie", TREE_LIES)
def test_to_ensemble_has_the_same_door(lie):
    view, _, message = lie()
    with pytest.raises(AdapterError, match=message):
        tw.to_ensemble(Liar(view))


# What a library that finds leaves itself may get wrong.
def find_nowhere(trees, values):
    return np.full((values.shape[0], len(trees)), 10**6)


def find_negative(trees, values):
    return np.full((values.shape[0], len(trees)), -1)


def find_roots(trees, values):
    return np.zeros((values.shape[0], len(trees)), dtype=np.int64)


def find_too_few(trees, values):
    return np.zeros((values.shape[0] - 1, len(trees)), dtype=np.int64)


def find_halves(trees, values):
    return np.full((values.shape[0], len(trees)), 0.5)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    ("find", "message"),
    [
        (find_nowhere, "leaves"),
        (find_negative, "leaves"),
        (find_roots, r"nodes.*leaves"),
        (find_too_few, r"leaves.*shape"),
        (find_halves, r"leaves.*shape"),
    ],
)
def test_leaves_that_are_none(find, message, route, engines, monkeypatch):
    view = open_model(fit_forest(2, 2))
    lying = rebuild(view, reader=borrow(view, find_leaves=find))
    outcomes = collect_outcomes(lying, (2, 2), route, engines, monkeypatch)
    assert all(outcome == outcomes[0] for outcome in outcomes)
    with pytest.raises(AdapterError, match=message):
        score(lying, (2, 2), route)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("n_classes", [2, None])
def test_a_library_that_finds_leaves_itself_is_asked_on_every_route(n_classes, route, engine):
    forest = fit_forest(2, n_classes)
    view, asked = open_model(forest), []

    def find(trees, values):
        asked.append(trees)
        return np.column_stack([forest.estimators_[tree].apply(values) for tree in trees])

    own = rebuild(view, reader=borrow(view, find_leaves=find))
    found, expected = score(own, (2, n_classes), route), score(view, (2, n_classes), route)
    assert asked
    np.testing.assert_array_equal(found.per_tree, expected.per_tree)
    np.testing.assert_allclose(found.std_error, expected.std_error, rtol=1e-12)


# What an adapter may get wrong about training rows.
ROW_LIES = {
    "a bag beyond the rows": ({"bag": lambda _tree: np.array([0, N_ROWS])}, r"bag\(\d\) .* from 0 to 59"),
    "a bag of negative rows": ({"bag": lambda _tree: np.array([0, -1])}, r"bag\(\d\) .* from 0 to 59"),
    "a bag of floats": ({"bag": lambda _tree: np.array([0.0, 1.0])}, r"bag\(\d\) .*row numbers"),
    "a bag of two dimensions": (
        {"bag": lambda _tree: np.zeros((2, 2), dtype=int)},
        r"bag\(\d\) .*row numbers",
    ),
    "rows beyond the rows": (
        {"training_rows": lambda *_: InBagRows(np.array([N_ROWS]), np.ones(N_ROWS))},
        r"training_rows\(\d\) .* from 0 to 59",
    ),
    "weights of too few rows": (
        {"training_rows": lambda *_: InBagRows(np.arange(5), np.ones(5))},
        r"training_rows\(\d\) .* shape \(60,\), got \(5,\)",
    ),
    "weights that are NaN": (
        {"training_rows": lambda *_: InBagRows(np.arange(N_ROWS), np.full(N_ROWS, np.nan))},
        r"training_rows\(\d\) .*finite.*negative",
    ),
    "negative weights": (
        {"training_rows": lambda *_: InBagRows(np.arange(N_ROWS), np.full(N_ROWS, -1.0))},
        r"training_rows\(\d\) .*finite.*negative",
    ),
    "counts of other nodes": ({"node_counts": lambda _tree: np.ones(1)}, r"node_counts\(\d\) .*shape"),
}


@pytest.mark.parametrize("route", ["oob", "inference", "rows", "permutation"])
@pytest.mark.parametrize("lie", ROW_LIES)
def test_rows_that_are_none(lie, route, engines, monkeypatch):
    forest = fit_forest(2, 2)
    changes, message = ROW_LIES[lie]
    view = rebuild(open_model(forest), training=remember(forest, **changes))
    outcomes = collect_outcomes(view, (2, 2), route, engines, monkeypatch)
    assert all(outcome == outcomes[0] for outcome in outcomes)
    with pytest.raises(AdapterError, match=message):
        score(view, (2, 2), route)


def test_splitting_rows_are_checked_too():
    forest = fit_forest(2, 2)
    lies = remember(forest, splitting_rows=lambda *_: InBagRows(np.array([-1]), np.ones(N_ROWS)))
    view = rebuild(open_model(forest), training=lies)
    with pytest.raises(AdapterError, match=r"splitting_rows\(0\).*\b0\b.*\b59\b"):
        score(view, (2, 2), "oob")


def test_correct_adapters_are_accepted():
    forest = fit_forest(2, 2)
    declared = rebuild(open_model(forest), training=remember(forest))
    for route in ROUTES:
        expected = score(open_model(forest), (2, 2), route)
        np.testing.assert_array_equal(score(declared, (2, 2), route).per_tree, expected.per_tree)


@pytest.fixture
def boosted():
    X, y = draw_rows(2)
    return open_model(GradientBoostingRegressor(n_estimators=N_TREES, random_state=0).fit(X, y))


@pytest.mark.parametrize("n_columns", [0, 2])
def test_a_loss_of_other_columns(boosted, n_columns, engine):
    lying = Loss(lambda y, _weight: np.zeros((len(y), n_columns)))
    view = rebuild(boosted, target=replace(boosted.target, loss=lying))
    with pytest.raises(ValueError, match=rf"\(60, 1\).*\(60, {n_columns}\)"):
        score(view, (2, None), "heldout")


def test_a_loss_that_is_nan(boosted, engine):
    view = rebuild(boosted, target=replace(boosted.target, loss=Loss(lambda y, _weight: y * np.nan)))
    with pytest.raises(ValueError, match="finite"):
        score(view, (2, None), "heldout")


def test_a_column_beyond_the_raw_scores(boosted, engine):
    ensemble = boosted.read(range(N_TREES))
    beyond = replace(ensemble, column=np.full(N_TREES, 7))
    with pytest.raises(AdapterError, match=r"target.*\b1\b"):
        score(rebuild(boosted, reader=TreeReader.of_ensemble(beyond)), (2, None), "heldout")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tree_weight": np.array([1.0, np.nan, 1.0, 1.0])}, r"weight.*finite.*negative"),
        ({"tree_weight": np.ones(2)}, r"weight.*finite.*negative"),
        ({"n_nodes": np.array([0])}, r"number of nodes.*tree"),
        ({"n_nodes": np.array([1.5])}, r"number of nodes.*tree"),
        ({"combined": ("a & b",)}, "leaves"),
    ],
)
def test_what_no_tree_could_make_good(boosted, changes, message):
    with pytest.raises(AdapterError, match=message):
        rebuild(boosted, reader=borrow(boosted, **changes))


def test_a_table_of_unknown_width(boosted):
    with pytest.raises(AdapterError, match="columns"):
        rebuild(boosted, table=replace(boosted.table, n_features=None))
