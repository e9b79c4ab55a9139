"""`truewood app`: analyze a table in the browser."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from truewood._app.server import serve_app
from truewood._cli.arguments import not_negative, positive
from truewood._cli.output import REPORT_MODULES
from truewood._extras import explain_missing

_DESCRIPTION = """Analyze a table in the browser: drop a file, choose the target, check the column
types, and read the report. The page is available only on this computer. The
command prints an address that works once; after a browser has opened it, a new
one is printed. Files are deleted when you close the page or stop the command."""
_FIRST_ADDRESS = """truewood is running. Open this address, which works once: {}
Press Ctrl-C to stop truewood and delete its files.
"""
_NEXT_ADDRESS = "A browser has logged in. To use another browser, open: {}\n"


def add_command(commands: Any) -> None:
    """Add `app` to the commands."""
    parser = commands.add_parser(
        "app",
        help="analyze a table in the browser",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--port", type=not_negative, default=0, help="port on this computer (default: any free port)")
    parser.add_argument(
        "--max-size",
        type=positive,
        default=500,
        metavar="MB",
        help="maximum size of a table in megabytes (default: %(default)s)",
    )
    parser.add_argument("--no-browser", action="store_true", help="print the address without opening it")
    parser.set_defaults(run=run, handles_interruption=True)


def run(options: argparse.Namespace) -> None:
    """Serve the page until Ctrl-C."""
    problem = explain_missing("the app needs", ["nicegui", *REPORT_MODULES], "app")
    if problem is not None:
        raise ValueError(problem)

    texts = iter([_FIRST_ADDRESS])

    def show_address(address: str) -> None:
        sys.stdout.write(next(texts, _NEXT_ADDRESS).format(address))
        sys.stdout.flush()

    serve_app(
        port=options.port,
        max_bytes=options.max_size * 10**6,
        opens_browser=not options.no_browser,
        show_address=show_address,
    )
