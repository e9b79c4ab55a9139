"""Whether the parts of a source agree on what their columns are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from truewood.words import list_names, quote

# Names that a sentence lists before it counts the rest.
_LISTED = 5


def find_types(schemas: Sequence[tuple[str, Any]], columns: Sequence[str]) -> dict[str, Any]:
    """Types of some columns, which all parts have to agree about; numbers are numbers, and nulls are of any type.

    Parameters
    ----------
    schemas : sequence of (str, Schema)
        The name of each part, and its schema in the terms of Arrow.
    columns : sequence of str
        Columns that every part must have.
    """
    import pyarrow as pa

    types: dict[str, tuple[Any, str]] = {}
    for label, schema in schemas:
        for name in columns:
            if schema.names.count(name) != 1:
                has = list_names(schema.names, _LISTED)
                raise ValueError(f"{label} must have a column {quote(name)} once, and has the columns {has}.")
            own = schema.field(name).type
            known, first = types.setdefault(name, (own, label))
            if pa.types.is_null(known):
                types[name] = own, label
            elif not pa.types.is_null(own) and _find_kind(own) != _find_kind(known):
                raise ValueError(f"column {quote(name)} is {own} in {label}, and {known} in {first}.")
    return {name: known for name, (known, _) in types.items()}


def _find_kind(of: Any) -> str:
    """What has to be the same in all parts."""
    import pyarrow as pa

    if pa.types.is_dictionary(of):
        return f"dictionary of {_find_kind(of.value_type)}"
    if pa.types.is_integer(of) or pa.types.is_floating(of) or pa.types.is_boolean(of):
        return "number"
    return "text" if pa.types.is_string(of) or pa.types.is_large_string(of) else str(of)
