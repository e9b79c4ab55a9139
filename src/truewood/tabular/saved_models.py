"""Saved models: which library wrote a file, how it is loaded, and the table it takes."""

from __future__ import annotations

import json
import pickle
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from inspect import isclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

ENDINGS = (".json", ".ubj", ".txt", ".cbm", ".skops", ".pkl", ".pickle", ".joblib")
_PICKLES = (".pkl", ".pickle", ".joblib")
# Packages whose own classes a skops file may hold; others are named and refused.
_TRUSTED = ("sklearn.", "truewood.")
# CatBoost's losses whose scores are logarithms of what they predict.
_LOG_LINKS = ("Poisson", "Tweedie", "LogLinQuantile")


@dataclass(frozen=True, eq=False)
class SavedModel:
    """A loaded model and what it wants.

    Parameters
    ----------
    model : object
        What `importance` takes.
    library : str
        Who wrote the file, for messages.
    columns : list of str, or None
        Names of its columns, in order; None where it does not know them.
    n_columns : int
        Number of its columns.
    classes : ndarray or None
        The labels it predicts; None for numbers.
    predict : callable
        ``predict(X)`` gives numbers, or probabilities of the classes.
    levels : dict
        Columns that are categories to the model, and their levels; None for levels it does not list.
    spell : callable
        ``spell(name)`` gives a name as the model has it.
    """

    model: Any
    library: str
    columns: list[str] | None
    n_columns: int
    classes: NDArray[Any] | None
    predict: Callable[[pd.DataFrame], Any]
    levels: dict[str, Sequence[Any] | None]
    spell: Callable[[str], str] = str


def load_model(source: str, *, trust_pickle: bool) -> SavedModel:
    """Load a saved model.

    Parameters
    ----------
    source : str
        The file.
    trust_pickle : bool
        Whether a pickle may be opened, which can run any program.
    """
    path = Path(source)
    ending = path.suffix.lower()
    if path.is_dir() or not path.exists():
        raise ValueError(f"--model-file: {source} is {'a folder' if path.is_dir() else 'not there'}.")
    if ending not in ENDINGS:
        raise ValueError(f"--model-file: {path.name} must end in {', '.join(ENDINGS)} to tell who wrote it.")
    if ending in _PICKLES and not trust_pickle:
        raise ValueError(
            f"--model-file: {path.name} is a pickle, which can run any program when it is opened; if you know where it "
            "comes from, add --trust-pickle."
        )
    library = _find_library(path, ending)
    if library in ("XGBoost", "LightGBM", "CatBoost", "skops"):
        extra = "cli" if library == "skops" else library.lower()
        if find_spec(library.lower()) is None:
            raise ValueError(f"--model-file: {library} is not installed: pip install 'truewood[{extra}]'.")
    try:
        return _LOADERS[library](path)
    except _Refused as error:
        raise ValueError(f"--model-file: {path.name} {error}") from error
    except Exception as error:  # libraries have exceptions of their own for files they cannot read
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise ValueError(f"--model-file: {path.name} cannot be read as a {library} model: {reason}") from error


class _Refused(Exception):  # noqa: N818
    """A file that was read, but cannot be used."""


def _find_library(path: Path, ending: str) -> str:
    if ending in _PICKLES:
        return "pickled"
    if ending == ".json":
        return _find_json_library(path)
    return {".ubj": "XGBoost", ".txt": "LightGBM", ".cbm": "CatBoost", ".skops": "skops"}[ending]


def _find_json_library(path: Path) -> str:
    """XGBoost's and CatBoost's JSON are told apart by their keys."""
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"--model-file: {path.name} is not a JSON file: {error}.") from error
    keys = content.keys() if isinstance(content, dict) else ()
    if "learner" in keys:
        return "XGBoost"
    if "oblivious_trees" in keys or "trees" in keys or "features_info" in keys:
        return "CatBoost"
    raise ValueError(f"--model-file: {path.name} is JSON, but no model of XGBoost or CatBoost.")


