"""Arguments of commands: parsers that complain in one line, numbers within bounds, completion for shells."""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from typing import Any, NoReturn

# What completes file names, by shell, in the words of shtab.
FILE = {
    "bash": "_shtab_compgen_files",
    "zsh": "_files",
    "tcsh": "f",
    "fish": "(__fish_complete_path (commandline -ct))",
}
SHELLS = tuple(FILE)


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line."""

    def error(self, message: str) -> NoReturn:
        """Print the complaint and exit with code 2."""
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


class Once(argparse.Action):
    """An option that must not be given twice."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: str | None = None) -> None:
        """Keep the value, unless there is one."""
        del parser, option
        if getattr(namespace, self.dest) is not None:
            raise argparse.ArgumentError(self, "must be given once only")
        setattr(namespace, self.dest, values)


class Kinds(argparse.Action):
    """An option COLUMN=TYPE, which may be given for several columns."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: str | None = None) -> None:
        """Add to those that there are."""
        del parser, option
        kinds = dict(getattr(namespace, self.dest))
        name, mark, kind = str(values).rpartition("=")
        if not mark or not name:
            raise argparse.ArgumentError(self, f"must be COLUMN=TYPE, such as height=number, got {values}")
        if name in kinds:
            raise argparse.ArgumentError(self, f"must be given once only for {name}")
        setattr(namespace, self.dest, kinds | {name: kind})


class PrintCompletion(argparse.Action):
    """Print a script that completes the command line in a shell."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: str | None = None) -> None:
        """Print and exit."""
        del namespace
        if find_spec("shtab") is None:
            parser.error(f"{option} needs shtab, which is not installed: pip install 'truewood[cli]'")
        import shtab

        sys.stdout.write(shtab.complete(parser, str(values)) + "\n")
        parser.exit(0)


def add_target(parser: argparse.ArgumentParser, help_of_target: str) -> None:
    """Add the options that say what is to be predicted."""
    parser.add_argument("--target", action=Once, metavar="COLUMN", help=help_of_target)
    parser.add_argument(
        "--time", action=Once, metavar="COLUMN", help="instead of --target: the column of times until an event"
    )
    parser.add_argument(
        "--event",
        action=Once,
        metavar="COLUMN",
        help="with --time: the column that says whether there was an event (true and false, 0 and 1, 1 and 2); the "
        "model is a survival forest",
    )


def take_time(options: argparse.Namespace) -> None:
    """Take --time for the target, with --event."""
    if options.time is None and options.event is None:
        return
    for option in ("time", "event"):
        if getattr(options, option) is None:
            raise ValueError(f"--{option}: --time and --event go together, the time and whether there was an event.")
    for option in ("target", "task", "model_file"):
        if getattr(options, option, None) is not None:
            raise ValueError(f"--{option.replace('_', '-')}: cannot be given with --time and --event.")
    options.target = options.time


def add_columns(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what columns are."""
    parser.add_argument(
        "--task", choices=["classification", "regression"], help="what the target is (default: as it looks)"
    )
    parser.add_argument(
        "--drop", action="append", default=[], metavar="COLUMN", help="leave a column out; may be given several times"
    )
    parser.add_argument(
        "--keep",
        action="append",
        default=[],
        metavar="COLUMN",
        help="use a column though it looks like an identifier or free text; may be given several times",
    )
    parser.add_argument(
        "--dtype",
        dest="dtypes",
        action=Kinds,
        default={},
        metavar="COLUMN=TYPE",
        help="read a column as number, category, date, date:FORMAT (such as date:%%d.%%m.%%Y), text or drop (both are "
        "left out), whatever it looks like; may be given several times",
    )


def positive(text: str) -> int:
    """Read a number from 1 up."""
    return _at_least(1, text)


def not_negative(text: str) -> int:
    """Read a number from 0 up."""
    return _at_least(0, text)


def at_least_two(text: str) -> int:
    """Read a number from 2 up."""
    return _at_least(2, text)


def _at_least(least: int, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise argparse.ArgumentTypeError(f"must be a whole number from {least} up, got {text}")
    return number


def rows_to_use(text: str) -> int | str:
    """Read a number of rows, or "all"."""
    if text in ("all", "0"):
        return "all"
    if text.isdecimal():
        return int(text)
    raise argparse.ArgumentTypeError(f"must be a number of rows, or all, got {text}")


def columns_to_try(text: str) -> int | float | str:
    """Read a number of columns, a part of them, or what scikit-learn knows by name."""
    if text in ("sqrt", "log2"):
        return text
    if text == "all":
        return 1.0
    try:
        return positive(text) if text.isdecimal() else fraction(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(
            f"must be sqrt, log2, all, a number of columns, or a part of them between 0 and 1, got {text}"
        ) from error


def jobs(text: str) -> int:
    """Read a number of threads."""
    if text.lstrip("-").isdecimal() and int(text) != 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"must be a number of threads, or -1 for all cores, got {text}")


def fraction(text: str) -> float:
    """Read a number between 0 and 1."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 1:
        raise argparse.ArgumentTypeError(f"must be a number between 0 and 1, got {text}")
    return number
