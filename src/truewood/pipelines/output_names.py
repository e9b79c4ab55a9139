"""What the names of output columns tell: the inputs they derive from, where a transformer names its outputs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np

from truewood.pipelines.walking import list_transformers

# Names that are no part of each other, nor of a category's name: 'a_b_c' may be of column 'a' or of column 'a_b'.
_MARK = re.compile("\x1f([0-9]+)\x1f")


def spell_outputs(transformer: Any, n_inputs: int) -> list[str]:
    """Names of the outputs for inputs whose names are marks; none if the transformer does not tell."""
    marks = np.array([f"\x1f{j}\x1f" for j in range(n_inputs)], dtype=object)
    try:
        renamed = copy(transformer)
        # Input names have to be those of the fit, where the transformer knows these.
        renamed.feature_names_in_ = marks
        return [str(name) for name in renamed.get_feature_names_out(marks)]
    except Exception:  # a transformer of any library, or a function of the user's, may fail in any way
        return []


def find_marks(name: str) -> frozenset[int]:
    """Numbers of the inputs whose marks are in a name."""
    return frozenset(int(j) for j in _MARK.findall(name))


def replace_marks(name: str, names: Sequence[str]) -> str:
    """A name with the names of the inputs where their marks are."""
    return _MARK.sub(lambda mark: names[int(mark[1])], name)


def has_telling_names(transformer: Any) -> bool:
    """Whether names alone tell what each output of fitted preprocessing derives from."""
    parts = list(list_transformers(transformer))
    spelled = [spell_outputs(part, getattr(part, "n_features_in_", 0)) for part in parts]
    return all(names and all(map(_MARK.search, names)) for names in spelled)
