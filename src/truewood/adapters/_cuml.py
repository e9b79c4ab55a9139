"""cuML's random forests, which cuML exports as a treelite model; classes are numbers from 0."""

from __future__ import annotations

from typing import Any

from sklearn.exceptions import NotFittedError

from truewood.adapters import _treelite
from truewood.adapters._tree_model import TreeModel


def open_model(model: Any) -> TreeModel:
    """Read a fitted forest."""
    name = type(model).__name__
    if not hasattr(model, "as_treelite"):
        raise TypeError(
            f"{name} must have as_treelite(), which cuML has since 25.6; upgrade cuML, or pass a treelite.Model."
        )
    try:
        trees = model.as_treelite()
    except AttributeError as error:
        raise NotFittedError(f"{name} is not fitted; fit it before its splits are scored.") from error
    return _treelite.open_model(trees)
