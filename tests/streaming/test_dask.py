"""Data frames and arrays of Dask give what a table in memory gives, by any scheduler, also where workers die."""

from __future__ import annotations

import os
import pickle
import signal
from copy import copy
from functools import cache
from itertools import pairwise

import cloudpickle
import dask
import dask.array as da
import dask.dataframe as dd
import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
import xgboost.dask
from dask.callbacks import Callback
from distributed import Client, LocalCluster
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import truewood as tw
from helpers.streaming_models import FEATURES, N_TRAIN, QUIET, XGB, assert_same, build, draw_rows, get_weight, make_y
from truewood._exceptions import TrainingRowsError

pytestmark = pytest.mark.any_engine

# With empty partitions at both ends and within.
CUTS = [0, 0, 3, 170, 170, 499, 500]


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", host="127.0.0.1"
    ) as started:
        yield started


@pytest.fixture
def client(cluster):
    with Client(cluster.scheduler_address) as connected:  # by its address, as from elsewhere
        yield connected


@pytest.fixture(params=["synchronous", "threads", pytest.param("cluster", marks=pytest.mark.slow)])
def scheduler(request):
    if request.param == "cluster":
        request.getfixturevalue("client")
        yield
    else:
        with dask.config.set(scheduler=request.param):
            yield


def cut(table, cuts):
    """A data frame whose partitions end at some rows."""
    bounds = list(pairwise([0, *cuts, len(table)]))
    return dd.from_map(lambda own: table.iloc[own[0] : own[1]], bounds, meta=table.iloc[:0])


def make_table(X, y):
    table = X.assign(w=get_weight())
    if y.ndim == 1:
        return table.assign(y=y), "y"
    names = [f"y{k}" for k in range(y.shape[1])]
    return table.assign(**dict(zip(names, y.T, strict=True))), names


@pytest.mark.parametrize(
    "name", ["forest of two numbers", "hist, quantile", "xgboost, classes", "lightgbm", "pipeline"]
)
def test_by_every_scheduler(name, scheduler):
    model, X, y = build(name)
    table, target = make_table(X, y)
    result = tw.importance(model, cut(table, CUTS), target, rows="heldout", sample_weight="w")
    expected = tw.importance(model, X, y, rows="heldout", sample_weight=get_weight())
    assert_same(result, expected)
    assert result.notes[:-1] == expected.notes
    assert "500 rows" in result.notes[-1]


@pytest.mark.parametrize("name", ["forest of classes", "xgboost", "hist, gamma", "lightgbm, quantile", "pipeline"])
@pytest.mark.parametrize("cuts", [[], [250], range(1, 40)])  # one of them with a row at a time
def test_any_partitioning(name, cuts):
    model, X, y = build(name)
    table, target = make_table(X, y)
    expected = tw.importance(model, X, y, rows="heldout")
    # The model's columns are found by name, in whatever order.
    frame = cut(table[[*reversed(table.columns)]], cuts)
    result = tw.importance(model, frame, target, rows="heldout")
    assert_same(result, expected)


def test_series_beside_the_frame(scheduler):
    model, X, y = build("forest of numbers")
    frame = cut(make_table(X, y)[0], CUTS)
    result = tw.importance(model, frame[FEATURES], frame["y"], rows="heldout", sample_weight=frame["w"] * 2)
    assert_same(result, tw.importance(model, X, y, rows="heldout", sample_weight=get_weight() * 2))


@pytest.mark.parametrize("measure", ["mdi", "loss_oob", "mdi_oob"])
def test_measures_groups_and_threads(measure):
    model, X, y = build("forest of classes")
    groups = {"both": ["a", "b"]}
    result = tw.importance(
        model, cut(make_table(X, y)[0], CUTS).drop(columns="w"), "y", rows="heldout", measure=measure,
        feature_groups=groups, n_jobs=2,
    )  # fmt: skip
    expected = tw.importance(model, X, y, rows="heldout", measure=measure, feature_groups=groups)
    assert_same(result, expected, errors=1e-10 if expected.inference_unavailable is None else None)
    assert result.inference_unavailable == expected.inference_unavailable


