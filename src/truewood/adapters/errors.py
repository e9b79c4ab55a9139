"""`AdapterError`: an adapter that says of a model what cannot be."""

from __future__ import annotations


class AdapterError(ValueError):
    """An adapter gives trees, leaves or rows that contradict what it says of the model."""
