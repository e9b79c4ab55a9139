"""Load saved models: XGBoost, LightGBM, CatBoost, skops and pickle files, and Spark ML folders."""

from __future__ import annotations

import json
import os
import pickle
import zipfile
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from inspect import isclass
from pathlib import Path
from typing import Any

from truewood._extras import explain_missing
from truewood._formatting import list_names
from truewood._message import Message
from truewood.adapters import load_spark_model, to_ensemble
from truewood.tabular._errors import TableError, UnusableModelError
from truewood.tabular._files.reading import LARGEST_EXPANSION
from truewood.tabular._models.sandboxed_load import describe_damage, find_damage, limit_memory
from truewood.tabular._models.saved_model import (
    SavedModel,
    view_catboost,
    view_lightgbm,
    view_model,
    view_spark,
    view_xgboost,
)

_PICKLES = (".pkl", ".pickle", ".joblib")
_LIBRARIES = {".ubj": "XGBoost", ".txt": "LightGBM", ".cbm": "CatBoost", ".skops": "skops"}
ENDINGS = (".json", *_LIBRARIES, *_PICKLES)
# Packages with classes that a skops file may contain; others are refused by name.
_TRUSTED = ("sklearn.", "truewood.")


def open_saved_model(saved_model: Any, *, trust_pickle: bool) -> SavedModel:
    """Load a model from a file or folder, or view a model that is already loaded.

    Parameters
    ----------
    saved_model : path or object
        The file, the folder, or the model.
    trust_pickle : bool
        Whether to open pickles, which can execute arbitrary code.
    """
    if isinstance(saved_model, str | os.PathLike):
        return _load_model(Path(saved_model), trust_pickle=trust_pickle)
    try:
        return view_model(saved_model)
    except UnusableModelError as error:
        raise TableError(f"the model {error}", "saved_model") from error
    except TypeError as error:  # not a tree model
        raise TableError(str(error), "saved_model") from error


def _load_model(path: Path, *, trust_pickle: bool) -> SavedModel:
    ending = path.suffix.lower()
    if not path.exists():
        raise TableError(f"{path} does not exist.", "saved_model")
    if path.is_dir():
        return _load_folder(path)
    if ending == ".zip":
        raise TableError(
            f"{path.name} cannot be read: truewood checks trees against the model's own predictions, and a MOJO file "
            "of H2O needs Java to predict; fit the model with another library.",
            "saved_model",
        )
    if ending not in ENDINGS:
        raise TableError(f"{path.name} must end in one of {', '.join(ENDINGS)}.", "saved_model")
    if ending in _PICKLES and not trust_pickle:
        raise TableError(
            Message(
                f"{path.name} is a pickle, which can execute arbitrary code when it is opened.",
                "If you trust its source, pass {trust_pickle}.",
                trust_pickle=True,
            ),
            "saved_model",
        )
    library = _find_library(path, ending)
    if library != "pickled":
        _check_installed(path, library.lower(), "cli" if library == "skops" else library.lower())
    if library in _BOOSTERS and (damage := find_damage(path, library)) is not None:
        raise TableError(f"{path.name} {damage}", "saved_model")
    try:
        return _LOADERS[library](path)
    except MemoryError:
        raise
    except Exception as error:
        raise TableError(f"{path.name} {describe_damage(error, library)}", "saved_model") from error


def _load_folder(path: Path) -> SavedModel:
    """Load a Spark ML model; no other library saves models as folders."""
    _check_installed(path, "pyarrow", "cli")
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
    """Distinguish XGBoost and CatBoost JSON files by their keys."""
    try:
        content = json.loads(path.read_bytes())
    except RecursionError as error:
        raise TableError(
            f"{path.name} is JSON, but nested too deeply to be a model; pass a file that XGBoost or CatBoost saved.",
            "saved_model",
        ) from error
    except ValueError as error:
        raise TableError(f"{path.name} is not a JSON file: {error}. Save the model again.", "saved_model") from error
    keys = content.keys() if isinstance(content, dict) else ()
    if "learner" in keys:
        return "XGBoost"
    if "oblivious_trees" in keys or "trees" in keys or "features_info" in keys:
        return "CatBoost"
    raise TableError(
        f"{path.name} is JSON, but not an XGBoost or CatBoost model; pass a file that one of them saved.", "saved_model"
    )


