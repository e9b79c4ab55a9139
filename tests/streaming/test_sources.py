"""Rows from files, lazy frames and streams: the same as from a table in memory, and one clear error for what is bad."""

from __future__ import annotations

import re
from itertools import pairwise

import duckdb
import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import xgboost
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import truewood as tw
from helpers.messages import find_lacking
from helpers.streaming_models import FEATURES, assert_same, build, draw_rows, get_weight

pytestmark = pytest.mark.any_engine

CUTS = [0, 100, 100, 499, 500]


def make_table(name):
    model, X, y = build(name)
    columns = {f"y{k}": column for k, column in enumerate(y.T)} if y.ndim == 2 else {"y": y}
    return model, X.assign(other="text", w=get_weight(), **columns)[["w", "kind", *columns, *FEATURES[:4], "other"]]


@pytest.fixture
def write(tmp_path):
    """Write parts of a table as files of a folder: one is empty, and row groups are small."""

    def write_files(table, ending="parquet"):
        for number, (start, stop) in enumerate(pairwise(CUTS)):
            part = pa.Table.from_pandas(table[start:stop], preserve_index=False)
            path = tmp_path / f"{number}.{ending}"
            if ending == "parquet":
                pq.write_table(part, path, row_group_size=60)
            else:
                pa.feather.write_feather(part, path, compression="lz4", chunksize=70)
        return tmp_path

    return write_files


class Stream:
    """What gives an Arrow stream, once."""

    def __init__(self, table):
        self._reader = pa.Table.from_pandas(table, preserve_index=False).to_reader(max_chunksize=77)

    def __arrow_c_stream__(self, requested_schema=None):
        return self._reader.__arrow_c_stream__(requested_schema)


SOURCES = {
    "folder": lambda table, write: write(table),
    "folder as text": lambda table, write: str(write(table)),
    "glob": lambda table, write: f"{write(table)}/**/*.parquet",
    "file": lambda table, write: (
        (write(table), pq.write_table(pa.Table.from_pandas(table), write(table) / "all.pq"))[0] / "all.pq"
    ),
    "list": lambda table, write: sorted(write(table).glob("*.parquet")),
    "arrow files": lambda table, write: write(table, "arrow"),
    "dataset": lambda table, write: ds.dataset(write(table)),
    "dataset in memory": lambda table, _write: ds.dataset(pa.Table.from_pandas(table)),
    "polars": lambda table, _write: pl.from_pandas(table).lazy(),
    "polars scan": lambda table, write: pl.scan_parquet(write(table) / "*.parquet"),
    "duckdb": lambda table, write: duckdb.connect().sql(f"select * from '{write(table)}/*.parquet'"),
    "reader": lambda table, _write: pa.Table.from_pandas(table).to_reader(max_chunksize=90),
    "stream": lambda table, _write: Stream(table),
}


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("name", ["forest of classes", "xgboost", "pipeline"])
def test_every_source_gives_what_a_table_gives(name, kind, write):
    model, table = make_table(name)
    _, X, y = build(name)
    expected = tw.importance(model, X, y, rows="heldout", sample_weight=get_weight())
    source = SOURCES[kind](table, write)
    assert_same(tw.importance(model, source, "y", rows="heldout", sample_weight="w", n_jobs=2), expected)


@pytest.mark.parametrize("kind", ["folder", "polars", "duckdb", "dataset"])
@pytest.mark.parametrize(
    "name", ["lightgbm, quantile", "gradient boosting, huber", "hist, gamma", "transformed target"]
)
def test_losses_that_take_a_pass_of_their_own(name, kind, write):
    model, table = make_table(name)
    _, X, y = build(name)
    expected = tw.importance(model, X, y, rows="heldout")
    assert_same(tw.importance(model, SOURCES[kind](table, write), "y", rows="heldout"), expected)


def test_several_targets(write):
    model, table = make_table("forest of two numbers")
    _, X, y = build("forest of two numbers")
    result = tw.importance(model, write(table), ["y0", "y1"], rows="heldout")
    assert_same(result, tw.importance(model, X, y, rows="heldout"))


