"""Collect the tests where every fit of a tree model is an error: `python tests/refuse_fits.py [folder ...]`."""

from __future__ import annotations

import importlib
import sys
from importlib.util import find_spec

import pytest

# Where the libraries' models are fit, whatever estimator it is done through.
FITS = [
    "sklearn.ensemble._bagging:BaseBagging.fit",
    "sklearn.ensemble._forest:BaseForest.fit",
    "sklearn.ensemble._gb:BaseGradientBoosting.fit",
    "sklearn.ensemble._hist_gradient_boosting.gradient_boosting:BaseHistGradientBoosting.fit",
    "sklearn.ensemble._weight_boosting:BaseWeightBoosting.fit",
    "sklearn.tree._classes:BaseDecisionTree._fit",
    "catboost:CatBoost._fit",
    "econml.grf._base_grf:BaseGRF.fit",
    "lightgbm:Booster.update",
    "ngboost.ngboost:NGBoost.fit",
    "sksurv.ensemble.boosting:GradientBoostingSurvivalAnalysis.fit",
    "sksurv.ensemble.forest:_BaseSurvivalForest.fit",
    "xgboost:Booster.update",
]


def refuse_fits() -> None:
    for place in FITS:
        module, path = place.split(":")
        if find_spec(module.partition(".")[0]) is None:
            continue
        owner, name = path.split(".")
        kind = getattr(importlib.import_module(module), owner)
        getattr(kind, name)  # an error where a new release has moved it
        setattr(kind, name, refuse)


def refuse(model, *_arguments, **_options):
    raise RuntimeError(f"{type(model).__name__} is fit while tests are collected; fit it in a fixture")


if __name__ == "__main__":
    refuse_fits()
    sys.exit(pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", *sys.argv[1:]]))
