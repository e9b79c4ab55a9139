"""Errors about rows that other code has to recognise."""

from __future__ import annotations


class TrainingRowsError(ValueError):
    """Rows that a model was fit on were passed as rows it never saw."""
