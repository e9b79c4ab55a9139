"""XGBoost's Spark models (`xgboost.spark`), read through the equivalent scikit-learn wrapper."""

from __future__ import annotations

from typing import Any

from truewood.adapters._tree_model import TreeModel


def open_model(model: Any) -> TreeModel:
    """Read a fitted SparkXGBClassifierModel, SparkXGBRegressorModel or SparkXGBRankerModel."""
    from xgboost import XGBClassifier, XGBRegressor

    from truewood.adapters._xgboost import open_model as open_wrapper

    wrapper_class = XGBClassifier if type(model).__name__.startswith("SparkXGBClassifier") else XGBRegressor
    wrapper = wrapper_class(missing=model.getOrDefault("missing"))
    wrapper.load_model(model.get_booster().save_raw())
    return open_wrapper(wrapper)
