"""Errors and warnings that callers may want to catch, all importable from `truewood`; and how to warn."""

from __future__ import annotations

import os
import sys
import warnings
from types import FrameType

_PACKAGE = os.path.dirname(__file__) + os.sep


class AdapterError(ValueError):
    """An adapter fails, contradicts itself, or reads a model differently from the model's own library."""


class TrainingRowsError(ValueError):
    """Rows that a model was fit on were passed as held-out rows."""


class DeviceMemoryError(MemoryError):
    """The GPU does not have enough memory."""


class DeviceWarning(UserWarning):
    """Data on the GPU is copied to the host's memory."""


class NativeEngineWarning(UserWarning):
    """The compiled kernel is not installed, so the slower numpy engine is in use."""


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that points to the line outside truewood that the call came from."""
    level, frame = 1, sys._getframe()
    outer: FrameType | None = frame
    while outer is not None and outer.f_code.co_filename.startswith(_PACKAGE):
        level, outer = level + 1, outer.f_back
    warnings.warn(message, category, stacklevel=level)
