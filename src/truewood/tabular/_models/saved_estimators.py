"""Saved estimators with the interface of scikit-learn: loading them from skops files and pickles."""

from __future__ import annotations

import pickle
import zipfile
from importlib import import_module
from inspect import isclass
from pathlib import Path
from typing import Any

import numpy as np

from truewood._formatting import list_names
from truewood.tabular._errors import UnusableModelError
from truewood.tabular._files.reading import LARGEST_EXPANSION
from truewood.tabular._models.saved_model import SavedModel

# Packages whose own classes a skops file may hold; others are named and refused.
_TRUSTED = ("sklearn.", "truewood.")


def load_skops(path: Path) -> Any:
    """Load an estimator that skops has saved, if it holds nothing that would run a program."""
    from skops.io import get_untrusted_types, load  # type: ignore[import-untyped]

    if not zipfile.is_zipfile(path):
        raise UnusableModelError("is not a skops file.")
    with zipfile.ZipFile(path) as archive:
        n_bytes = sum(part.file_size for part in archive.infolist())
    if n_bytes > max(LARGEST_EXPANSION, path.stat().st_size):
        raise UnusableModelError(
            f"is a skops file that would take {n_bytes / 2**30:.1f} GiB of memory; if you know where it comes from, "
            "save the model again without compression."
        )
    found = get_untrusted_types(file=path)
    refused = [name for name in found if name != "numpy.dtype" and not _is_own_class(name)]
    if refused:
        raise UnusableModelError(
            "holds types that are neither scikit-learn's nor truewood's and are not loaded: "
            f"{list_names(refused, 5)}; if you know where it comes from, load it with skops.io.load and pass the model "
            "to truewood.tabular.score_saved_model."
        )
    return load(path, trusted=found)


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


def load_pickle(path: Path) -> Any:
    """Load a pickled estimator; whoever made the file can run any program by it."""
    import joblib

    try:
        return joblib.load(path)
    except (pickle.UnpicklingError, EOFError, IndexError, KeyError) as error:
        raise UnusableModelError(f"is a broken pickle: {error}.") from error


def view_estimator(model: Any) -> SavedModel:
    """A fitted estimator with the interface of scikit-learn."""
    if not hasattr(model, "predict") or not hasattr(model, "n_features_in_"):
        raise UnusableModelError(
            f"is not a fitted model with the interface of scikit-learn, but {type(model).__name__}."
        )
    names = getattr(model, "feature_names_in_", None)
    classes = getattr(model, "classes_", None)
    return SavedModel(
        model=model,
        library="estimator",
        columns=None if names is None else [str(name) for name in names],
        n_columns=int(model.n_features_in_),
        classes=None if classes is None else np.asarray(classes),
        predict=model.predict if classes is None else model.predict_proba,
        levels={},
    )
