"""`load()`: results of any kind from JSON files."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path

from truewood._arguments import check_path
from truewood._results import interactions_files
from truewood._results.importance_result import ImportanceResult
from truewood._results.interactions import Interactions
from truewood._results.json_files import load as load_importance


def load(path: str | PathLike[str]) -> ImportanceResult | Interactions:
    """Load a result from a file that `ImportanceResult.save` or `Interactions.save` wrote.

    Parameters
    ----------
    path : str or path
        The file to read.

    Returns
    -------
    ImportanceResult or Interactions
        The saved result, identical to the last bit.

    Raises
    ------
    ValueError
        If the file was not written by `save`, or was changed afterwards.
    """
    check_path(path, "path")
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        content = None
    if isinstance(content, dict) and content.get("format") == interactions_files.FORMAT:
        return interactions_files.read_interactions(content, path)
    return load_importance(path)