def _load_xgboost(path: Path) -> SavedModel:
    import xgboost

    booster = xgboost.Booster(model_file=path)
    content = json.loads(booster.save_raw("json"))["learner"]
    objective, n_classes = content["objective"]["name"], int(content["learner_model_param"]["num_class"])
    is_classifier = objective.startswith(("binary:", "multi:"))
    types, names = booster.feature_types or [], booster.feature_names
    numbered = names or [str(place) for place in range(booster.num_features())]
    categorical = [place for place, kind in enumerate(types) if kind == "c"]
    trees = content["gradient_booster"]
    encodings = trees.get("gbtree", trees).get("model", {}).get("cats", {}).get("enc")
    if categorical and not encodings:
        raise _Refused("has categorical columns, but not their levels; score it with truewood.importance().")
    model: Any = booster
    if "scikit_learn" in booster.attributes():
        # Saved by a wrapper, which predicts up to its best iteration.
        model = (xgboost.XGBClassifier if is_classifier else xgboost.XGBRegressor)()
        model.load_model(path)
    best = booster.attr("best_iteration")
    last = 0 if model is booster or best is None else int(best) + 1  # 0: all

    def predict(X: pd.DataFrame) -> Any:
        matrix = xgboost.DMatrix(X, enable_categorical=True)
        return booster.predict(matrix, iteration_range=(0, last))

    return SavedModel(
        model=model,
        library="XGBoost",
        columns=None if names is None else list(names),
        n_columns=booster.num_features(),
        classes=np.arange(max(n_classes, 2)) if is_classifier else None,
        predict=predict,
        levels={numbered[place]: _read_xgboost_levels(encodings[place]) for place in categorical},
    )


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


def _load_lightgbm(path: Path) -> SavedModel:
    import lightgbm

    text = path.read_text(encoding="utf-8")
    if not text.startswith("tree\n"):
        raise _Refused("is not a model that LightGBM has saved as text.")
    booster = lightgbm.Booster(model_str=text)
    header = dict(line.partition("=")[::2] for line in text.partition("\nTree=0\n")[0].split("\n"))
    names = booster.feature_name()
    objective = header.get("objective", "").split(" ")[0]
    n_scores = int(header["num_tree_per_iteration"])
    # Numbers have a range, "[0:1]"; categories a list, "0:1:2".
    infos = dict(zip(names, header["feature_infos"].split(" "), strict=True))
    known = booster.pandas_categorical or []
    categorical = [name for name, info in infos.items() if not info.startswith("[") and info != "none"]
    if known and len(categorical) != len(known):
        raise _Refused(
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


def _load_catboost(path: Path) -> SavedModel:
    import catboost

    model = catboost.CatBoost()
    model.load_model(str(path), format="json" if path.suffix.lower() == ".json" else "cbm")
    return _view_catboost(model)


def _view_catboost(model: Any) -> SavedModel:
    names = [str(name) for name in model.feature_names_ or []]
    if not names:
        raise _Refused("is a model of CatBoost without columns.")
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


def _load_skops(path: Path) -> SavedModel:
    from skops.io import get_untrusted_types, load  # type: ignore[import-untyped]

    if not zipfile.is_zipfile(path):
        raise _Refused("is not a skops file.")
    found = get_untrusted_types(file=path)
    refused = [name for name in found if name != "numpy.dtype" and not _is_own_class(name)]
    if refused:
        raise _Refused(
            f"holds types that are neither scikit-learn's nor truewood's and are not loaded: {', '.join(refused)}."
        )
    return _view_estimator(load(path, trusted=found), "skops")


def _is_own_class(name: str) -> bool:
    """Whether a name is that of a class which scikit-learn or truewood define, not of something they import."""
    module, _, attribute = name.rpartition(".")
    if not name.startswith(_TRUSTED):
        return False
    try:
        found = getattr(import_module(module), attribute, None)
    except ImportError:
        return False
    return isclass(found) and f"{found.__module__}.".startswith(_TRUSTED)


def _load_pickle(path: Path) -> SavedModel:
    import joblib

    try:
        model = joblib.load(path)
    except (pickle.UnpicklingError, EOFError, IndexError, KeyError) as error:
        raise _Refused(f"is a broken pickle: {error}.") from error
    return _view_estimator(model, "pickled")


def _view_estimator(model: Any, library: str) -> SavedModel:
    """A fitted estimator with the interface of scikit-learn."""
    if type(model).__module__.startswith("catboost."):
        return _view_catboost(model)
    if not hasattr(model, "predict") or not hasattr(model, "n_features_in_"):
        raise _Refused(f"must hold a fitted model with the interface of scikit-learn, got {type(model).__name__}.")
    names = getattr(model, "feature_names_in_", None)
    classes = getattr(model, "classes_", None)
    return SavedModel(
        model=model,
        library=library,
        columns=None if names is None else [str(name) for name in names],
        n_columns=int(model.n_features_in_),
        classes=None if classes is None else np.asarray(classes),
        predict=model.predict if classes is None else model.predict_proba,
        levels={},
    )


_LOADERS: dict[str, Callable[[Path], SavedModel]] = {
    "XGBoost": _load_xgboost,
    "LightGBM": _load_lightgbm,
    "CatBoost": _load_catboost,
    "skops": _load_skops,
    "pickled": _load_pickle,
}
