"""What there is to say while a table is scored: messages of what was done or assumed, and warnings."""

from __future__ import annotations

import re
from collections.abc import Callable

from truewood._arguments import check_type

Show = Callable[[str], None]
# Such as task='regression', keep=[...] and dtypes={'height': 'number'}.
_ARGUMENT = re.compile(r"""(?<![\w'"/])[a-z_]+=(?:[\['{\d]|True|False)""")


def without_hints(text: str) -> str:
    """Text without the clauses that mention arguments, for readers who give none; all where nothing would be left.

    Examples
    --------
    >>> from truewood.tabular._messages import without_hints
    >>> without_hints("left out: id (names the rows; keep=[...] uses it all the same)")
    'left out: id (names the rows)'
    """
    clauses = [clause for clause in re.split(r"; |(?<=\.) (?=If so, )", text) if not _ARGUMENT.search(clause)]
    if not clauses:
        return text
    kept = "; ".join(clauses)
    return kept + ")" * (kept.count("(") - kept.count(")"))


class Messages:
    """Collect messages and warnings, and show them as they come.

    Parameters
    ----------
    show_message, show_warning : callable, default=None
        Take each text at once; None only collects.

    Attributes
    ----------
    messages : list of str
        What was done or assumed.
    warnings : list of str
        What makes the scores doubtful.

    Examples
    --------
    >>> from truewood.tabular import Messages
    >>> heard = Messages(show_message=print)
    >>> heard.add("read data.csv: 300 rows")
    read data.csv: 300 rows
    """

    def __init__(self, show_message: Show | None = None, show_warning: Show | None = None) -> None:
        self._show_message = show_message
        self._show_warning = show_warning
        self.messages: list[str] = []
        self.warnings: list[str] = []

    def add(self, text: str) -> None:
        """Add a message."""
        self.messages.append(text)
        if self._show_message is not None:
            self._show_message(text)

    def warn(self, text: str) -> None:
        """Add a warning."""
        self.warnings.append(text)
        if self._show_warning is not None:
            self._show_warning(text)


def read_messages(messages: Messages | None) -> Messages:
    """The argument `messages`, or new ones for None."""
    if messages is None:
        return Messages()
    check_type(messages, Messages, "messages", "Messages or None")
    return messages
