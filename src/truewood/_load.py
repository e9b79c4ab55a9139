"""`load()`: results of any kind from JSON files."""

from __future__ import annotations

from os import PathLike

from truewood._results import importance_files, interactions_files
from truewood._results.importance_result import ImportanceResult
from truewood._results.interactions import Interactions
from truewood._results.json_fields import InvalidFieldError, check_version, open_json


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
    name, content = open_json(path)
    if name not in (importance_files.FORMAT, interactions_files.FORMAT):
        raise ValueError(
            f"{path} must be a file written by ImportanceResult.save or Interactions.save, or by truewood importance "
            "with --output FILE.json; the output of --json is in a different format. Save the result first."
        )
    check_version(content, path)
    try:
        if name == interactions_files.FORMAT:
            return interactions_files.read_interactions(content)
        return importance_files.read_importance(content)
    except InvalidFieldError as error:
        raise ValueError(f"{path} is damaged: {error}; save the result again.") from error
