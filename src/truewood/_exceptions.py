"""Errors and warnings that callers may want to catch; all are importable from `truewood`."""

from __future__ import annotations


class AdapterError(ValueError):
    """An adapter declared something about a model that cannot be true."""


class TrainingRowsError(ValueError):
    """Rows that a model was fit on were passed as held-out rows."""


class DeviceMemoryError(MemoryError):
    """The GPU does not have enough memory."""


class DeviceWarning(UserWarning):
    """Data on the GPU is copied to the host's memory."""


class NativeEngineWarning(UserWarning):
    """The compiled kernel is not installed, so the slower numpy engine is in use."""