def _check_installed(path: Path, module: str, extra: str) -> None:
    problem = explain_missing(f"{path.name} needs", [module], extra)
    if problem is not None:
        raise TableError(problem, "saved_model")


def _load_xgboost(path: Path) -> SavedModel:
    """Load an XGBoost model, as the scikit-learn wrapper that saved it if there was one."""
    import xgboost

    booster = xgboost.Booster(model_file=path)
    if "scikit_learn" not in booster.attributes():
        return view_xgboost(booster)
    best = booster.attr("best_iteration")  # wrappers predict up to the best iteration
    saved = view_xgboost(booster, 0 if best is None else int(best) + 1)
    wrapper = xgboost.XGBRegressor() if saved.classes is None else xgboost.XGBClassifier()
    wrapper.load_model(path)
    return replace(saved, model=wrapper)


def _load_lightgbm(path: Path) -> SavedModel:
    """Load a LightGBM text file."""
    import lightgbm

    text = path.read_text(encoding="utf-8")
    if not text.startswith("tree\n"):
        raise UnusableModelError("is not a LightGBM text file; save the model with Booster.save_model.")
    if "\nend of trees\n" not in text:
        raise UnusableModelError("is truncated: the end of the trees is missing; save the model again.")
    return view_lightgbm(lightgbm.Booster(model_str=text))


def _load_catboost(path: Path) -> SavedModel:
    """Load a CatBoost model in its binary format or as JSON."""
    import catboost

    model = catboost.CatBoost()
    model.load_model(str(path), format="json" if path.suffix.lower() == ".json" else "cbm")
    return view_catboost(model)


def _load_skops(path: Path) -> SavedModel:
    """Load a skops file if it contains only trusted types."""
    from skops.io import get_untrusted_types, load  # type: ignore[import-untyped]

    if not zipfile.is_zipfile(path):
        raise UnusableModelError("is not a skops file; save the model with skops.io.dump.")
    with zipfile.ZipFile(path) as archive:
        n_bytes = sum(part.file_size for part in archive.infolist())
    if n_bytes > max(LARGEST_EXPANSION, path.stat().st_size):
        raise UnusableModelError(
            f"is a skops file that would expand to {n_bytes / 2**30:.1f} GiB in memory; if you trust its source, save "
            "the model again without compression."
        )
    found = get_untrusted_types(file=path)
    refused = [name for name in found if name != "numpy.dtype" and not _is_own_class(name)]
    if refused:
        raise UnusableModelError(
            "contains types from outside scikit-learn and truewood, which are not loaded: "
            f"{list_names(refused, 5)}; if you trust its source, load it with skops.io.load and pass the model to "
            "truewood.tabular.score_saved_model."
        )
    return view_model(load(path, trusted=found))


def _is_own_class(name: str) -> bool:
    """Whether scikit-learn or truewood defines a class of this name, rather than importing it."""
    module, _, attribute = name.rpartition(".")
    if not name.startswith(_TRUSTED):
        return False
    try:
        found = getattr(import_module(module), attribute, None)
    except ImportError:
        return False
    return isclass(found) and f"{found.__module__}.".startswith(_TRUSTED)


def _load_pickle(path: Path) -> SavedModel:
    """Load a pickle, which can execute arbitrary code."""
    import joblib

    try:
        return view_model(joblib.load(path))
    except (pickle.UnpicklingError, EOFError, IndexError, KeyError) as error:
        raise UnusableModelError(f"is a damaged pickle: {error}. Save the model again.") from error


_BOOSTERS: dict[str, Callable[[Path], SavedModel]] = {
    "XGBoost": _load_xgboost,
    "LightGBM": _load_lightgbm,
    "CatBoost": _load_catboost,
}
_LOADERS = {**_BOOSTERS, "skops": _load_skops, "pickled": _load_pickle}


def report_damage(library: str, path: str) -> None:
    """Load a file in a child process, and write what is wrong with it to standard output; see `find_damage`."""
    output = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="backslashreplace")
    os.dup2(2, 1)  # libraries may print to standard output
    limit_memory(Path(path).stat().st_size)
    try:
        to_ensemble(_BOOSTERS[library](Path(path)).model)
    except Exception as error:
        output.write(describe_damage(error, library))
    output.close()
