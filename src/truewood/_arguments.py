"""Argument checks shared by many functions; each error is one line with the argument and the value."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.utils import check_random_state

from truewood._formatting import quote

# C libraries store numbers of threads, levels or rows as int32.
_LARGEST = np.iinfo(np.int32).max


def get_keywords(function: Callable[..., Any]) -> list[str]:
    """Return the names of the keyword-only arguments of a function."""
    parameters = inspect.signature(function).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]


def check_type(value: Any, kind: type | tuple[type, ...], name: str, expected: str) -> None:
    """Refuse a value of another type; `expected` describes the right one, such as "a dict"."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be {expected}, got {type(value).__name__}.")


def name_type(value: Any) -> str:
    """Name of a value's type with its library, such as "polars LazyFrame"; a path is a path."""
    if isinstance(value, str | os.PathLike):
        return "path"
    library = type(value).__module__.partition(".")[0]
    return type(value).__name__ if library == "builtins" else f"{library} {type(value).__name__}"


def check_texts(value: Any, name: str) -> None:
    """Refuse what is not a list or tuple of strings."""
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
        raise TypeError(f"{name} must be a list of str, got {quote(value)}.")


def check_path(value: Any, name: str) -> None:
    """Refuse what is not a path."""
    check_type(value, (str, os.PathLike), name, "a str or a path")


def read_flag(value: Any, name: str, where: str = "") -> bool:
    """Read True or False, also from numpy; `where` states the condition in the message."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False{where}, got {quote(value)}.")
    return bool(value)


def read_inference(inference: Any, contributions: Any, *others: str) -> tuple[bool | str, bool]:
    """Read `inference`, a bool or one of `others`, and `contributions`, which needs inference."""
    is_other = isinstance(inference, str) and inference in others
    if not is_other and not isinstance(inference, bool | np.bool_):
        *first, last = ["True", "False", *map(repr, others)]
        raise ValueError(f"inference must be {', '.join(first)} or {last}, got {quote(inference)}.")
    contributions = read_flag(contributions, "contributions")
    if contributions and not inference:
        raise ValueError("contributions=True needs inference=True, got inference=False.")
    return inference if is_other else bool(inference), contributions


def is_choice(value: Any, choices: Iterable[str]) -> bool:
    """Whether a value is one of some names; also safe for arrays and tables, which compare element by element."""
    return isinstance(value, str) and value in choices


def is_fraction(value: Any, *, or_one: bool = False) -> bool:
    """Whether a value is a number strictly between 0 and 1, or equal to 1 if `or_one`."""
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return is_number and bool(0 < value < 1 or (or_one and value == 1))


def find_index(value: Any, names: list[str]) -> int | None:
    """Find the position of a unique name, or check a position; None if there is no such name or position."""
    if isinstance(value, str):
        return names.index(value) if names.count(value) == 1 else None
    is_number = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return int(value) if is_number and 0 <= value < len(names) else None


def read_feature_list(features: Any) -> list[Any] | None:
    """Read a list of names or indices of features; None for all."""
    if features is None:
        return None
    if isinstance(features, str) or not isinstance(features, Iterable):
        raise TypeError(f"features must be a list of names or indices, got {quote(features)}.")
    return list(features)


def is_count(value: Any, least: int) -> bool:
    """Whether a value is an integer of at least `least` that fits into int32."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and least <= int(value) <= _LARGEST


def check_n_jobs(n_jobs: Any) -> int:
    """The number of threads or processes for `n_jobs`, as in scikit-learn."""
    if n_jobs is not None and (not is_count(n_jobs, -_LARGEST) or n_jobs == 0):
        raise ValueError(f"n_jobs must be a whole number other than 0, -1 for all cores, or None, got {quote(n_jobs)}.")
    return int(effective_n_jobs(n_jobs))


def check_seed(random_state: Any) -> np.random.RandomState:
    """The generator for `random_state`, as in scikit-learn."""
    try:
        rng: np.random.RandomState = check_random_state(random_state)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"random_state must be a whole number from 0 to 2**32 - 1, a RandomState or None, got "
            f"{quote(random_state)}."
        ) from error
    return rng


def check_estimator(estimator: Any) -> None:
    """Refuse objects that cannot be cloned and fit."""
    if isinstance(estimator, type) or not (hasattr(estimator, "fit") and hasattr(estimator, "get_params")):
        given = f"the class {estimator.__name__}" if isinstance(estimator, type) else type(estimator).__name__
        raise TypeError(f"estimator must be a model with fit and get_params, like those of scikit-learn, got {given}.")


def check_length(values: Any, n_rows: int, name: str) -> None:
    """Refuse values without an entry for each row of X."""
    shape = getattr(values, "shape", None)
    if shape is None and hasattr(values, "__len__") and not isinstance(values, str | bytes | dict | set):
        shape = (len(values),)
    if not shape:
        raise TypeError(f"{name} must have an entry for each row of X, got {quote(values)}.")
    check_n_rows(shape[0], n_rows, name)


def check_n_rows(n_given: int, n_rows: int, name: str) -> None:
    """Refuse values for another number of rows than X has."""
    if n_given != n_rows:
        raise ValueError(f"X and {name} must have the same number of rows, got {n_rows} and {n_given}.")


def count_rows(X: Any) -> int:
    """Number of rows of a table in any container."""
    shape = getattr(X, "shape", None)
    if shape is None:
        if isinstance(X, str | bytes) or not hasattr(X, "__len__"):
            raise TypeError(f"X must be a table with rows and columns, got {type(X).__name__}.")
        return len(X)
    if len(shape) != 2:
        raise ValueError(f"X must be a table with rows and columns, got an array of shape {tuple(shape)}.")
    return int(shape[0])