def test_own_target(scheduler):
    model, X, y = build("lightgbm, quantile")
    highest = 1001.0
    target = lambda y: np.minimum(y, highest)  # noqa: E731
    result = tw.importance(model, cut(make_table(X, y)[0], [100]), "y", rows="heldout", target=target)
    assert_same(result, tw.importance(model, X, y, rows="heldout", target=target))


@cache
def fit_arrays():
    rows = draw_rows()[FEATURES].to_numpy()
    y = make_y("two numbers")
    return RandomForestRegressor(5, random_state=0).fit(rows[:N_TRAIN], y[:N_TRAIN]), rows[N_TRAIN:], y[N_TRAIN:]


@pytest.mark.parametrize("chunks", [(100, 5), (7, 2), ((0, 300, 0, 200), (4, 1))])
def test_arrays(chunks, scheduler):
    model, X, y = fit_arrays()
    expected = tw.importance(model, X, y, rows="heldout", sample_weight=get_weight())
    given = da.from_array(X, chunks=chunks), da.from_array(y, chunks=(150, 1)), da.from_array(get_weight(), chunks=33)
    result = tw.importance(model, given[0], given[1], rows="heldout", sample_weight=given[2])
    assert_same(result, expected)


def test_arrays_of_unknown_length():
    model, X, y = fit_arrays()
    frame = cut(pd.DataFrame(np.column_stack([X, y])), CUTS)
    X_lazy, y_lazy = frame[[0, 1, 2, 3, 4]].to_dask_array(), frame[[5, 6]].to_dask_array()
    assert np.isnan(X_lazy.shape[0])
    assert_same(tw.importance(model, X_lazy, y_lazy, rows="heldout"), tw.importance(model, X, y, rows="heldout"))


CATEGORICAL = {
    "xgboost": lambda: xgboost.XGBRegressor(**XGB),
    "lightgbm": lambda: lightgbm.LGBMRegressor(**QUIET),
    "hist": lambda: HistGradientBoostingRegressor(max_iter=12, categorical_features="from_dtype"),
    "pipeline": lambda: make_pipeline(
        make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["kind"]), remainder="passthrough"),
        RandomForestRegressor(5, random_state=0),
    ),
}


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", CATEGORICAL)
def test_categories(name, known, client):
    rows = draw_rows()[FEATURES].assign(kind=draw_rows()["kind"].map("k{:.0f}".format).astype("category"))
    y = make_y("number")
    model = CATEGORICAL[name]().fit(rows[:N_TRAIN], y[:N_TRAIN])
    table = rows.assign(y=y)[N_TRAIN:].sort_values("kind", key=lambda kind: kind.astype(str))
    frame = cut(table, [50, 100, 101, 102, 400])
    if not known:
        frame = frame.assign(kind=frame["kind"].astype(str).astype("category"))
        assert len(frame["kind"].partitions[0].compute().cat.categories) == 1
    assert frame["kind"].cat.known == known
    result = tw.importance(model, frame, "y", rows="heldout")
    assert_same(result, tw.importance(model, table[FEATURES], table["y"], rows="heldout"))


def test_categories_by_number():
    rows, y = draw_rows()[FEATURES], make_y("number")
    types = ["q"] * 4 + ["c"]
    matrix = xgboost.DMatrix(rows[:N_TRAIN].to_numpy(), y[:N_TRAIN], feature_types=types, enable_categorical=True)
    booster = xgboost.train({"max_depth": 4}, matrix, 10)
    table = rows.assign(y=y, kind=rows["kind"].map("k{:.0f}".format).astype("category"))[N_TRAIN:].sort_values("kind")
    frame = cut(table, [100, 200, 300])
    expected = tw.importance(booster, table[FEATURES], table["y"], rows="heldout")
    assert_same(tw.importance(booster, frame, "y", rows="heldout"), expected)
    frame = frame.assign(kind=frame["kind"].astype(str).astype("category"))
    with pytest.raises(ValueError, match=r"^column 'kind'.*categories"):
        tw.importance(booster, frame, "y", rows="heldout")
    assert_same(tw.importance(booster, frame.categorize(columns=["kind"]), "y", rows="heldout"), expected)


