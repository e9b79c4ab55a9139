"""`truewood importance` on a folder or glob of Parquet files, with a saved model."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xgboost

import truewood as tw
from helpers.messages import find_lacking
from helpers.streaming_models import FEATURES, build, get_weight, write_folder

pytestmark = [pytest.mark.any_engine, pytest.mark.usefixtures("no_sandbox")]

OPTIONS = ["--target", "y", "--model-file", "./m.ubj"]


@pytest.fixture
def folder(tmp_path):
    """A model, and a folder of rows that it has not seen."""
    return write_folder(tmp_path, [200, 200])


@pytest.mark.parametrize("data", ["rows", "rows/*.parquet"])
def test_a_folder_gives_what_its_rows_give(data, folder, call):
    model, X, y = build("xgboost")
    path = folder / "m.ubj"
    output = folder / "scores.json"
    arguments = ["--target", "y", "--sample-weight", "w", "--model-file", path, "--output", output]
    shown, stderr = call(folder / data, *arguments)
    expected = tw.importance(model, X, y, rows="heldout", sample_weight=get_weight())
    result = tw.load(output)
    np.testing.assert_allclose(result.values, expected.values, rtol=1e-10, atol=1e-10 * expected.values.max())
    np.testing.assert_allclose(result.std_error, expected.std_error, rtol=1e-10)
    assert shown["n_rows"] == 500
    assert shown["performance"] is None
    assert [column["name"] for column in shown["columns"]] == FEATURES
    assert not find_lacking(*shown["notes"], "500 rows")
    assert "500 rows in batches" in stderr
    assert shown["warnings"] == []


def test_classes_and_a_report(folder, call):
    model, X, y = build("xgboost, labels")
    model.save_model(folder / "m.ubj")
    pq.write_table(pa.Table.from_pandas(X.assign(y=y)), folder / "rows" / "0.parquet")
    for other in ("1", "2"):
        (folder / "rows" / f"{other}.parquet").unlink()
    output = folder / "report.html"
    shown, _ = call(folder / "rows", "--target", "y", "--model-file", folder / "m.ubj", "--output", output)
    expected = tw.importance(model, X, y, rows="heldout")
    assert shown["task"] == "classification"
    np.testing.assert_allclose(
        [row["importance"] for row in shown["features"]], np.sort(expected.values)[::-1], rtol=1e-9, atol=1e-12
    )
    assert output.stat().st_size > 10_000


def test_a_loss_that_takes_a_pass_of_its_own(folder, call):
    model, X, y = build("xgboost, absolute")
    model.save_model(folder / "m.ubj")
    shown, _ = call(folder / "rows", "--target", "y", "--model-file", folder / "m.ubj")
    expected = tw.importance(model, X, y, rows="heldout").values
    np.testing.assert_allclose(
        [row["importance"] for row in shown["features"]], np.sort(expected)[::-1], rtol=1e-9, atol=1e-12
    )


def test_what_cannot_be_used(folder, refuse):
    refuse(["./rows", "--target", "y"], ["folder"])
    refuse(["./rows", "--target", "z", *OPTIONS[2:]], ["--target: ", "'z'"])
    refuse(["./rows/x*.parquet", *OPTIONS], ["x*.parquet"])
    refuse(["./rows", *OPTIONS, "--measure", "permutation"], ["permutation"])
    refuse(["./rows", *OPTIONS, "--backend", "cloud"], ["--backend: ", "'cloud'"])
    (folder / "rows" / "1.parquet").write_bytes(b"PAR1")
    refuse(["./rows", *OPTIONS], ["1.parquet"])


def test_a_bad_row_names_the_file(folder, refuse):
    table = pq.read_table(folder / "rows" / "2.parquet").to_pandas()
    table.loc[5, "y"] = np.nan
    pq.write_table(pa.Table.from_pandas(table), folder / "rows" / "2.parquet")
    refuse(["./rows", *OPTIONS], ["--target: ", "2.parquet: ", "'y'", "'nan'"])


def test_training_rows(folder, refuse):
    _, X, y = build("xgboost")
    model = xgboost.XGBRegressor(n_estimators=5).fit(X, y)
    model.save_model(folder / "m.ubj")
    refuse(["./rows", *OPTIONS], ["table", "training rows"])


@pytest.mark.parametrize("backend", ["local", "dask", "spark"])
@pytest.mark.parametrize("option", ["--contributions", "--group-correlated"])
def test_what_needs_all_rows_at_once_is_refused(option, backend, folder, refuse):
    arguments = ["./rows", *OPTIONS, option, "--backend", backend]
    assert f"{option}: " in refuse(arguments, ["parts", "one file"])
