"""`ColumnTable`: the columns of a table with their types, which can be changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nicegui import ui

from truewood.tabular._columns.columns import DATE, GROUPS, IDENTIFIER, TEXT
from truewood.tabular._columns.target_column import WHY_NO_TARGET

_ROWS_PER_PAGE = 25
# Types that can be chosen, and what `score_table` calls them.
_DTYPES = {"number": "number", "category": "category", "date": "date", "left out": "drop"}
# The choices for a column that nearly determines the target.
_LEAK, _KEPT = "left out (possible leak)", "use anyway"
_OVERRIDE = " To predict it anyway, change its type below."
_NAME_CELL = """
<q-td :props="props">
  <div class="name">{{ props.row.name }}</div>
  <div class="note" v-if="props.row.content">{{ props.row.content }}</div>
  <div class="note" v-if="props.row.note">{{ props.row.note }}</div>
</q-td>
"""
_TYPE_CELL = """
<q-td :props="props">
  <span v-if="props.row.role" class="role">{{ props.row.role }}</span>
  <select v-if="!props.row.role || props.row.is_refused" :value="props.row.choice"
    :aria-label="'Type of ' + props.row.name"
    @change="(event) => $parent.$emit('choose', {name: props.row.name, choice: event.target.value})">
    <option v-for="choice in props.row.choices" :value="choice">{{ choice }}</option>
  </select>
</q-td>
"""


class ColumnTable:
    """A searchable table of columns with a type selector for each.

    Parameters
    ----------
    on_choice : callable
        Called when the user has chosen the type of a column.
    """

    def __init__(self, on_choice: Callable[[], None]) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.is_locked = False
        self._target: str | None = None
        self._on_choice = on_choice
        self._search = ui.input(placeholder="Search columns").props("dense outlined clearable")
        self._grid = ui.table(
            rows=[],
            columns=[
                {"name": "name", "label": "Column", "field": "name", "align": "left"},
                {"name": "type", "label": "Type", "field": "choice", "align": "left"},
            ],
            row_key="name",
            pagination=_ROWS_PER_PAGE,
        ).props("flat")
        self._grid.bind_filter_from(self._search, "value")
        self._grid.add_slot("body-cell-name", _NAME_CELL)
        self._grid.add_slot("body-cell-type", _TYPE_CELL)
        self._grid.on("choose", lambda event: self._choose(**event.args))

    def fill(self, columns: list[dict[str, Any]]) -> None:
        """Show the columns of a new table, each with the fields of `ColumnDescription`."""
        self.rows = {column["name"]: _make_row(column) for column in columns}
        self._target = None
        self._search.set_value("")
        self._search.set_visibility(len(columns) > _ROWS_PER_PAGE)
        self._grid.props["hide-pagination"] = len(columns) <= _ROWS_PER_PAGE
        self.mark_roles({})

    def mark_roles(self, roles: Mapping[str | None, str]) -> None:
        """Mark the columns that are not features, and forget the leaks that were found for another target."""
        target = next((name for name, role in roles.items() if role in ("target", "time")), None)
        if target != self._target:
            for row in self.rows.values():
                if row["choices"][0] == _LEAK:
                    row["choices"] = row["all_choices"]
                    row["choice"] = row["choices"][0]
            self._target = target
        for name, row in self.rows.items():
            row["role"] = roles.get(name)
            row["is_refused"] = name == target and row["dtype"] in WHY_NO_TARGET
        self._show()

    def mark_leaks(self, names: list[str]) -> None:
        """Offer to use columns that were left out because they nearly determine the target."""
        for name in names:
            self.rows[name] |= {"choice": _LEAK, "choices": [_LEAK, _KEPT]}
        self._show()

    def refuse_target(self, name: str) -> str:
        """Say why a column cannot be the target; empty if it can, or if the user has set its type."""
        row = self.rows[name]
        if row["dtype"] not in WHY_NO_TARGET or row["choice"] in ("number", "category"):
            return ""
        can_be_read = row["dtype"] in (IDENTIFIER, GROUPS, TEXT, DATE)
        return f"{name} {WHY_NO_TARGET[row['dtype']]}; choose another target.{_OVERRIDE * can_be_read}"

    def list_dtypes(self) -> dict[str, str]:
        """List the types that the user has changed."""
        return {
            name: _DTYPES[row["choice"]]
            for name, row in self.rows.items()
            if row["choice"] in _DTYPES and row["choice"] != row["choices"][0] and self._can_set(row)
        }

    def list_kept(self) -> list[str]:
        """List the columns to use although they may leak the target."""
        return [name for name, row in self.rows.items() if row["choice"] == _KEPT and row["role"] is None]

    def _can_set(self, row: dict[str, Any]) -> bool:
        """Whether the type of a column is shown, so that the user sees what counts."""
        return row["role"] is None or bool(row["is_refused"])

    def _choose(self, name: str, choice: str) -> None:
        if not self.is_locked:
            self.rows[name]["choice"] = choice
            self._on_choice()

    def _show(self) -> None:
        self._grid.rows = list(self.rows.values())


def _make_row(column: dict[str, Any]) -> dict[str, Any]:
    """Make a row of the table; the inferred type is the first choice."""
    found = column["dtype"] if column["is_used"] else f"left out ({column['dtype']})"
    content = ["; ".join(column["examples"]), f"{column['n_missing']:,} missing" * (column["n_missing"] > 0)]
    choices = [found, *(dtype for dtype in _DTYPES if not found.startswith(dtype))]
    return {
        "name": column["name"],
        "dtype": column["dtype"],
        "note": column["note"],
        "content": "; ".join(filter(None, content)),
        "choice": found,
        "choices": choices,
        "all_choices": choices,
        "role": None,
        "is_refused": False,
    }
