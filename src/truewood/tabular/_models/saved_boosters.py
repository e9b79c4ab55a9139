"""Saved models of XGBoost, LightGBM and CatBoost: loading them, and what they tell of their columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from truewood.tabular._errors import UnusableModelError
from truewood.tabular._models.saved_model import SavedModel

# CatBoost's losses whose scores are logarithms of what they predict.
_LOG_LINKS = ("Poisson", "Tweedie", "LogLinQuantile")


def load_xgboost(path: Path) -> SavedModel:
    """Load a model that XGBoost has saved, as the wrapper that saved it where that was one."""
    import xgboost

    booster = xgboost.Booster(model_file=path)
    saved = view_xgboost(booster)
    if "scikit_learn" not in booster.attributes():
        return saved
    wrapper = xgboost.XGBRegressor() if saved.classes is None else xgboost.XGBClassifier()
    wrapper.load_model(path)
    return replace(saved, model=wrapper, predict=partial(_predict_xgboost, booster, _count_iterations(booster)))


def _count_iterations(booster: Any) -> int:
    """Iterations that a wrapper predicts with, up to the best one; 0 for all."""
    best = booster.attr("best_iteration")
    return 0 if best is None else int(best) + 1


def view_xgboost(booster: Any) -> SavedModel:
    """A booster of XGBoost."""
    content = json.loads(booster.save_raw("json"))["learner"]
    objective, n_classes = content["objective"]["name"], int(content["learner_model_param"]["num_class"])
    is_classifier = objective.startswith(("binary:", "multi:"))
    types, names = booster.feature_types or [], booster.feature_names
    numbered = names or [str(place) for place in range(booster.num_features())]
    categorical = [place for place, kind in enumerate(types) if kind == "c"]
    trees = content["gradient_booster"]
    encodings = trees.get("gbtree", trees).get("model", {}).get("cats", {}).get("enc")
    if categorical and not encodings:
        raise UnusableModelError("has categorical columns, but not their levels; score it with truewood.importance().")
    return SavedModel(
        model=booster,
        library="XGBoost",
        columns=None if names is None else list(names),
        n_columns=booster.num_features(),
        classes=np.arange(max(n_classes, 2)) if is_classifier else None,
        predict=partial(_predict_xgboost, booster, 0),
        levels={numbered[place]: _read_xgboost_levels(encodings[place]) for place in categorical},
    )


def _predict_xgboost(booster: Any, n_iterations: int, X: pd.DataFrame) -> Any:
    import xgboost

    matrix = xgboost.DMatrix(X, enable_categorical=True)
    return booster.predict(matrix, iteration_range=(0, n_iterations))


def _read_xgboost_levels(encoding: dict[str, list[int]]) -> Sequence[Any] | None:
    """The levels: numbers, or strings whose bytes are joined; None for letters beyond ASCII, as it cuts such strings.

    XGBoost itself takes a level that it does not know for the next one in the alphabet, or fails.
    """
    values, ends = encoding["values"], encoding.get("offsets")
    if ends is None:
        return values
    if any(value < 0 for value in values):
        return None
    text = bytes(values).decode("ascii")
    return [text[start:end] for start, end in pairwise(ends)]


def load_lightgbm(path: Path) -> SavedModel:
    """Load a model that LightGBM has saved as text."""
    import lightgbm

    text = path.read_text(encoding="utf-8")
    if not text.startswith("tree\n"):
        raise UnusableModelError("is not a model that LightGBM has saved as text.")
    if "\nend of trees\n" not in text:
        raise UnusableModelError("is cut off: the end of its trees is missing; save the model again.")
    return _view_lightgbm(lightgbm.Booster(model_str=text), text)


def view_lightgbm(booster: Any) -> SavedModel:
    """A booster of LightGBM."""
    return _view_lightgbm(booster, booster.model_to_string())


def _view_lightgbm(booster: Any, text: str) -> SavedModel:
    header = dict(line.partition("=")[::2] for line in text.partition("\nTree=0\n")[0].split("\n"))
    names = booster.feature_name()
    objective = header.get("objective", "").split(" ")[0]
    n_scores = int(header["num_tree_per_iteration"])
    # Numbers have a range, "[0:1]"; categories a list, "0:1:2".
    infos = dict(zip(names, header["feature_infos"].split(" "), strict=True))
    known = booster.pandas_categorical or []
    categorical = [name for name, info in infos.items() if not info.startswith("[") and info != "none"]
    if known and len(categorical) != len(known):
        raise UnusableModelError(
            f"has {len(known)} categorical columns, but does not say which ones; score it with truewood.importance()."
        )
    is_classifier = objective in ("binary", "multiclass", "multiclassova")
    return SavedModel(
        model=booster,
        library="LightGBM",
        columns=None if names == [f"Column_{j}" for j in range(len(names))] else names,
        n_columns=len(names),
        classes=np.arange(max(n_scores, 2)) if is_classifier else None,
        predict=booster.predict,
        levels=dict(zip(categorical, known, strict=True)) if known else {},
        spell=lambda name: name.replace(" ", "_"),
    )


def load_catboost(path: Path) -> SavedModel:
    """Load a model that CatBoost has saved in its own format, or as JSON."""
    import catboost

    model = catboost.CatBoost()
    model.load_model(str(path), format="json" if path.suffix.lower() == ".json" else "cbm")
    return view_catboost(model)


def view_catboost(model: Any) -> SavedModel:
    """A model of CatBoost."""
    names = [str(name) for name in model.feature_names_ or []]
    if not names:
        raise UnusableModelError("is a model of CatBoost without columns.")
    classes = np.asarray(model.classes_)
    is_named = names != [str(j) for j in range(len(names))]
    kind = "Probability" if len(classes) else "RawFormulaVal"
    if str(model.get_all_params().get("loss_function")).partition(":")[0] in _LOG_LINKS:
        kind = "Exponent"
    return SavedModel(
        model=model,
        library="CatBoost",
        columns=names if is_named else None,
        n_columns=len(names),
        classes=classes if len(classes) else None,
        predict=lambda X: model.predict(X, prediction_type=kind),
        levels={names[j]: None for j in model.get_cat_feature_indices()},
    )


LOADERS: dict[str, Callable[[Path], SavedModel]] = {
    "XGBoost": load_xgboost,
    "LightGBM": load_lightgbm,
    "CatBoost": load_catboost,
}
