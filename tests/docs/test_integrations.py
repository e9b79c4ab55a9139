"""The lines that docs/howto/integrations.md shows, run with the libraries themselves."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor

import truewood as tw

pytestmark = pytest.mark.any_engine

DOCUMENT = (Path(__file__).parents[2] / "docs" / "howto" / "integrations.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((200, 3)), columns=["a", "b", "c"])
    y = X["a"] + 0.1 * rng.standard_normal(200)
    return RandomForestRegressor(10, random_state=0).fit(X[:120], y[:120]), X, y


def run_lines(heading, **names):
    """Run all lines of Python below a heading of the document."""
    part = DOCUMENT.partition(f"## {heading}")[2].partition("\n## ")[0]
    blocks = re.findall(r"```python\n(.*?)```", part, re.DOTALL)
    assert blocks
    for block in blocks:
        exec(block, names)
    return names


def test_the_lines_about_displays(fitted):
    from matplotlib.figure import Figure

    forest, X, y = fitted
    ax = Figure().subplots()
    result = tw.importance(forest, X[:120], y[:120])
    display = run_lines("A display", tw=tw, forest=forest, X=X[:120], y=y[:120], result=result, ax=ax)["display"]
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert display.result is result


def test_a_display_passes_options_on(fitted):
    forest, X, y = fitted
    display = tw.ImportanceDisplay.from_estimator(forest, X[120:], y[120:], rows="heldout", kind="box", top=2)
    assert display.result.rows == "heldout"
    assert len(display.ax_.get_yticklabels()) == 2
    first = display.ax_
    assert display.plot() is display
    assert display.ax_ is not first
    with pytest.raises(TypeError, match=r"ImportanceResult.*DataFrame"):
        tw.ImportanceDisplay.from_result(X)


def test_the_lines_about_mlflow(fitted, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow = pytest.importorskip("mlflow")
    forest, X, y = fitted
    result = tw.importance(forest, X[:120], y[:120])
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    with mlflow.start_run() as run:
        run_lines("MLflow", mlflow=mlflow, result=result)
        result.save(tmp_path / "importance.json")
        mlflow.log_artifact(tmp_path / "importance.json")
    logged = mlflow.get_run(run.info.run_id)
    assert logged.data.metrics["total_p_value"] == result.total_p_value
    assert logged.data.metrics["importance/a"] == result.values[0]
    folder = Path(mlflow.artifacts.download_artifacts(run_id=run.info.run_id, dst_path=tmp_path / "copy"))
    assert pd.read_csv(folder / "importance.csv")["feature"].tolist() == result.frame()["feature"].tolist()
    assert (folder / "importance.png").stat().st_size > 5000
    np.testing.assert_array_equal(tw.load(folder / "importance.json").values, result.values)


def test_the_lines_about_skore(fitted):
    pytest.importorskip("skore")
    _, X, y = fitted
    names = run_lines("skore", tw=tw, X=X, y=y)
    summary = names["report"].checks.summarize(fast_mode=True).frame().set_index("code")
    assert summary.loc["TRUEWOOD", "section"] == "passed"
    assert names["result"].order[0] == 0
    report = names["report"]
    assert tw.importance(report.estimator_, report.X_train, report.y_train).rows == "oob"
