"""A notebook with a real kernel: plots show pictures, results HTML views and charts, and nothing else is printed."""

from __future__ import annotations

import html
import json
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

SETUP = """
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
import truewood as tw

rng = np.random.default_rng(0)
X = pd.DataFrame(rng.standard_normal((150, 4)), columns=["a", "b", "<b>c</b>", "d"])
X["d"] = X["a"] + 0.05 * rng.standard_normal(150)
y = np.where(X["a"] + X["b"] > 0, "yes", "no")
forest = RandomForestClassifier(30, n_jobs=2, random_state=0)
fitted = forest.fit(X, y)
result = tw.importance(fitted, X, y, per_class=True, contributions=True, n_jobs=2)
shallow = RandomForestClassifier(30, max_depth=1, random_state=0).fit(X, y)
explanation = tw.explain(fitted, X, y)
comparison = tw.compare(result, tw.importance(shallow, X, y, contributions=True))
groups = tw.correlated_groups(X)
test = tw.permutation_test(forest, X, y, n_permutations=3, random_state=0)
folds = tw.cross_importance(forest, X, y, cv=3)
selector = tw.UnbiasedSelector(forest).fit(X, y)
pairs = tw.interactions(fitted, X, y, features=["a", "b", "<b>c</b>"])
"""
PLOTS = [
    *(f"result.plot({kind!r})" for kind in ("bar", "compare", "box", "rank", "classes")),
    "result.plot(explanation=explanation, title='Direction')",
    "folds.plot('box')",
    "explanation.plot()",
    "explanation.plot('dependence', feature='a')",
    "explanation.plot('waterfall', row=3)",
    "comparison.plot()",
    "groups.plot()",
    "test.plot()",
    *(f"pairs.plot({kind!r})" for kind in ("bar", "heatmap", "surface", "curves")),
    "tw.ImportanceDisplay.from_estimator(fitted, X, y)",
    "tw.ImportanceDisplay.from_result(result, kind='compare').figure_;",
    "figure, axes = plt.subplots(1, 2)\nresult.plot(ax=axes[0])\nexplanation.plot(ax=axes[1]);",
]
VIEWS = ["result", "folds", "explanation", "comparison", "groups", "test", "selector", "pairs"]
CHARTS = ["result", "folds", "explanation"]
VEGA = "application/vnd.vega.v5+json"
NO_CHARTS = ["result  # without altair", "explanation  # without altair"]
SILENT = [
    "result.report('report.html', X=X, feature_groups=groups)",
    "try:\n    tw.importance(fitted, X, y).plot('classes')\nexcept ValueError:\n    pass",
    "import sys\nsys.modules['altair'] = None  # cannot be imported",
]


def execute(notebook, folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MPLBACKEND", raising=False)  # the kernel sets its own
        for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "MPLCONFIGDIR"):
            patch.setenv(name, str(folder / name.lower()))
        NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """The cells of an executed notebook by their source."""
    folder = tmp_path_factory.mktemp("notebook")
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(source) for source in (SETUP, *PLOTS, *VIEWS, *SILENT, *NO_CHARTS)]
    execute(notebook, folder)
    nbformat.write(notebook, folder / "executed.ipynb")
    return {cell.source: cell.outputs for cell in notebook.cells}


def find_outputs(outputs, kind):
    return [output.data[kind] for output in outputs if "data" in output and kind in output.data]


def read_rows(spec):
    return next(source["values"] for source in spec["data"] if source["name"] == "features")


@pytest.mark.parametrize("source", PLOTS)
def test_every_plot_shows_one_picture(cells, source):
    (picture,) = find_outputs(cells[source], "image/png")
    assert len(picture) > 5000


@pytest.mark.parametrize("source", VIEWS)
def test_every_result_has_a_view(cells, source):
    (page,) = find_outputs(cells[source], "text/html")
    assert "<table" in page
    assert "<b>c</b>" not in page
    assert len(find_outputs(cells[source], "image/png")) == (source in CHARTS)


@pytest.mark.parametrize("source", CHARTS)
def test_results_show_their_chart_above_the_table(cells, source):
    chart, view = cells[source]
    assert set(chart.data) == {VEGA, "image/png"}
    assert set(view.data) == {"text/html", "text/plain"}
    rows = read_rows(chart.data[VEGA])
    assert {row["label"] for row in rows} == {"a", "b", "<b>c</b>", "d"}
    assert all(html.escape(row["label"]) in view.data["text/html"] for row in rows)


def test_tooltips_have_share_interval_and_adjusted_p_value(cells):
    spec = cells["result"][0].data[VEGA]
    updates = [mark["encode"]["update"] for mark in spec["marks"]]
    (tooltip,) = (update["tooltip"]["signal"] for update in updates if "tooltip" in update)
    for field in ("text_shown", "text_high", "text_adjusted_p_value"):
        assert field in tooltip
        assert all(row[field] for row in read_rows(spec))
    assert "http" not in json.dumps({name: part for name, part in spec.items() if name != "$schema"})


@pytest.mark.parametrize("source", NO_CHARTS)
def test_without_altair_results_show_only_the_table(cells, source):
    (output,) = cells[source]
    assert set(output.data) == {"text/html", "text/plain"}
    with_chart = cells[source.split()[0]][1]
    assert output.data == with_chart.data


@pytest.mark.parametrize("source", SILENT)
def test_pictures_of_the_library_itself_and_failed_plots_show_nothing(cells, source):
    assert not cells[source]


def test_nothing_is_printed(cells):
    assert [output for outputs in cells.values() for output in outputs if output.output_type == "stream"] == []


def test_the_example_runs(tmp_path):
    notebook = nbformat.read(Path(__file__).parent.parent / "examples" / "notebook.ipynb", as_version=4)
    execute(notebook, tmp_path)
    outputs = {cell.source.split("\n")[-1]: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}
    for source in ("result", "pairs"):
        assert "<table" in find_outputs(outputs[source], "text/html")[0]
    for source in outputs:
        assert bool(find_outputs(outputs[source], "image/png")) == (".plot(" in source or source == "result")
    assert not [output for found in outputs.values() for output in found if output.output_type in ("stream", "error")]
    assert (tmp_path / "report.html").stat().st_size > 100_000