def test_what_is_read_once_has_errors_from_a_sample(monkeypatch):
    monkeypatch.setattr("truewood._streaming.passes.N_SAMPLE", 400)
    model, table = make_table("xgboost")
    _, X, y = build("xgboost")
    expected = tw.importance(model, X, y, rows="heldout")
    sampled = tw.importance(model, Stream(table), "y", rows="heldout")
    assert_same(sampled, expected, errors=None)
    assert not find_lacking(*sampled.notes, "400 rows", "500")
    exact = tw.importance(model, pl.from_pandas(table).lazy(), "y", rows="heldout")
    assert_same(exact, expected)
    without = tw.importance(model, Stream(table), "y", rows="heldout", inference=False)
    assert "inference=False" in without.inference_unavailable


def test_models_without_names_take_all_columns(write):
    _, X, y = build("forest of numbers")
    rows = draw_rows()
    model = RandomForestRegressor(5, random_state=0).fit(rows[FEATURES].to_numpy()[:300], y[:300])
    folder = write(X.assign(y=y))
    result = tw.importance(model, folder, "y", rows="heldout")
    expected = tw.importance(model, X, y, rows="heldout")
    assert_same(result, expected)
    assert result.feature_names.tolist() == FEATURES
    with pytest.raises(ValueError, match=r"^X\b.*\b5 columns\b.*RandomForestRegressor.*\b6\b"):
        tw.importance(model, write(X.assign(y=y, more=1.0)), "y", rows="heldout")


def test_categories_of_frames(write):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=900), "kind": pd.Categorical(rng.choice(["x", "y", "z"], 900))})
    y = X["a"] + (X["kind"] == "y") + rng.normal(size=900)
    model = lightgbm.LGBMRegressor(n_estimators=10, verbose=-1).fit(X[:400], y[:400])
    X, y = X[400:].reset_index(drop=True), y[400:].to_numpy()
    # Files whose levels differ, as each was written for itself.
    folder = write(X.assign(kind=X["kind"].astype(str).astype("category"), y=y))
    assert_same(tw.importance(model, folder, "y", rows="heldout"), tw.importance(model, X, y, rows="heldout"))


def test_labels_of_classes_in_a_column_of_categories(write):
    _, X, y = build("forest of classes")
    labels = np.array(["low", "middle", "high"])[y]
    model = RandomForestClassifier(5, random_state=0).fit(X[:200], labels[:200])
    X, labels = X[200:].reset_index(drop=True), labels[200:]
    expected = tw.importance(model, X, labels, rows="heldout")
    table = pa.Table.from_pandas(X.assign(y=pd.Categorical(labels)))
    for source in (table, ds.dataset(table), pl.from_arrow(table), pl.from_arrow(table).lazy()):
        assert_same(tw.importance(model, source, "y", rows="heldout"), expected)
    missing = X.assign(y=pd.Categorical(np.where(np.arange(len(X)) == 7, None, labels)))
    for source in (missing, pa.Table.from_pandas(missing), ds.dataset(pa.Table.from_pandas(missing))):
        with pytest.raises(ValueError, match=r"^y\b.*(nan|None)"):
            tw.importance(model, source, "y", rows="heldout")


def test_numbers_of_other_types_and_columns_of_nulls_are_read(write):
    model, table = make_table("xgboost")
    _, X, y = build("xgboost")
    folder = write(table)
    part = pa.Table.from_pandas(table[:100], preserve_index=False)
    part = part.set_column(part.schema.get_field_index("kind"), "kind", part["kind"].cast(pa.int8()))
    part = part.set_column(part.schema.get_field_index("d"), "d", pa.nulls(100))
    pq.write_table(part, folder / "0.parquet")
    expected = tw.importance(model, X.assign(d=X["d"].where(X.index >= 100)), y, rows="heldout")
    assert_same(tw.importance(model, folder, "y", rows="heldout"), expected)


def test_only_what_is_needed_is_read(write):
    model, table = make_table("xgboost")
    folder = write(table.assign(other=[[1]] * len(table)))  # no library here takes lists for numbers
    assert tw.importance(model, folder, "y", rows="heldout").n_rows == 500


