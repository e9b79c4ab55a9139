"""`truewood describe`: what the columns of a table are taken for, without a fit."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

import truewood
from truewood._cli.arguments import FILE, add_columns, add_target, take_time
from truewood._cli.error_messages import as_options
from truewood._cli.output import print_json, show
from truewood._cli.streams import write_message
from truewood._formatting import in_one_line
from truewood.tabular import ColumnDescription, FileContent, Messages, describe_table
from truewood.tabular._models.many_files import is_many_files

_DESCRIPTION = """Show what truewood importance would take the columns of a table for, without
fitting a model; with --target also what is to be predicted, and which columns are
nearly the target in other words."""
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
        help="show what the columns of a table are taken for",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    data = parser.add_argument(
        "data",
        metavar="DATA",
        help="CSV, TSV, JSON lines, Parquet or Feather file, also with .gz, or Excel file; - is standard input",
    )
    data.complete = FILE
    add_target(parser, "the column to predict")
    add_columns(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Read, print."""
    take_time(options)
    messages = make_messages(is_quiet=False)
    columns = _describe(options, messages)
    if options.json:
        print_json(_summarise(options, columns, messages))
    else:
        show([_tabulate(columns, options)], sys.stdout)


def list_columns(options: argparse.Namespace) -> None:
    """Show the columns of a file on standard error, for a user who has not named the target."""
    if not is_many_files(options.data):
        show([_tabulate(_describe(options, Messages()), options)], sys.stderr)


def find_table(data: str) -> str | FileContent:
    """The file, or standard input."""
    return FileContent("standard input", sys.stdin.buffer.read()) if data == "-" else data


def make_messages(*, is_quiet: bool) -> Messages:
    """Messages and warnings that go to standard error, one line each."""

    def show_message(text: str) -> None:
        write_message(in_one_line(as_options(text)))

    def show_warning(text: str) -> None:
        show_message(f"truewood: warning: {text}")

    return Messages(None if is_quiet else show_message, show_warning)


def _describe(options: argparse.Namespace, messages: Messages) -> list[ColumnDescription]:
    return describe_table(
        find_table(options.data),
        target=options.target,
        task=options.task,
        drop=options.drop,
        keep=options.keep,
        dtypes=options.dtypes,
        event=options.event,
        messages=messages,
    )


def _tabulate(columns: Sequence[ColumnDescription], options: argparse.Namespace) -> Table:
    roles = {options.target: "target" if options.event is None else "time", options.event: "event"}
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("column", overflow="fold", min_width=12)
    table.add_column("taken for", overflow="fold", min_width=10)
    table.add_column("missing", justify="right", no_wrap=True)
    table.add_column("different", justify="right", no_wrap=True)
    table.add_column("such as", overflow="ellipsis", no_wrap=True)
    for column in columns:
        table.add_row(
            Text(in_one_line(column.name)),
            roles.get(column.name) or column.dtype + ", left out" * (not column.is_used),
            f"{column.n_missing:,}",
            f"{column.n_distinct:,}",
            Text(in_one_line(", ".join(column.examples))),
        )
    return table


def _summarise(options: argparse.Namespace, columns: Sequence[ColumnDescription], messages: Messages) -> dict[str, Any]:
    """Everything there is to know, for JSON."""
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
                "note": None if column.note is None else as_options(column.note),
                "n_missing": column.n_missing,
                "n_distinct": column.n_distinct,
                "examples": column.examples,
            }
            for column in columns
        ],
        "messages": list(map(as_options, messages.messages)),
        "warnings": list(map(as_options, messages.warnings)),
    }
