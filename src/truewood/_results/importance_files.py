"""`ImportanceResult` as JSON files: saved to the last bit, and validated when loaded."""

from __future__ import annotations

import math
from dataclasses import fields
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truewood._formatting import ROWS_IN_WORDS, quote
from truewood._measures.registry import OF_RESULTS
from truewood._results.importance_result import ImportanceResult
from truewood._results.json_fields import (
    InvalidFieldError,
    is_text,
    read_count,
    read_names,
    read_notes,
    read_numbers,
    refuse,
    save_json,
)
from truewood._results.scores_with_errors import ClassScores

FORMAT = "truewood.ImportanceResult"

_CHOICES = {
    "measure": tuple(OF_RESULTS),
    "task": ("classification", "regression", "survival"),
    "rows": tuple(ROWS_IN_WORDS),
}
_MAX_FLOAT = float(np.finfo(np.float64).max)


def save(result: ImportanceResult, path: str | PathLike[str]) -> None:
    """Save a result; see `ImportanceResult.save`."""
    save_json(result, path, FORMAT)


def read_importance(content: Any, *, is_of_columns: bool = False) -> ImportanceResult:
    """Build a result from its fields, after validating each of them."""
    names = {part.name for part in fields(ImportanceResult)}
    if not isinstance(content, dict):
        refuse("columns", "a result or null")
    if content.keys() != names:
        differing = ", ".join(sorted(map(quote, content.keys() ^ names))[:3])
        raise InvalidFieldError(f"its fields are not those of a result ({differing})")
    features = read_names("feature_names", content["feature_names"])
    n_rows, shape = read_count("n_rows", content["n_rows"]), (len(features),)
    read: dict[str, Any] = {"feature_names": features, "n_rows": n_rows}
    for name in ("values", "mdi"):
        read[name] = read_numbers(name, content[name], shape)
    read["share"] = read_numbers("share", content["share"], shape, has_nan=True)
    read["per_tree"] = read_numbers("per_tree", content["per_tree"], (None, *shape), has_nan=True)
    read["per_output"] = read_numbers("per_output", content["per_output"], (None, *shape))
    read["tree_weight"] = _read_tree_weight(content["tree_weight"], len(read["per_tree"]))
    folds = content["per_fold"]
    read["per_fold"] = None if folds is None else read_numbers("per_fold", folds, (None, *shape))
    for name in ("contributions", "residual_contributions"):
        read[name] = None if content[name] is None else read_numbers(name, content[name], (n_rows, *shape))
    read |= _read_row_groups(content, n_rows)
    for name, listed in _CHOICES.items():
        if not isinstance(content[name], str) or content[name] not in listed:
            refuse(name, f"one of {', '.join(listed)}")
        read[name] = content[name]
    if not isinstance(content["is_additive"], bool):
        refuse("is_additive", "true or false")
    read["is_additive"] = content["is_additive"]
    read["impurity"] = _read_impurity(content["impurity"])
    read["skipped_weight"] = _read_number("skipped_weight", content["skipped_weight"], most=1.0)
    read |= _read_errors(content, shape)
    read["classes"] = _read_classes(content["classes"], shape, has_nan=read["inference_unavailable"] is not None)
    read["notes"] = read_notes(content["notes"])
    if content["columns"] is not None and is_of_columns:
        refuse("columns of columns", "null")
    read["columns"] = None if content["columns"] is None else read_importance(content["columns"], is_of_columns=True)
    return ImportanceResult(**read)


def _read_row_groups(content: dict[str, Any], n_rows: int) -> dict[str, Any]:
    """Read the number of row groups and the group of each row; None for null."""
    n_groups, groups = content["n_groups"], content["groups"]
    if n_groups is not None and read_count("n_groups", n_groups) > n_rows:
        refuse("n_groups", "at most the number of rows")
    if groups is None:
        return {"n_groups": n_groups, "groups": None}
    expected = f"{n_rows} group numbers from 0 to n_groups - 1"
    if n_groups is None or not isinstance(groups, list) or len(groups) != n_rows:
        refuse("groups", expected)
    if not all(type(group) is int and 0 <= group < n_groups for group in groups):
        refuse("groups", expected)
    return {"n_groups": n_groups, "groups": np.array(groups, dtype=np.int64)}


def _read_tree_weight(value: Any, n_trees: int) -> NDArray[np.float64] | None:
    """Read the weight of each tree; None for null."""
    if value is None:
        return None
    weight = read_numbers("tree_weight", value, (n_trees,))
    if (weight < 0).any() or not weight.any():
        refuse("tree_weight", "nonnegative numbers, at least one of them positive")
    return weight


def _read_errors(content: dict[str, Any], shape: tuple[int, ...]) -> dict[str, Any]:
    """Read the standard errors: nonnegative numbers, or null if there is a reason that they are unavailable."""
    reason = content["inference_unavailable"]
    if reason is not None and not is_text(reason):
        refuse("inference_unavailable", "text or null")
    read: dict[str, Any] = {"inference_unavailable": reason}
    for name in ("std_error", "null_std_error"):
        read[name] = read_numbers(name, content[name], shape, has_nan=reason is not None)
        if (read[name] < 0).any():
            refuse(name, "nonnegative numbers")
    read["tree_noise"] = read_numbers("tree_noise", content["tree_noise"], shape, has_nan=True)
    if not (np.isnan(read["tree_noise"]) | ((read["tree_noise"] >= 0) & (read["tree_noise"] <= 1))).all():
        refuse("tree_noise", "numbers from 0 to 1, or null")
    if (content["residual_values"] is None) != (content["residual_std_error"] is None):
        refuse("residual_values and residual_std_error", "both numbers or both null")
    for name in ("residual_values", "residual_std_error"):
        read[name] = None if content[name] is None else read_numbers(name, content[name], shape)
    if read["residual_std_error"] is not None and (read["residual_std_error"] < 0).any():
        refuse("residual_std_error", "nonnegative numbers")
    total = content["total_error"]
    may_be_missing = reason is not None or OF_RESULTS[content["measure"]].is_given_others
    read["total_error"] = np.nan if total is None and may_be_missing else _read_number("total_error", total)
    return read


def _read_classes(content: Any, shape: tuple[int, ...], *, has_nan: bool) -> ClassScores | None:
    """Read the scores by class; None for null."""
    if content is None:
        return None
    if not isinstance(content, dict) or content.keys() != {part.name for part in fields(ClassScores)}:
        refuse("classes", "names, values, std_error and null_std_error, or null")
    names = read_names("names of classes", content["names"])
    values = read_numbers("values of classes", content["values"], (len(names), *shape))
    errors = [
        read_numbers(f"{name} of classes", content[name], (len(names), *shape), has_nan=has_nan)
        for name in ("std_error", "null_std_error")
    ]
    if any((error < 0).any() for error in errors):
        refuse("standard errors of classes", "nonnegative numbers")
    return ClassScores(names, values, *errors)


def _read_number(name: str, value: Any, *, most: float = math.inf) -> float:
    """Read a finite nonnegative number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= min(most, _MAX_FLOAT):
        refuse(name, f"a number from 0 to {most:g}" if most < math.inf else "a finite nonnegative number")
    return float(value)


def _read_impurity(value: Any) -> float:
    """Read a finite number, which rounding may have made negative; NaN for null."""
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_MAX_FLOAT <= value <= _MAX_FLOAT:
        refuse("impurity", "a finite number or null")
    return float(value)
