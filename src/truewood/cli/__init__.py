"""The command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import truewood
from truewood.cli import demo, reproduce


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, 2 for input that cannot be used, or 130 when interrupted."""
    parser = argparse.ArgumentParser(
        prog="truewood",
        description="Which features does a tree model really use? Unbiased importance, scored on unseen rows.",
    )
    parser.add_argument("--version", action="version", version=f"truewood {truewood.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    demo.add_command(commands)
    reproduce.add_command(commands)
    options = parser.parse_args(arguments)
    try:
        options.run(options)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"truewood: error: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("truewood: stopped\n")
        return 130
    return 0