# What is done to a folder of good files, and the error message.
BAD_FILES = {
    "a column is missing": (
        lambda folder: pq.write_table(pq.read_table(folder / "2.parquet").drop(["b"]), folder / "2.parquet"),
        r"2\.parquet must have exactly one column 'b'",
    ),
    "the target is missing": (
        lambda folder: pq.write_table(pq.read_table(folder / "2.parquet").drop(["y"]), folder / "2.parquet"),
        r"2\.parquet must have exactly one column 'y'",
    ),
    "another type": (
        lambda folder: _change(folder / "3.parquet", "a", lambda a: a.cast(pa.string())),
        r"column 'a' is string in \S*3\.parquet, but double in \S*0\.parquet",
    ),
    "NaN in y": (
        lambda folder: _change(folder / "2.parquet", "y", lambda y: pa.array([*y.to_pylist()[1:], float("nan")])),
        r"2\.parquet: y\b.*NaN",
    ),
    "null in y": (
        lambda folder: _change(folder / "2.parquet", "y", lambda y: pa.array([*y.to_pylist()[1:], None])),
        r"2\.parquet: y\b.*NaN",
    ),
    "negative weights": (
        lambda folder: _change(folder / "3.parquet", "w", lambda w: pa.array([-1.0] * len(w))),
        r"3\.parquet: sample_weight\b.*negative",
    ),
    "truncated": (
        lambda folder: (folder / "2.parquet").write_bytes((folder / "2.parquet").read_bytes()[:-200]),
        r"2\.parquet\b",
    ),
    "damaged within": (
        lambda folder: _damage(folder / "2.parquet"),
        r"2\.parquet",
    ),
    "no rows": (
        lambda folder: [pq.write_table(pq.read_table(path)[:0], path) for path in folder.glob("*.parquet")],
        r"^X\b.*row",
    ),
}


def _change(path, name, change):
    table = pq.read_table(path)
    pq.write_table(
        table.set_column(table.schema.get_field_index(name), name, change(table[name].combine_chunks())), path
    )


