"""Write the library's messages and errors for the command line: one line each, with options for arguments."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from truewood._arguments import get_keywords
from truewood._cli.streams import write_message
from truewood._formatting import in_one_line
from truewood._importance import importance
from truewood._message import Message, as_message, get_message
from truewood.tabular import Messages, TableError, score_saved_model
from truewood.tabular._errors import UnknownFormatError

# Options that are not spelled like the argument; the others are, with dashes.
_OPTIONS = {
    "dtypes": "--dtype",
    "saved_model": "--model-file",
    "same_rows": "--different-rows",
    "address": "--scheduler or --master",
    "feature_groups": "--group-correlated",
}
# Arguments of `importance` that are options, too; its `target` and `model` are not --target and --model.
_SHARED = ({*get_keywords(importance)} & {*get_keywords(score_saved_model)}) | {"feature_groups"}
# Arguments that are other options, or follow from options, which are added in parentheses.
_RELATED = {
    "rows='heldout'": "--test-size",
    "rows='oob'": "no --cv, --test-size or --groups",
    "same_rows=True": "the default; otherwise --different-rows",
    "cv=GroupKFold()": "--groups",
    "cv=StratifiedKFold()": "--cv",
}
# In texts: measure='ufi', contributions=True, groups=, or an argument as the first word. Not in paths (a/groups=1/b).
_IN_TEXT = re.compile(r"(?<![^\s(])(\w+)=('[^']*'|True|False|\w+\(\))?(?=[\s.,;:)]|$)")
_FIRST_WORD = re.compile(rf"({'|'.join(sorted(_SHARED))}) (?=must|cannot|needs)")
# How libraries report that threads, shared libraries or C++ objects cannot be allocated.
_NO_MEMORY = re.compile(r"can't start new thread|failed to map segment|bad_alloc|cannot allocate memory", re.IGNORECASE)


def render(text: str) -> str:
    """Write a message with options for the arguments that it suggests, in one line."""
    message = as_message(text)
    return in_one_line(message.render(spell_option) if message.hint else translate(message))


def translate(text: str) -> str:
    """Write the arguments in a text for Python users as options.

    Examples
    --------
    >>> from truewood._cli.message_text import translate
    >>> translate("measure='sobol_mda' needs more rows; use measure='ufi'.")
    '--measure sobol_mda needs more rows; use --measure ufi.'
    >>> translate("no tree has evaluation rows; pass rows='heldout'.")
    "no tree has evaluation rows; pass rows='heldout' (--test-size)."
    """

    def spell(match: re.Match[str]) -> str:
        if match[0] in _RELATED:
            return f"{match[0]} ({_RELATED[match[0]]})"
        if match[1] not in _SHARED:
            return match[0]
        value = (match[2] or "").strip("'")
        return name_option(match[1]) if value in ("", "True", "False") else spell_option(match[1], value)

    return _FIRST_WORD.sub(lambda match: f"{name_option(match[1])} ", _IN_TEXT.sub(spell, text), count=1)


def spell_option(argument: str, value: Any) -> str:
    """Write an argument as options that can be pasted into a shell.

    Examples
    --------
    >>> from truewood._cli.message_text import spell_option
    >>> spell_option("drop", ["a b", "-c"]), spell_option("dtypes", {"height": "number"})
    ("--drop 'a b' --drop=-c", '--dtype height=number')
    """
    option = name_option(argument)
    if isinstance(value, bool) or argument == "feature_groups":
        return option
    values = [f"{name}={dtype}" for name, dtype in value.items()] if isinstance(value, Mapping) else value
    values = values if isinstance(values, list | tuple) else [values]
    return " ".join(f"{option}{'=' if str(item).startswith('-') else ' '}{shlex.quote(str(item))}" for item in values)


def name_option(argument: str) -> str:
    """Return the option for an argument."""
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
    message = get_message(error)
    text = message.render(spell_option) if message.hint else translate(message)
    if isinstance(error, TableError):
        reason = as_message(error.reason).render(spell_option)
        text = reason if error.argument == "table" else f"{name_option(error.argument)}: {reason}"
    if isinstance(error, UnknownFormatError):
        text += " To read a file with another name, pass it as standard input: - < FILE"
    if isinstance(error, OSError) and error.filename is not None:
        is_missing = isinstance(error, FileNotFoundError)
        text = f"{error.filename} does not exist." if is_missing else f"{error.filename}: {error.strerror}"
    if lacks_memory(error):
        text = f"not enough memory{f' ({text})' if text else ''}; use fewer rows, or fewer columns with --drop"
    return in_one_line(" ".join(text.split()))


def lacks_memory(error: Exception) -> bool:
    """Whether an error means that memory ran out, in Python or in a library."""
    if isinstance(error, TableError):
        return False  # names the file, which may be damaged and claim any size
    return isinstance(error, MemoryError) or _NO_MEMORY.search(str(error)) is not None
