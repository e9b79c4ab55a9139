"""`truewood describe`: show the inferred types of columns, without fitting a model."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

import truewood
from truewood._arguments import get_keywords
from truewood._cli.arguments import add_columns, add_data, add_target, open_data, take_options, use_time_as_target
from truewood._cli.message_text import make_messages, render
from truewood._cli.output import print_json, show
from truewood._formatting import in_one_line
from truewood.tabular import ColumnDescription, Messages, describe_table

_DESCRIPTION = """Show the type that truewood importance infers for each column, without fitting a
model. With --target, also show the task and warn about possible target leakage."""
_EXAMPLES = """examples:
  truewood describe data.csv
  truewood describe data.xlsx --target price --dtype height=number
  truewood describe patients.csv --time days --event died
  truewood describe data.parquet --json
"""


def add_command(commands: Any) -> None:
    """Add `describe` to the commands."""
    parser = commands.add_parser(
        "describe",
        help="show the inferred types of the columns of a table",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_data(parser)
    add_target(parser, "column to predict")
    add_columns(parser)
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of the table")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Read the table and print its columns."""
    use_time_as_target(options)
    messages = make_messages(is_quiet=False)
    columns = _describe(options, messages)
    if options.json:
        print_json(_summarize(options, columns, messages))
    else:
        show([_tabulate(columns, options)], sys.stdout)


def list_columns(options: argparse.Namespace) -> None:
    """Show the columns on standard error if no target is given."""
    show([_tabulate(_describe(options, Messages()), options)], sys.stderr)


def _describe(options: argparse.Namespace, messages: Messages) -> list[ColumnDescription]:
    given = take_options(options, get_keywords(describe_table))
    return describe_table(open_data(options.data), **given, messages=messages)


def _tabulate(columns: Sequence[ColumnDescription], options: argparse.Namespace) -> Table:
    roles = {options.target: "target" if options.event is None else "time", options.event: "event"}
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("column", overflow="fold", min_width=12)
    table.add_column("type", overflow="fold", min_width=10)
    table.add_column("missing", justify="right", no_wrap=True)
    table.add_column("distinct", justify="right", no_wrap=True)
    table.add_column("examples")
    for column in columns:
        table.add_row(
            Text(in_one_line(column.name)),
            roles.get(column.name) or column.dtype + ", left out" * (not column.is_used),
            f"{column.n_missing:,}",
            f"{column.n_distinct:,}",
            # Not a setting of the column: rich would then make other columns narrower first.
            Text(in_one_line("; ".join(column.examples)), no_wrap=True, overflow="ellipsis"),
        )
    return table


def _summarize(options: argparse.Namespace, columns: Sequence[ColumnDescription], messages: Messages) -> dict[str, Any]:
    """Collect all results for JSON."""
    return {
        "truewood": truewood.__version__,
        "data": options.data,
        "target": options.target,
        "event": options.event,
        "columns": [
            {
                "name": column.name,
                "dtype": column.dtype,
                "used": column.is_used and column.name not in (options.target, options.event),
                "note": None if column.note is None else render(column.note),
                "n_rows": column.n_rows,
                "n_missing": column.n_missing,
                "n_distinct": column.n_distinct,
                "examples": column.examples,
            }
            for column in columns
        ],
        "messages": list(map(render, messages.messages)),
        "warnings": list(map(render, messages.warnings)),
    }
