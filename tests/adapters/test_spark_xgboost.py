"""XGBoost's models for Spark, read through their boosters."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'truewood[spark]'")
pytest.importorskip("xgboost", reason="XGBoost is not installed: pip install 'truewood[xgboost]'")

from pyspark.ml import Pipeline
from pyspark.ml.feature import VectorAssembler
from xgboost.spark import SparkXGBClassifier, SparkXGBRegressor

import truewood as tw
from helpers.contract import route
from helpers.spark_models import make_table, to_spark

pytestmark = [
    pytest.mark.slow,
    pytest.mark.cluster,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]
NUMBERS = ["x", "steps", "noise"]
SMALL = {"n_estimators": 5, "max_depth": 3, "num_workers": 1, "verbosity": 0}


@cache
def fit(name):
    frame = to_spark(make_table())
    assembler = VectorAssembler(inputCols=NUMBERS, outputCol="features", handleInvalid="keep")
    if name == "classes":
        return Pipeline(stages=[assembler, SparkXGBClassifier(label_col="label", **SMALL)]).fit(frame)
    if name == "columns":
        return SparkXGBRegressor(features_col=NUMBERS, label_col="number", **SMALL).fit(frame)
    return SparkXGBRegressor(label_col="number", missing=0.0, **SMALL).fit(assembler.transform(frame))


@pytest.mark.parametrize("name", ["classes", "columns", "missing zeros"])
def test_leaves_are_those_of_the_booster(name):
    import xgboost

    model = fit(name)
    model = model.stages[-1] if name == "classes" else model
    table = make_table(50, seed=1)[NUMBERS].astype(np.float32)
    missing = 0.0 if name == "missing zeros" else np.nan
    booster = model.get_booster()
    matrix = xgboost.DMatrix(table.to_numpy(), missing=missing, feature_names=booster.feature_names)
    assert np.array_equal(route(model, table.to_numpy()), booster.predict(matrix, pred_leaf=True))


def test_scores_of_heldout_rows():
    table = make_table(300, seed=1)
    result = tw.importance(fit("columns"), table[NUMBERS], table["number"], rows="heldout")
    assert result.feature_names.tolist() == NUMBERS
    assert result.values.argmax() == 0
    inner = tw.importance(fit("classes").stages[-1], table[NUMBERS].to_numpy(), table["label"], rows="heldout")
    outer = tw.importance(fit("classes"), table, table["label"], rows="heldout")
    np.testing.assert_array_equal(outer.values, inner.values)
    assert outer.feature_names.tolist() == NUMBERS
