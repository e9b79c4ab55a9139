"""Trees of Spark ML: leaves, weights and values are Spark's own, from a session and from a saved folder."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'truewood[spark]'")

import truewood as tw
from contract import draw_odd_rows, route
from spark_models import CATEGORICAL, COLUMNS, MODELS, find_leaves, fit

# pyspark warns of new releases of pandas.
pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(params=MODELS)
def case(request):
    return request.param


@pytest.fixture
def saved(case, folders):
    """A model as Spark has saved it, read without Spark."""
    path = folders / case.replace(" ", "-")
    if not path.exists():
        fit(case).save(str(path))
    return tw.load_spark_model(path)


def draw_rows(ensemble):
    rows = draw_odd_rows(ensemble, len(COLUMNS), 3, categorical=CATEGORICAL)
    rows[:20, CATEGORICAL[0]] = 1.5  # between two categories
    rows[20:40, CATEGORICAL[1]] = -1.0
    return rows


def test_leaves_are_those_of_spark(case, saved, engine):
    model = fit(case)
    ensemble = tw.to_ensemble(model)
    rows = draw_rows(ensemble)
    own = find_leaves(model, rows)
    assert np.isnan(rows).any()
    for read in (model, saved):
        found = route(read, rows)
        is_leaf = ensemble.left < 0
        number = np.cumsum(is_leaf)
        first = number[ensemble.offset[:-1]] - is_leaf[ensemble.offset[:-1]]
        assert np.array_equal(number[found + ensemble.offset[:-1]] - 1 - first, own)