def test_labels_of_text(client):
    X, y = draw_rows()[FEATURES], np.array(["low", "mid", "high"])[make_y("classes")]
    model = RandomForestClassifier(5, random_state=0).fit(X[:N_TRAIN], y[:N_TRAIN])
    table = X.assign(y=y)[N_TRAIN:]
    result = tw.importance(model, cut(table, [100]), "y", rows="heldout")
    assert_same(result, tw.importance(model, table[FEATURES], table["y"], rows="heldout"))


def split_rows(kind):
    table = draw_rows()[FEATURES].assign(y=make_y(kind))
    train = dd.from_pandas(table[:N_TRAIN], npartitions=4)
    return train[FEATURES], train["y"], table[N_TRAIN:]


def test_models_of_xgboost(client):
    X, y, heldout = split_rows("number")
    trained = xgboost.dask.train(client, {"max_depth": 3}, xgboost.dask.DaskDMatrix(client, X, y), num_boost_round=10)
    expected = tw.importance(trained["booster"], heldout[FEATURES], heldout["y"], rows="heldout")
    assert_same(tw.importance(trained, cut(heldout, CUTS), "y", rows="heldout"), expected)

    X, y, heldout = split_rows("classes")
    classifier = xgboost.dask.DaskXGBClassifier(n_estimators=5, max_depth=3)
    classifier.client = client
    classifier.fit(X, y)
    expected = tw.importance(classifier.get_booster(), heldout[FEATURES], heldout["y"], rows="heldout")
    assert_same(tw.importance(classifier, cut(heldout, CUTS), "y", rows="heldout"), expected)


@pytest.mark.filterwarnings("ignore:Parameter n_jobs will be ignored:UserWarning")
@pytest.mark.parametrize(
    ("kind", "estimator"), [("number", lightgbm.DaskLGBMRegressor), ("classes", lightgbm.DaskLGBMClassifier)]
)
def test_models_of_lightgbm(kind, estimator, client):
    X, y, heldout = split_rows(kind)
    model = estimator(**QUIET, client=client).fit(X, y)
    expected = tw.importance(model.to_local(), heldout[FEATURES], heldout["y"], rows="heldout")
    assert_same(tw.importance(model, cut(heldout, CUTS), "y", rows="heldout"), expected)
    assert_same(tw.importance(model.to_local(), cut(heldout, CUTS), "y", rows="heldout"), expected)


def test_workers_die(client, tmp_path):
    model, X, y = build("forest of numbers")
    folder = str(tmp_path)

    def die_twice(table):
        """In the middle of the first pass, and later."""
        with open(f"{folder}/calls", "a+") as calls:
            calls.write(f"{os.getpid()}\n")
            calls.seek(0)
            n_calls = len(calls.readlines())
        for number, when in enumerate((5, 18)):
            if n_calls >= when and not os.path.exists(f"{folder}/{number}"):
                with open(f"{folder}/{number}", "w") as dead:
                    dead.write(str(os.getpid()))
                os.kill(os.getpid(), signal.SIGKILL)
        return table

    before = set(client.run(os.getpid).values())
    frame = cut(make_table(X, y)[0], range(50, 500, 50))
    frame = frame.map_partitions(die_twice, meta=frame._meta)
    result = tw.importance(model, frame, "y", rows="heldout")
    dead = [int((tmp_path / name).read_text()) for name in "01"]
    assert len(set(dead)) == 2
    assert dead[0] in before
    assert_same(result, tw.importance(model, X, y, rows="heldout"))


def test_a_model_is_in_the_graph_once():
    X, y = draw_rows()[FEATURES], make_y("number")
    model = RandomForestRegressor(50, random_state=0).fit(X[:N_TRAIN], y[:N_TRAIN])
    table = X.assign(y=y)[N_TRAIN:]
    size = len(pickle.dumps(model))

    def measure(n_partitions):
        graphs = []
        with Callback(start=graphs.append):
            tw.importance(model, dd.from_pandas(table, npartitions=n_partitions), "y", rows="heldout")
        assert len(graphs) == 2  # sums, and then errors
        return [sum(len(cloudpickle.dumps(task)) for task in graph.values()) for graph in graphs]

    few, many = measure(2), measure(20)
    for less, more in zip(few, many, strict=True):
        assert size < less < 3 * size
        assert more - less < size / 10


