"""`Interactions` as JSON files: saved to the last bit, and validated when loaded."""

from __future__ import annotations

from dataclasses import fields
from os import PathLike
from typing import Any

import numpy as np

from truewood._formatting import ROWS_IN_WORDS
from truewood._results.interactions import Interactions
from truewood._results.json_fields import is_text, read_count, read_names, read_notes, read_numbers, refuse, save_json
from truewood._results.pair_surfaces import JointSurfaces

FORMAT = "truewood.Interactions"

_CHOICES = {
    "scale": ("response", "raw score"),
    "task": ("classification", "regression"),
    "rows": tuple(ROWS_IN_WORDS),
}


def save(result: Interactions, path: str | PathLike[str]) -> None:
    """Save a result; see `Interactions.save`."""
    save_json(result, path, FORMAT)


def _check_fields(content: Any, kind: type, name: str) -> None:
    if not isinstance(content, dict) or content.keys() != {part.name for part in fields(kind)}:
        refuse(name, f"an object with the fields of {kind.__name__}")


def read_interactions(content: dict[str, Any]) -> Interactions:
    """Build a result from the fields of a file, after validating each of them."""
    _check_fields(content, Interactions, "the file")
    names = read_names("feature_names", content["feature_names"])
    pairs = read_numbers("pairs", content["pairs"], (None, 2), np.int64)
    n_pairs, n_features = len(pairs), len(names)
    if not ((pairs >= 0) & (pairs < n_features)).all() or not (pairs[:, 0] < pairs[:, 1]).all():
        refuse("pairs", f"ascending pairs of numbers from 0 to {n_features - 1}")
    reason = content["inference_unavailable"]
    if reason is not None and not is_text(reason):
        refuse("inference_unavailable", "text or null")
    read: dict[str, Any] = {"feature_names": names, "pairs": pairs, "inference_unavailable": reason}
    for name in ("values", "bias_bound", "dependence"):
        read[name] = read_numbers(name, content[name], (n_pairs,), has_nan=True)
        if np.isnan(read[name]).any():
            refuse(name, f"{n_pairs} numbers")
    for name in ("share", "std_error", "null_std_error"):
        read[name] = read_numbers(name, content[name], (n_pairs,), has_nan=True)
    if (read["std_error"] < 0).any() or (read["null_std_error"] < 0).any() or (read["bias_bound"] < 0).any():
        refuse("std_error, null_std_error and bias_bound", "nonnegative")
    for name, choices in _CHOICES.items():
        if not isinstance(content[name], str) or content[name] not in choices:
            refuse(name, f"one of {', '.join(choices)}")
        read[name] = content[name]
    for name in ("n_possible", "n_rows", "n_trees"):
        read[name] = read_count(name, content[name])
    read["n_groups"] = None if content["n_groups"] is None else read_count("n_groups", content["n_groups"])
    read["impurity"] = float(read_numbers("impurity", [content["impurity"]], (1,), has_nan=True)[0])
    outputs, notes = content["output_names"], content["notes"]
    read["output_names"] = None if outputs is None else read_names("output_names", outputs)
    read["notes"] = read_notes(notes)
    n_columns = 1 if outputs is None else len(outputs)
    surfaces = content["surfaces"]
    read["surfaces"] = None if surfaces is None else _read_surfaces(surfaces, n_pairs, n_features, n_columns)
    return Interactions(**read)


def _read_surfaces(content: Any, n_pairs: int, n_features: int, n_columns: int) -> JointSurfaces:
    _check_fields(content, JointSurfaces, "surfaces")
    pairs = read_numbers("pairs of surfaces", content["pairs"], (None,), np.int64)
    if not ((pairs >= 0) & (pairs < n_pairs)).all():
        refuse("pairs of surfaces", f"numbers from 0 to {n_pairs - 1}")
    levels = read_numbers("levels", content["levels"], (n_features, None), has_nan=True)
    n_cells, names = levels.shape[1], content["level_names"]
    is_list = isinstance(names, list) and all(isinstance(own, list) and all(map(is_text, own)) for own in names)
    if not is_list or [len(own) for own in names] != [n_cells] * n_features:
        refuse("level_names", f"{n_features} lists of {n_cells} texts")
    cells = (len(pairs), n_columns, n_cells, n_cells)
    means = {name: read_numbers(name, content[name], cells, has_nan=True) for name in ("joint", "combined", "observed")}
    n_rows = read_numbers("n_rows of surfaces", content["n_rows"], (len(pairs), n_cells, n_cells), np.int64)
    return JointSurfaces(pairs=pairs, levels=levels, level_names=np.array(names, dtype=np.str_), n_rows=n_rows, **means)