def _damage(path):
    """Overwrite the pages, and leave the footer as it is."""
    content = bytearray(path.read_bytes())
    content[4 : len(content) // 2] = b"\xff" * (len(content) // 2 - 4)
    path.write_bytes(content)


@pytest.mark.parametrize("case", BAD_FILES)
@pytest.mark.parametrize("name", ["xgboost", "lightgbm, quantile"])
def test_a_bad_file_is_one_error_that_names_it(case, name, write):
    spoil, message = BAD_FILES[case]
    model, table = make_table(name)
    folder = write(table)
    spoil(folder)
    with pytest.raises(ValueError, match=message) as caught:
        tw.importance(model, folder, "y", rows="heldout", sample_weight="w")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("what", ["vanishes", "changes", "is truncated"])
@pytest.mark.parametrize("which", [1, 2])  # the pass in which that happens
def test_a_file_that_goes_away_in_the_middle(what, which, write, monkeypatch):
    from truewood._streaming import arrow_files

    model, table = make_table("xgboost")
    folder = write(table)
    victim, read, n_reads = folder / "2.parquet", arrow_files._File.read, []

    def spoil_then_read(file, *arguments):
        n_reads.append(file.path)
        if n_reads.count(str(folder / "0.parquet")) == which and file.path.endswith("0.parquet"):
            match what:
                case "vanishes":
                    victim.unlink()
                case "changes":
                    pq.write_table(pq.read_table(victim)[:50], victim)
                case "is truncated":
                    victim.write_bytes(victim.read_bytes()[:300])
        return read(file, *arguments)

    monkeypatch.setattr(arrow_files._File, "read", spoil_then_read)
    with pytest.raises(ValueError, match=r"2\.parquet"):
        tw.importance(model, folder, "y", rows="heldout")
    assert n_reads.count(str(folder / "0.parquet")) == which


@pytest.mark.parametrize("kind", ["dataset", "polars scan", "duckdb"])
@pytest.mark.parametrize("case", ["a column is missing", "truncated"])
def test_bad_files_of_other_libraries(case, kind, write):
    spoil, _ = BAD_FILES[case]
    model, table = make_table("xgboost")
    source = SOURCES[kind](table, write)
    folder = write(table)
    spoil(folder)
    if kind != "duckdb":  # which looks at files when a relation is made
        source = SOURCES[kind](table, lambda _table: folder)
    # polars does not name the file.
    message = r"^X\b.*polars.*(column b|PAR1)" if kind == "polars scan" else r"2\.parquet"
    with pytest.raises(ValueError, match=message):
        tw.importance(model, source, "y", rows="heldout", sample_weight="w")


def test_rows_that_differ_from_pass_to_pass():
    class Changing:
        n_calls = 0

    def shrink(frame):
        Changing.n_calls += 1
        return frame[: 500 - Changing.n_calls]

    model, table = make_table("xgboost")
    frame = pl.from_pandas(table).lazy().map_batches(shrink, schema=None)
    with pytest.raises(ValueError, match=r"\bX\b.*49\d.*49\d"):
        tw.importance(model, frame, "y", rows="heldout")


BAD_CALLS = {
    "classes": ({"per_class": True}, ValueError, r"per_class=True\b.*\bX\b"),
    "rows": ({"rows": "auto"}, ValueError, r"rows\b.*'heldout'.*\bX\b"),
    "row lists": ({"rows": [[1]]}, ValueError, r"rows\b.*'heldout'.*lists"),
    "inference": ({"inference": "bags"}, ValueError, r"inference\b.*\bX\b"),
    "permutation": ({"measure": "permutation"}, ValueError, "measure='permutation'"),
    "measure": ({"measure": "no"}, ValueError, r"measure\b"),
    "weights": ({"sample_weight": np.ones(500)}, TypeError, r"sample_weight\b.*column"),
    "unknown weights": (
        {"sample_weight": "v"},
        ValueError,
        r"sample_weight\b.*'v'",
    ),
    "feature_groups": (
        {"feature_groups": {"a": ["z"]}},
        ValueError,
        r"\S*0.parquet: feature_groups\b.*\bX\b",
    ),
    "target": ({"target": np.ones(500)}, TypeError, r"target\b.*function"),
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_bad_calls(case, write):
    options, kind, message = BAD_CALLS[case]
    model, table = make_table("xgboost")
    with pytest.raises(kind, match=f"^{message}"):
        tw.importance(model, write(table), "y", **{"rows": "heldout", **options})


def test_bad_targets_and_columns(write):
    model, table = make_table("xgboost")
    folder = write(table)
    with pytest.raises(TypeError, match=r"^y\b.*column.*\bX\b.*ndarray"):
        tw.importance(model, folder, np.ones(500), rows="heldout")
    with pytest.raises(ValueError, match=r"^y\b.*'z'.*w, kind, y"):
        tw.importance(model, folder, "z", rows="heldout")
    with pytest.raises(ValueError, match=r"^X\b.*XGBRegressor.*\ba\b"):
        tw.importance(model, folder, "a", rows="heldout")


def test_bad_paths(tmp_path):
    model, _, _ = build("xgboost")
    (tmp_path / "_hidden.parquet").write_bytes(b"")
    (tmp_path / "table.csv").write_text("a,b\n")
    for path, message in {
        tmp_path: f"{tmp_path}",
        tmp_path / "none.parquet": "none.parquet",
        f"{tmp_path}/*.parquet": "_hidden.parquet",
        f"{tmp_path}/z*.parquet": "z*.parquet",
        tmp_path / "table.csv": "table.csv",
    }.items():
        with pytest.raises(ValueError, match=re.escape(message)):
            tw.importance(model, path, "y", rows="heldout")
    quantile, table = make_table("lightgbm, quantile")
    with pytest.raises(ValueError, match=r"\bX\b.*once"):
        tw.importance(quantile, Stream(table), "y", rows="heldout")


def test_training_rows_are_refused(write):
    rows = draw_rows()[:500]
    table = rows[FEATURES].assign(y=rows["score"])
    model = RandomForestRegressor(10, random_state=0).fit(table[FEATURES], table["y"])
    with pytest.raises(ValueError, match="rows='heldout'"):
        tw.importance(model, write(table), "y", rows="heldout")


def test_steps_that_look_at_the_whole_table_are_refused(write):
    _, X, y = build("forest of numbers")
    steps = FunctionTransformer(lambda X: X.rank())
    model = make_pipeline(steps, RandomForestRegressor(3, random_state=0)).fit(X, y)
    with pytest.raises(ValueError, match=r"0\.parquet.*'functiontransformer'"):
        tw.importance(model, write(X.assign(y=y)), "y", rows="heldout")


@pytest.mark.parametrize("convert", [lambda table: table, pl.from_pandas, pa.Table.from_pandas])
def test_names_of_columns_of_frames_in_memory(convert):
    model, table = make_table("forest of numbers")
    _, X, y = build("forest of numbers")
    frame = convert(table[[*FEATURES, "w", "y"]])
    expected = tw.importance(model, X, y, rows="heldout", sample_weight=get_weight())
    assert_same(tw.importance(model, frame, "y", rows="heldout", sample_weight="w"), expected)
    with pytest.raises(ValueError, match=r"^y\b.*'z'.*\ba, b\b"):
        tw.importance(model, frame, "z", rows="heldout")
    with pytest.raises(ValueError, match=r"^y='y'.*\bX\b.*ndarray"):
        tw.importance(model, X.to_numpy(), "y", rows="heldout")


def test_out_of_bag_with_the_name_of_the_target():
    rows = draw_rows()[[*FEATURES, "score"]]
    model = RandomForestRegressor(10, random_state=0).fit(rows[FEATURES], rows["score"])
    expected = tw.importance(model, rows[FEATURES], rows["score"])
    np.testing.assert_array_equal(tw.importance(model, rows, "score").values, expected.values)


def test_categories_that_files_number_otherwise_are_refused(tmp_path):
    rng = np.random.default_rng(0)
    kind = pd.Categorical(rng.choice(list("abcd"), 600))
    table = pd.DataFrame({"kind": kind, "x": rng.normal(size=600), "y": kind.codes % 2 + rng.normal(size=600)})
    codes = table.assign(kind=kind.codes)[["kind", "x"]].to_numpy(dtype=np.float32)
    matrix = xgboost.DMatrix(codes[:300], table["y"][:300], feature_names=["kind", "x"], feature_types=["c", "q"])
    booster = xgboost.train({"max_depth": 3}, matrix, 5)
    table[300:450].to_parquet(tmp_path / "0.parquet")
    table[450:].to_parquet(tmp_path / "1.parquet")
    expected = tw.importance(booster, table[300:], "y", rows="heldout")
    np.testing.assert_allclose(
        tw.importance(booster, tmp_path, "y", rows="heldout").values, expected.values, rtol=1e-10
    )
    other = table[450:].assign(kind=kind[450:].reorder_categories(list("dcba")))
    other.to_parquet(tmp_path / "1.parquet")
    with pytest.raises(ValueError, match="categories"):
        tw.importance(booster, tmp_path, "y", rows="heldout")


def test_polars_that_breaks_down_is_no_result(tmp_path):
    model, X, y = build("hist")
    table = X.assign(y=y)
    for k in range(40):
        table.to_parquet(tmp_path / f"{k:02d}.parquet")
    frame = pl.scan_parquet(tmp_path / "*.parquet")
    frame.select("y").collect()
    with (tmp_path / "39.parquet").open("r+b") as file:
        file.truncate(file.seek(0, 2) // 2)
    with pytest.raises(ValueError, match=r"^X\b.*(polars|same rows)"):
        tw.importance(model, frame, "y", rows="heldout")


def test_folders_within_globs_and_endings_in_capitals_are_read(tmp_path):
    model, X, y = build("hist")
    table = X.assign(y=y)
    (tmp_path / "rows" / "b.parquet").mkdir(parents=True)
    table[:100].to_parquet(tmp_path / "rows" / "a.PARQUET")
    table[100:200].to_parquet(tmp_path / "rows" / "b.parquet" / "part-0.parquet")
    (tmp_path / "rows" / "c").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").mkdir()
    table[200:].to_parquet(tmp_path / "elsewhere" / "c.parquet")
    expected = tw.importance(model, table, "y", rows="heldout")
    assert_same(tw.importance(model, tmp_path / "rows", "y", rows="heldout"), expected)
    found = tw.importance(model, f"{tmp_path}/rows/*.[pP]*", "y", rows="heldout")
    assert found.n_rows == 200


def test_the_very_name_comes_before_another_spelling(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a_b": rng.normal(size=400), "c": rng.normal(size=400)})
    y = table["a_b"] + rng.normal(size=400)
    model = lightgbm.LGBMRegressor(n_estimators=10, verbose=-1).fit(table[:200], y[:200])
    path = tmp_path / "rows.parquet"
    table.assign(y=y, **{"a b": rng.normal(size=400)})[200:].to_parquet(path)
    expected = tw.importance(model, table[200:], y[200:], rows="heldout")
    assert_same(tw.importance(model, path, "y", rows="heldout"), expected)


def test_a_target_may_be_the_weight(tmp_path):
    model, X, y = build("hist")
    table = X.assign(y=np.abs(y))
    table.to_parquet(tmp_path / "rows.parquet")
    expected = tw.importance(model, table, "y", rows="heldout", sample_weight="y")
    assert_same(tw.importance(model, tmp_path / "rows.parquet", "y", rows="heldout", sample_weight="y"), expected)


def test_other_values_of_y_in_the_second_pass_are_noticed():
    class Changing:
        n_calls = 0

    def change(frame):
        Changing.n_calls += 1
        return frame.with_columns(y=pl.col("y") * Changing.n_calls)

    model, table = make_table("xgboost")
    frame = pl.from_pandas(table).lazy().map_batches(change, schema=None)
    with pytest.raises(ValueError, match=r"second pass.*\b500\b.*\by\b"):
        tw.importance(model, frame, "y", rows="heldout")


def change_from_pass_to_pass(change):
    """A lazy frame of polars whose second reading is another."""

    def open_table(table):
        n_calls = []

        def change_frame(frame):
            n_calls.append(1)
            return change(frame, len(n_calls))

        return pl.from_pandas(table).lazy().map_batches(change_frame, schema=None)

    return open_table


CHANGING = {
    "polars shuffle": lambda table: pl.from_pandas(table).lazy().with_columns(pl.col("a").shuffle()),
    "rows of X in another order": change_from_pass_to_pass(
        lambda frame, k: frame.with_columns(pl.col(FEATURES[:4]).sort_by(pl.int_range(k, len(frame) + k) % len(frame)))
    ),
    "zeros": change_from_pass_to_pass(lambda frame, k: frame.with_columns(pl.col(FEATURES[:4]) * (k < 2))),
    "duckdb random": lambda table: duckdb.from_df(table).project("* replace (a + random() as a)"),
}


@pytest.mark.parametrize("kind", CHANGING)
@pytest.mark.parametrize("name", ["forest of numbers", "xgboost"])
def test_other_values_of_x_in_the_second_pass_are_noticed(name, kind):
    model, table = make_table(name)
    with pytest.raises(ValueError, match=r"contributions.*'\w+'.*\bX\b.*same rows"):
        tw.importance(model, CHANGING[kind](table), "y", rows="heldout")


@pytest.mark.parametrize("name", ["forest of numbers", "xgboost"])
def test_errors_accumulated_from_other_rows_are_refused(name):
    model, X, y = build(name)
    second = tw.ImportanceAccumulator(model, n_sample=0).update(X, y).second_pass()
    moved = X.assign(a=np.roll(X["a"], 1))
    with pytest.raises(ValueError, match=r"contributions.*'\w+'.*\bX\b.*same rows"):
        second.update(moved, y).finish()


@pytest.mark.parametrize("n_sample", [-5, 10.5])
def test_samples_have_a_number_of_rows(n_sample):
    model, _, _ = build("hist")
    with pytest.raises(ValueError, match=r"^n_sample"):
        tw.ImportanceAccumulator(model, n_sample=n_sample)


def test_an_arrow_file_that_claims_a_huge_size_is_one_line(tmp_path):
    feather = pytest.importorskip("pyarrow.feather")
    x = np.arange(1000.0)
    forest = RandomForestRegressor(3, random_state=0).fit(x[:, np.newaxis], x)
    feather.write_feather(pd.DataFrame({"x": np.zeros(1000), "y": x + 0.5}), tmp_path / "a.arrow")
    content = (tmp_path / "a.arrow").read_bytes()
    size = (8000).to_bytes(8, "little")  # of a column before it was compressed
    assert size in content
    (tmp_path / "a.arrow").write_bytes(content.replace(size, (2**61).to_bytes(8, "little")))
    with pytest.raises(ValueError, match=r"a\.arrow.*\b2305843009213693952\b"):
        tw.importance(forest, tmp_path / "a.arrow", "y", rows="heldout")


@pytest.mark.parametrize(
    "score",
    [
        lambda model, X: tw.explain(model, X, "y", rows="heldout"),
        lambda model, X: tw.interactions(model, X, "y", rows="heldout"),
        lambda model, X: tw.cross_importance(model, X, "y"),
        lambda model, X: tw.cross_interactions(model, X, "y"),
        lambda model, X: tw.permutation_test(model, X, np.zeros(500)),
        lambda model, X: tw.UnbiasedSelector(model).fit(X, np.zeros(500)),
        lambda model, X: tw.ImportanceAccumulator(model).update(X, "y"),
    ],
)
def test_what_needs_all_rows_in_memory_refuses_other_sources(score, write):
    model, table = make_table("forest of numbers")
    for X, words in ((write(table), "path"), (pl.from_pandas(table).lazy(), "LazyFrame"), (Stream(table), "Stream")):
        with pytest.raises(TypeError, match=rf"memory\b.*\bX is a .*{words}; load"):
            score(model, X)
