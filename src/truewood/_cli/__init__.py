"""The command line."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence

import truewood
from truewood._cli import app, compare, demo, describe, importance, reproduce
from truewood._cli.arguments import SHELLS, Parser, PrintCompletion
from truewood._cli.interruption import Interruption
from truewood._cli.message_text import describe_error, lacks_memory
from truewood._cli.streams import settle_streams, write_message
from truewood.tabular import TableError


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of all commands."""
    parser = Parser(
        prog="truewood",
        description="Unbiased feature importance for tree models, scored on out-of-bag or held-out rows.",
    )
    parser.add_argument("--version", action="version", version=f"truewood {truewood.__version__}")
    parser.add_argument(
        "--print-completion",
        action=PrintCompletion,
        choices=SHELLS,
        help="print the completion script for a shell, and exit",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    importance.add_command(commands)
    describe.add_command(commands)
    compare.add_command(commands)
    demo.add_command(commands)
    reproduce.add_command(commands)
    app.add_command(commands)
    parser.set_defaults(run=lambda _: parser.print_help())
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, 2 for unusable input, or 130 if interrupted."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # for terminals that lack some characters
    interruption = Interruption()
    try:
        interruption.begin()
        _run(arguments, interruption)
    except BrokenPipeError:
        pass  # the reader, such as `head`, has closed the pipe
    except KeyboardInterrupt:
        interruption.report()
        return 130
    except Exception as error:
        if interruption.was_received:
            interruption.report()  # a library turned Ctrl-C into an error
            return 130
        if not isinstance(error, OSError | ValueError) and not lacks_memory(error):
            raise
        write_message(f"truewood: error: {describe_error(error)}")
        return 2
    finally:
        interruption.end()
        settle_streams()
    return 0


def _run(arguments: Sequence[str] | None, interruption: Interruption) -> None:
    try:
        options = make_parser().parse_args(arguments)
        if getattr(options, "handles_interruption", False):
            interruption.end()
        try:
            options.run(options)
        except TableError as error:
            if error.argument == "target" and getattr(options, "time", None) is not None:
                error.argument = "time"
            raise
    except SystemExit:  # raised by --help after printing
        sys.stdout.flush()
        raise
    sys.stdout.flush()
