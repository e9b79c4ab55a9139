"""Argument parsing: one-line errors, arguments that several commands share, number types, shell completion."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

from truewood._cli.message_text import name_option
from truewood._extras import explain_missing
from truewood.tabular import FileContent
from truewood.tabular._files.reading import FORMATS

# shtab's file name completion for each shell.
FILE = {
    "bash": "_shtab_compgen_files",
    "zsh": "_files",
    "tcsh": "f",
    "fish": "(__fish_complete_path (commandline -ct))",
}
SHELLS = tuple(FILE)


class Parser(argparse.ArgumentParser):
    """A parser that reports errors in one line."""

    def error(self, message: str) -> NoReturn:
        """Print the error and exit with code 2."""
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Report unrecognized arguments here, so that the error points to the help of the subcommand."""
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return options, unknown


class Once(argparse.Action):
    """An option that can be given only once."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: str | None = None) -> None:
        """Store the value, unless there is one."""
        del parser, option
        if getattr(namespace, self.dest) is not None:
            raise argparse.ArgumentError(self, "can be given only once")
        setattr(namespace, self.dest, values)


class Dtypes(argparse.Action):
    """An option COLUMN=TYPE that can be repeated for several columns."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: str | None = None) -> None:
        """Add a column."""
        del parser, option
        dtypes = dict(getattr(namespace, self.dest))
        name, mark, dtype = str(values).rpartition("=")
        if not mark or not name:
            raise argparse.ArgumentError(self, f"must be COLUMN=TYPE, such as height=number, got {values}")
        if name in dtypes:
            raise argparse.ArgumentError(self, f"can be given only once for {name}")
        setattr(namespace, self.dest, dtypes | {name: dtype})


class PrintCompletion(argparse.Action):
    """Print the completion script for a shell."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: str | None = None) -> None:
        """Print and exit."""
        del namespace
        if (problem := explain_missing(f"{option} needs", ["shtab"], "cli")) is not None:
            parser.error(problem)
        import shtab

        sys.stdout.write(shtab.complete(parser, str(values)) + "\n")
        parser.exit(0)


def add_data(parser: argparse.ArgumentParser, also: str = "") -> None:
    """Add the argument DATA; `also` continues its help."""
    data: Any = parser.add_argument("data", metavar="DATA", help=f"{FORMATS} file, or - for standard input{also}")
    data.complete = FILE


def add_target(parser: argparse.ArgumentParser, help_of_target: str) -> None:
    """Add the options that define the target."""
    parser.add_argument("--target", action=Once, metavar="COLUMN", help=help_of_target)
    parser.add_argument("--time", action=Once, metavar="COLUMN", help="column of survival times, instead of --target")
    parser.add_argument(
        "--event",
        action=Once,
        metavar="COLUMN",
        help="column of event indicators, with --time: true or 1 for an event, false or 0 for censoring (or, as in R, "
        "2 for an event and 1 for censoring); truewood importance then fits a survival forest",
    )


def use_time_as_target(options: argparse.Namespace) -> None:
    """Make --time the target if --event is given."""
    if options.time is None and options.event is None:
        return
    if options.time is None:
        raise ValueError("--event: needs survival times; pass their column as --time, instead of --target.")
    if options.event is None:
        raise ValueError("--time: needs event indicators; pass their column as --event.")
    for argument in ("target", "task", "saved_model"):
        if getattr(options, argument, None) is not None:
            raise ValueError(f"{name_option(argument)}: cannot be combined with --time and --event.")
    options.target = options.time


def add_columns(parser: argparse.ArgumentParser) -> None:
    """Add the options that define columns."""
    parser.add_argument(
        "--task", choices=["classification", "regression"], help="task (default: inferred from the target)"
    )
    parser.add_argument("--drop", action="append", default=[], metavar="COLUMN", help="drop a column; can be repeated")
    parser.add_argument(
        "--keep",
        action="append",
        default=[],
        metavar="COLUMN",
        help="use a column even if it looks like an identifier, target leakage or free text; can be repeated",
    )
    parser.add_argument(
        "--dtype",
        dest="dtypes",
        action=Dtypes,
        default={},
        metavar="COLUMN=TYPE",
        help="set the type of a column: number, category, date, date:FORMAT (such as date:%%d.%%m.%%Y), text or "
        "drop (both leave the column out); default: inferred; can be repeated",
    )


def take_options(options: argparse.Namespace, arguments: Iterable[str]) -> dict[str, Any]:
    """Return the options that are given or have a default, for those of some arguments that are options."""
    given = {name: getattr(options, name, None) for name in arguments}
    return {name: value for name, value in given.items() if value is not None}


def open_data(data: str) -> str | FileContent:
    """Return the path of the argument DATA, or the content of standard input."""
    return FileContent("standard input", sys.stdin.buffer.read()) if data == "-" else data


def positive(text: str) -> int:
    """Parse an integer >= 1."""
    return _at_least(1, text)


def not_negative(text: str) -> int:
    """Parse an integer >= 0."""
    return _at_least(0, text)


def at_least_two(text: str) -> int:
    """Parse an integer >= 2."""
    return _at_least(2, text)


def _at_least(least: int, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise argparse.ArgumentTypeError(f"must be an integer >= {least}, got {text}")
    return number


def rows_to_use(text: str) -> int | str:
    """Parse a number of rows, or "all"."""
    if text in ("all", "0"):
        return "all"
    if text.isdecimal():
        return int(text)
    raise argparse.ArgumentTypeError(f"must be a number of rows or all, got {text}")


def add_result_options(parser: Any, files: str) -> None:
    """Add what is shown of a result, and the files to write it to."""
    parser.add_argument("--alpha", type=fraction, default=0.05, help="false discovery rate (default: %(default)s)")
    parser.add_argument(
        "--top", type=positive, default=20, metavar="N", help="number of features to print (default: %(default)s)"
    )
    parser.add_argument(
        "--output",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help=f"write a file: {files}; can be repeated",
    ).complete = FILE


def columns_to_try(text: str) -> int | float | str:
    """Parse `max_features`."""
    if text in ("sqrt", "log2"):
        return text
    if text == "all":
        return 1.0
    try:
        return positive(text) if text.isdecimal() else fraction(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(
            f"must be sqrt, log2, all, a number of columns, or a fraction between 0 and 1, got {text}"
        ) from error


def jobs(text: str) -> int:
    """Parse a number of threads."""
    if text.lstrip("-").isdecimal() and int(text) != 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"must be a number of threads, or -1 for all cores, got {text}")


def fraction(text: str) -> float:
    """Parse a number between 0 and 1."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 1:
        raise argparse.ArgumentTypeError(f"must be a number between 0 and 1, got {text}")
    return number
