"""`truewood app`: a page in the browser for a table, its columns and its report."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from truewood.app.server import serve_app
from truewood.cli.arguments import not_negative, positive
from truewood.cli.output import REPORT_PACKAGES, list_missing

_DESCRIPTION = """Open a page in the browser: drop a table, choose what to explain, see what its columns
are taken for, read the report. The page is served to this computer only, and needs
the token in its address. Files are removed when the page or the command ends."""


def add_command(commands: Any) -> None:
    """Add `app` to the commands."""
    parser = commands.add_parser(
        "app",
        help="open a page in the browser",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--port", type=not_negative, default=0, help="port on this computer (default: a free one)")
    parser.add_argument(
        "--max-size",
        type=positive,
        default=500,
        metavar="MB",
        help="largest table in megabytes (default: %(default)s)",
    )
    parser.add_argument("--no-browser", action="store_true", help="print the address, and do not open it")
    parser.set_defaults(run=run, handles_interruption=True)


def run(options: argparse.Namespace) -> None:
    """Serve the page until Ctrl-C."""
    missing = list_missing(["nicegui", *REPORT_PACKAGES])
    if missing:
        raise ValueError(f"the app needs {', '.join(missing)}: pip install 'truewood[app]'.")

    def show_address(address: str) -> None:
        sys.stdout.write(f"truewood is at {address}\nCtrl-C ends it and removes its files.\n")
        sys.stdout.flush()

    serve_app(
        port=options.port,
        largest=options.max_size * 10**6,
        opens_browser=not options.no_browser,
        tell=show_address,
    )
