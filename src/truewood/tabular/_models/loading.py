"""Files and folders with saved models: which library wrote one, and loading it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from truewood.adapters import SparkModel, load_spark_model
from truewood.adapters._spark_model import read_spark_model
from truewood.tabular._errors import TableError, UnusableModelError
from truewood.tabular._models.sandboxed_load import describe_damage, find_damage
from truewood.tabular._models.saved_boosters import LOADERS, view_catboost, view_lightgbm, view_xgboost
from truewood.tabular._models.saved_estimators import load_pickle, load_skops, view_estimator
from truewood.tabular._models.saved_model import SavedModel
from truewood.tabular._models.saved_spark import view_spark

_PICKLES = (".pkl", ".pickle", ".joblib")
_LIBRARIES = {".ubj": "XGBoost", ".txt": "LightGBM", ".cbm": "CatBoost", ".skops": "skops"}
ENDINGS = (".json", *_LIBRARIES, *_PICKLES)


def open_model(saved_model: Any, *, trust_pickle: bool) -> SavedModel:
    """A model from a file, or one that is loaded already.

    Parameters
    ----------
    saved_model : path or object
        The file, or folder, or the model.
    trust_pickle : bool
        Whether a pickle may be opened, which can run any program.
    """
    if isinstance(saved_model, str | os.PathLike):
        return _load_model(Path(saved_model), trust_pickle=trust_pickle)
    try:
        return _view_model(saved_model)
    except UnusableModelError as error:
        raise TableError(f"the model {error}", "saved_model") from error


def _load_model(path: Path, *, trust_pickle: bool) -> SavedModel:
    ending = path.suffix.lower()
    if not path.exists():
        raise TableError(f"{path} is not there.", "saved_model")
    if path.is_dir():
        return _load_folder(path)
    if ending not in ENDINGS:
        raise TableError(f"{path.name} must end in {', '.join(ENDINGS)} to tell who wrote it.", "saved_model")
    if ending in _PICKLES and not trust_pickle:
        raise TableError(
            f"{path.name} is a pickle, which can run any program when it is opened; if you know where it comes from, "
            "pass trust_pickle=True.",
            "saved_model",
        )
    library = _find_library(path, ending)
    if library != "pickled":
        _check_installed(library)
    if library in LOADERS and (damage := find_damage(path, library)) is not None:
        raise TableError(f"{path.name} {damage}", "saved_model")
    try:
        return _LOADERS[library](path)
    except MemoryError:
        raise
    except Exception as error:
        raise TableError(f"{path.name} {describe_damage(error, library)}", "saved_model") from error


def _load_folder(path: Path) -> SavedModel:
    """A model of Spark ML: no other library saves models as folders."""
    if find_spec("pyarrow") is None:
        raise TableError("pyarrow is not installed: pip install 'truewood[cli]'.", "saved_model")
    try:
        return view_spark(load_spark_model(path))
    except UnusableModelError as error:
        raise TableError(f"{path.name} {error}", "saved_model") from error
    except ValueError as error:
        raise TableError(str(error), "saved_model") from error


def _find_library(path: Path, ending: str) -> str:
    if ending in _PICKLES:
        return "pickled"
    return _find_json_library(path) if ending == ".json" else _LIBRARIES[ending]


def _find_json_library(path: Path) -> str:
    """XGBoost's and CatBoost's JSON are told apart by their keys."""
    try:
        content = json.loads(path.read_bytes())
    except RecursionError as error:
        raise TableError(f"{path.name} is JSON too deeply nested to be a model.", "saved_model") from error
    except ValueError as error:
        raise TableError(f"{path.name} is not a JSON file: {error}.", "saved_model") from error
    keys = content.keys() if isinstance(content, dict) else ()
    if "learner" in keys:
        return "XGBoost"
    if "oblivious_trees" in keys or "trees" in keys or "features_info" in keys:
        return "CatBoost"
    raise TableError(f"{path.name} is JSON, but no model of XGBoost or CatBoost.", "saved_model")


def _check_installed(library: str) -> None:
    if find_spec(library.lower()) is None:
        extra = "cli" if library == "skops" else library.lower()
        raise TableError(f"{library} is not installed: pip install 'truewood[{extra}]'.", "saved_model")


def _view_model(model: Any) -> SavedModel:
    """A loaded model, of the library that its class belongs to."""
    if isinstance(model, SparkModel):
        return view_spark(model)
    library, class_name = type(model).__module__.partition(".")[0], type(model).__name__
    if library == "pyspark":
        return view_spark(read_spark_model(model))
    if library == "catboost":
        return view_catboost(model)
    if class_name == "Booster" and library in _BOOSTERS:
        return _BOOSTERS[library](model)
    return view_estimator(model)


_BOOSTERS: dict[str, Callable[[Any], SavedModel]] = {"xgboost": view_xgboost, "lightgbm": view_lightgbm}
_LOADERS: dict[str, Callable[[Path], SavedModel]] = {
    **LOADERS,
    "skops": lambda path: _view_model(load_skops(path)),
    "pickled": lambda path: _view_model(load_pickle(path)),
}
