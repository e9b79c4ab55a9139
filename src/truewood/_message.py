"""Messages that suggest arguments, which Python, the command line and the app each write in their own way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

# ``spell(argument, value)`` writes a suggested argument, such as drop=['x'] or --drop x.
Spell = Callable[[str, Any], str]


class Message(str):
    """A text, and a hint that suggests arguments.

    The string itself is what Python users read; other front ends call `render`, or show `text` alone.

    Parameters
    ----------
    text : str
        What happened; complete without the hint.
    hint : str, default=""
        What to do about it, with a placeholder for each suggested argument.
    **suggestion
        The suggested arguments and their values.

    Examples
    --------
    >>> from truewood._message import Message
    >>> message = Message("Possible target leakage.", "If so, drop it with {drop}", drop=["x"])
    >>> print(message)
    Possible target leakage. If so, drop it with drop=['x']
    >>> message.render(lambda argument, value: f"--{argument} {value[0]}")
    'Possible target leakage. If so, drop it with --drop x'
    """

    text: str
    hint: str
    suggestion: Mapping[str, Any]

    def __new__(cls, text: str, hint: str = "", **suggestion: Any) -> Self:
        """Write the message for Python."""
        message = super().__new__(cls, _join(text, hint, suggestion, _spell_argument))
        message.text, message.hint, message.suggestion = text, hint, suggestion
        return message

    def render(self, spell: Spell) -> str:
        """Write the message with the suggested arguments as a front end spells them."""
        return _join(self.text, self.hint, self.suggestion, spell)

    def prefix(self, words: str) -> Message:
        """Put words in front of the text."""
        return Message(words + self.text, self.hint, **self.suggestion)


def as_message(text: str) -> Message:
    """Turn a plain string into a message without a hint."""
    return text if isinstance(text, Message) else Message(text)


def get_message(error: BaseException) -> Message:
    """Return the message of an error or warning."""
    return as_message(error.args[0] if error.args and isinstance(error.args[0], Message) else str(error))


def _join(text: str, hint: str, suggestion: Mapping[str, Any], spell: Spell) -> str:
    if not hint:
        return text
    return f"{text.removesuffix('.')}. " + hint.format_map(
        {argument: spell(argument, value) for argument, value in suggestion.items()}
    )


def _spell_argument(argument: str, value: Any) -> str:
    return f"{argument}={value!r}"