def test_what_moves_does_not_grow_with_rows():
    model, X, y = build("xgboost")
    empty, sizes = tw.ImportanceAccumulator(model, n_sample=0), []
    for n_times in (1, 20):
        filled = copy(empty).update(pd.concat([X] * n_times), np.tile(y, n_times))
        sizes.append(len(pickle.dumps(filled.without_model())))
    assert abs(sizes[1] - sizes[0]) < 100


def score(frame, y="y", **options):
    return tw.importance(build("forest of numbers")[0], frame, y, **{"rows": "heldout", **options})


def make_frame(change=lambda table: table):
    _, X, y = build("forest of numbers")
    return cut(change(make_table(X, y)[0]), [100, 200, 300])


def test_bad_values_name_the_partition(scheduler):
    def lose(table):
        table.loc[250, "y"] = np.nan
        return table

    with pytest.raises(ValueError, match=r"^partition 2: y\b.*NaN"):
        score(make_frame(lose))


def test_another_type_in_a_partition(scheduler):
    frame = make_frame()

    def change(table):
        return table.assign(b=table["b"].astype(str)) if table.index[0] == 200 else table

    message = r"^partition 2: .*'b'.*(str|object|string).*float64"
    with pytest.raises(ValueError, match=message):
        score(frame.map_partitions(change, meta=frame._meta))


def test_a_column_is_missing_in_a_partition(scheduler):
    frame = make_frame()

    def change(table):
        return table.drop(columns="b") if table.index[0] == 200 else table

    with pytest.raises(ValueError, match=r"(?s)do not match the columns in the provided metadata.*Missing: .*'b'"):
        score(frame.map_partitions(change, meta=frame._meta))  # as the Dask error suggests


def test_bad_input():
    frame = make_frame()
    with pytest.raises(ValueError, match=r"^X\b.*RandomForestRegressor.*\ba\b"):
        score(frame.drop(columns="a"))
    with pytest.raises(ValueError, match=r"^y\b.*'z'"):
        score(frame, "z")
    with pytest.raises(ValueError, match=r"sample_weight.*'z'"):
        score(frame, sample_weight="z")
    with pytest.raises(ValueError, match=r"^X\b.*row"):
        score(frame[frame["a"] > 1e9])
    with pytest.raises(ValueError, match=r"^sample_weight.*zero"):
        score(frame.assign(w=0.0), sample_weight="w")
    with pytest.raises(ValueError, match=r"^partition \d: sample_weight.*negative"):
        score(frame.assign(w=-1.0), sample_weight="w")
    with pytest.raises(TypeError, match=r"^y\b.*Series.*Array.*ndarray"):
        score(frame[FEATURES], np.zeros(500))
    with pytest.raises(ValueError, match=r"^y\b.*partition.*\bX\b.*\b4\b.*\b2\b"):
        score(frame[FEATURES], frame["y"].repartition(npartitions=2))
    with pytest.raises(ValueError, match=r"^rows.*'heldout'.*'auto'"):
        score(frame, rows="auto")
    with pytest.raises(TypeError, match=r"^X\b.*DataFrame.*Array.*Series"):
        score(frame["a"])


def test_arrays_that_do_not_match():
    model, X, y = fit_arrays()
    with pytest.raises(ValueError, match=r"^X and y\b.*\b500\b.*\b499\b"):
        tw.importance(model, da.from_array(X), da.from_array(y[1:]), rows="heldout")
    with pytest.raises(ValueError, match=r"^partition 0: X\b.*\b5 columns"):
        tw.importance(model, da.from_array(X[:, 1:]), da.from_array(y), rows="heldout")


def test_scores_by_class_take_a_table():
    with pytest.raises(ValueError, match=r"per_class=True.*\bX\b.*DataFrame"):
        score(make_frame(), per_class=True)


def test_series_of_other_rows():
    frame = make_frame()
    with pytest.raises(ValueError, match=r"^partition [01]: X and y\b.*\b100\b"):
        score(frame[FEATURES], cut(frame.compute(), [99, 200, 300])["y"])


def test_training_rows_are_refused():
    X, y = draw_rows()[FEATURES][:N_TRAIN], make_y("number")[:N_TRAIN]
    model = RandomForestRegressor(8, bootstrap=False, max_features=0.5, random_state=0).fit(X, y)
    with pytest.raises(TrainingRowsError):
        tw.importance(model, cut(X.assign(y=y), [100]), "y", rows="heldout")
