"""Write the library's messages and errors for the command line: one line each, with options for arguments."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from truewood._cli.streams import write_message
from truewood._formatting import in_one_line
from truewood._message import Message, as_message, get_message
from truewood.tabular import Messages, TableError
from truewood.tabular._errors import UnknownFormatError

# Options that are not spelled like the argument; DATA is not an option.
_OPTIONS = {
    "dtypes": "--dtype",
    "saved_model": "--model-file",
    "same_rows": "--different-rows",
    "address": "--scheduler or --master",
}
# How libraries report that threads, shared libraries or C++ objects cannot be allocated.
_NO_MEMORY = re.compile(r"can't start new thread|failed to map segment|bad_alloc|cannot allocate memory", re.IGNORECASE)


def render(text: str) -> str:
    """Write a message with options for the arguments that it suggests, in one line."""
    return in_one_line(as_message(text).render(spell_option))


def spell_option(argument: str, value: Any) -> str:
    """Write an argument as options that can be pasted into a shell.

    Examples
    --------
    >>> from truewood._cli.messages import spell_option
    >>> spell_option("drop", ["a b", "-c"]), spell_option("dtypes", {"height": "number"})
    ("--drop 'a b' --drop=-c", '--dtype height=number')
    """
    option = _name_option(argument)
    if isinstance(value, bool):
        return option
    values = [f"{name}={dtype}" for name, dtype in value.items()] if isinstance(value, Mapping) else value
    values = values if isinstance(values, list | tuple) else [values]
    return " ".join(f"{option}{'=' if str(item).startswith('-') else ' '}{shlex.quote(str(item))}" for item in values)


def _name_option(argument: str) -> str:
    return _OPTIONS.get(argument, f"--{argument.replace('_', '-')}")


def make_messages(*, is_quiet: bool) -> Messages:
    """Collect messages and warnings, and write them to standard error, one line each."""

    def show_message(message: Message) -> None:
        write_message(render(message))

    def show_warning(message: Message) -> None:
        write_message(f"truewood: warning: {render(message)}")

    return Messages(None if is_quiet else show_message, show_warning)


def describe_error(error: Exception) -> str:
    """Describe an error in one line that names the option."""
    text = get_message(error).render(spell_option)
    if isinstance(error, TableError):
        reason = as_message(error.reason).render(spell_option)
        text = reason if error.argument == "table" else f"{_name_option(error.argument)}: {reason}"
    if isinstance(error, UnknownFormatError):
        text += " Files with other names can be passed as standard input: truewood importance - < FILE"
    if isinstance(error, OSError) and error.filename is not None:
        is_missing = isinstance(error, FileNotFoundError)
        text = f"{error.filename} does not exist." if is_missing else f"{error.filename}: {error.strerror}"
    if lacks_memory(error):
        text = f"not enough memory{f' ({text})' if text else ''}; use fewer rows, or fewer columns with --drop"
    return in_one_line(" ".join(text.split()))


def lacks_memory(error: Exception) -> bool:
    """Whether an error means that memory ran out, in Python or in a library."""
    if isinstance(error, TableError):
        return False  # a damaged file may claim any size, and is named
    return isinstance(error, MemoryError) or _NO_MEMORY.search(str(error)) is not None
