"""The library's sentences as the command line writes them: in one line, and with options for Python's arguments."""

from __future__ import annotations

import ast
import re
import shlex

from truewood._formatting import in_one_line
from truewood.tabular._errors import TableError, UnknownFormatError

# Options whose names are not those of the arguments; the table itself has none.
_OPTIONS = {"dtypes": "--dtype", "n_estimators": "--n-estimators", "saved_model": "--model-file", "table": None}
_SINGLE_QUOTED, _DOUBLE_QUOTED = r"'(?:[^'\\]|\\.)*'", r'"(?:[^"\\]|\\.)*"'
# Such as task='regression', drop=['x'], keep=[...], max_depth=3 and trust_pickle=True.
_MENTION = re.compile(
    rf"""(?<![\w'"/])(drop|keep|max_depth|max_features|measure|min_samples_leaf|model|n_estimators|groups|"""
    rf"""sample|sample_weight|task|test_size|trust_pickle)="""
    rf"""(\[(?:{_SINGLE_QUOTED}|{_DOUBLE_QUOTED})\]|\[\.\.\.\]|{_SINGLE_QUOTED}|\d+(?:\.\d+)?|True)"""
)
_KIND = re.compile(rf"dtypes=\{{({_SINGLE_QUOTED}|{_DOUBLE_QUOTED}): '(\w+)'\}}")

# Arguments that are options of other names.
_PHRASES = {"contributions=True": "--contributions", "same_rows=False": "--different-rows"}

# Threads, shared libraries and objects of C++ for which no memory is left.
_NO_MEMORY = re.compile(r"can't start new thread|failed to map segment|bad_alloc|cannot allocate memory", re.IGNORECASE)


def as_options(text: str) -> str:
    """Text that mentions options where the library mentions arguments: --task regression for task='regression'."""
    for phrase, option in _PHRASES.items():
        text = text.replace(phrase, option)
    text = _KIND.sub(lambda mention: f"--dtype {shlex.quote(f'{ast.literal_eval(mention[1])}={mention[2]}')}", text)
    return _MENTION.sub(_make_option, text)


def _make_option(mention: re.Match[str]) -> str:
    argument, value = mention.groups()
    option = f"--{argument.replace('_', '-')}"
    if value == "True":
        return option
    if value == "[...]":
        return f"{option} COLUMN"
    # Names of columns stay in quotes, as a shell needs them if they hold blanks.
    return f"{option} {value[1:-1]}" if value.startswith("[") else f"{option} {value.strip(chr(39))}"


def describe_error(error: Exception) -> str:
    """What is wrong, in one line that names the option."""
    text = str(error)
    if isinstance(error, TableError):
        option = _OPTIONS.get(error.argument, f"--{error.argument.replace('_', '-')}")
        text = error.reason if option is None else f"{option}: {error.reason}"
    if isinstance(error, UnknownFormatError):
        text += "; a file of another name can be passed as standard input: truewood importance - < FILE"
    if isinstance(error, OSError) and error.filename is not None:
        text = f"{error.filename}: {error.strerror}"
    if lacks_memory(error):
        text = f"not enough memory{f' ({text})' if text else ''}; take a part of the rows, or fewer columns with --drop"
    return in_one_line(" ".join(as_options(text).split()))


def lacks_memory(error: Exception) -> bool:
    """Whether an error says that there is too little memory: Python's own, or what libraries make of it."""
    if isinstance(error, TableError):
        return False  # a damaged file may claim any size, and is named
    return isinstance(error, MemoryError) or _NO_MEMORY.search(str(error)) is not None
