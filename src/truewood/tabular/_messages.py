"""`Messages`: collects messages and warnings while a table is scored."""

from __future__ import annotations

from collections.abc import Callable

from truewood._arguments import check_type
from truewood._message import Message, as_message

Show = Callable[[Message], None]


class Messages:
    """Collect messages and warnings, and show them as they arrive.

    Parameters
    ----------
    show_message, show_warning : callable, default=None
        Called with each message or warning, a str; None collects only.

    Attributes
    ----------
    messages : list of str
        What was done or assumed.
    warnings : list of str
        Reasons to doubt the scores.

    Examples
    --------
    >>> from truewood.tabular import Messages
    >>> messages = Messages(show_message=print)
    >>> messages.add("read data.csv: 300 rows")
    read data.csv: 300 rows
    """

    def __init__(self, show_message: Show | None = None, show_warning: Show | None = None) -> None:
        self._show_message = show_message
        self._show_warning = show_warning
        self.messages: list[Message] = []
        self.warnings: list[Message] = []

    def add(self, text: str) -> None:
        """Add a message."""
        message = as_message(text)
        self.messages.append(message)
        if self._show_message is not None:
            self._show_message(message)

    def warn(self, text: str) -> None:
        """Add a warning."""
        warning = as_message(text)
        self.warnings.append(warning)
        if self._show_warning is not None:
            self._show_warning(warning)


def read_messages(messages: Messages | None) -> Messages:
    """Return the argument `messages`, or a new collector for None."""
    if messages is None:
        return Messages()
    check_type(messages, Messages, "messages", "Messages or None")
    return messages
