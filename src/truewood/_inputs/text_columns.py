"""The error of a fit that gets text: which columns hold it, and how to encode them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import narwhals as nw
import pandas as pd

from truewood._formatting import list_names, quote
from truewood._inputs.table_types import read_names
from truewood._refitting import find_model


@contextmanager
def name_text_columns(X: Any, estimator: Any) -> Iterator[None]:
    """Name the columns with text, and a remedy, if the fit of an estimator fails because of them."""
    try:
        yield
    except ValueError as error:
        found = _find_text(X) if "could not convert string to float" in str(error) else {}
        if not found:
            raise
        model = type(find_model(estimator)[1]).__name__
        columns = list_names([f"{name} ({quote(text)})" for name, text in found.items()])
        raise ValueError(
            f"X must have only numbers for {model}, got text in {columns}; encode it first, for example with "
            f"make_pipeline(make_column_transformer((OrdinalEncoder(), [...]), remainder='passthrough'), {model}())."
        ) from error


def _find_text(X: Any) -> dict[str, str]:
    """Find the columns with text that is no number, and the first such text of each."""
    table = nw.from_native(X, eager_only=True).to_pandas() if read_names(X) is not None else pd.DataFrame(X)
    first = {str(name): next(filter(_is_text, column), None) for name, column in table.items()}
    return {name: text for name, text in first.items() if text is not None}


def _is_text(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        float(value)
    except ValueError:
        return True
    return False
