"""`ColumnTable`: the columns of a table with their types, which can be changed."""

from __future__ import annotations

from typing import Any

from nicegui import ui

_ROWS_PER_PAGE = 25
# Types that can be chosen, and what `score_table` calls them.
_DTYPES = {"number": "number", "category": "category", "date": "date", "left out": "drop"}
_NAME_CELL = """
<q-td :props="props">
  <div class="name">{{ props.row.name }}</div>
  <div class="note" v-if="props.row.content">{{ props.row.content }}</div>
  <div class="note" v-if="props.row.note">{{ props.row.note }}</div>
</q-td>
"""
_TYPE_CELL = """
<q-td :props="props">
  <span v-if="props.row.is_target" class="target">target</span>
  <select v-else :value="props.row.choice" :aria-label="'Type of ' + props.row.name"
    @change="(event) => $parent.$emit('choose', {name: props.row.name, choice: event.target.value})">
    <option v-for="choice in props.row.choices" :value="choice">{{ choice }}</option>
  </select>
</q-td>
"""


class ColumnTable:
    """A searchable table of columns with a type selector for each."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.is_locked = False
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
        self._search.set_value("")
        self._search.set_visibility(len(columns) > _ROWS_PER_PAGE)
        self._grid.props["hide-pagination"] = len(columns) <= _ROWS_PER_PAGE
        self.mark_target(None)

    def mark_target(self, target: str | None) -> None:
        """Mark a column as the target."""
        for name, row in self.rows.items():
            row["is_target"] = name == target
        self._grid.rows = list(self.rows.values())

    def list_dtypes(self) -> dict[str, str]:
        """List the types that the user has changed, except that of the target."""
        return {
            name: _DTYPES[row["choice"]]
            for name, row in self.rows.items()
            if row["choice"] != row["choices"][0] and not row["is_target"]
        }

    def _choose(self, name: str, choice: str) -> None:
        if not self.is_locked:
            self.rows[name]["choice"] = choice


def _make_row(column: dict[str, Any]) -> dict[str, Any]:
    """Make a row of the table; the inferred type is the first choice."""
    found = column["dtype"] if column["is_used"] else f"left out ({column['dtype']})"
    content = [", ".join(column["examples"]), f"{column['n_missing']:,} missing" * (column["n_missing"] > 0)]
    return {
        "name": column["name"],
        "note": column["note"],
        "content": "; ".join(filter(None, content)),
        "choice": found,
        "choices": [found, *(dtype for dtype in _DTYPES if not found.startswith(dtype))],
        "is_target": False,
    }
