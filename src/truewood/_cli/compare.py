"""`truewood compare`: compare two saved results feature by feature."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import truewood
from truewood._cli.arguments import FILE, add_result_options
from truewood._cli.output import (
    ENDINGS_OF_COMPARISONS,
    check_outputs,
    print_comparison,
    print_json,
    write_comparison,
)
from truewood._cli.streams import write_message
from truewood._compare import compare
from truewood._load import load
from truewood._results.importance_result import ImportanceResult

_DESCRIPTION = """Compare two saved results feature by feature: two models on the same rows, or
one model on two sets of rows (periods, regions). To compare results on the same
rows, save them with --contributions, so that rows can be paired."""
_EXAMPLES = """examples:
  truewood importance test.csv --target churn --model-file old.ubj --contributions --output old.json
  truewood importance test.csv --target churn --model-file new.ubj --contributions --output new.json
  truewood compare old.json new.json --output differences.html
  truewood compare january.json june.json --different-rows
"""


def add_command(commands: Any) -> None:
    """Add `compare` to the commands."""
    parser = commands.add_parser(
        "compare",
        help="compare two saved results",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name in ("a", "b"):
        parser.add_argument(
            name, metavar=name.upper(), help="result that truewood importance wrote with --output FILE.json"
        ).complete = FILE
    parser.add_argument(
        "--names", nargs=2, metavar=("NAME_A", "NAME_B"), help="names of the results (default: file names)"
    )
    parser.add_argument(
        "--different-rows",
        dest="same_rows",
        action="store_const",
        const=False,
        help="do not pair rows: the results come from different rows, even if they have the same number of rows",
    )
    add_result_options(parser, ".html (report), .csv, .png, .svg or .pdf")
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of the table")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Read, compare, print, write."""
    check_outputs(options.output, [os.stat(file) for file in (options.a, options.b)], ENDINGS_OF_COMPARISONS)
    names = options.names or [Path(file).stem for file in (options.a, options.b)]
    comparison = compare(
        _load_importance(options.a),
        _load_importance(options.b),
        names=(names[0], names[1]),
        same_rows=options.same_rows,
    )
    try:
        if options.json:
            print_json(_summarize(options, comparison))
        else:
            print_comparison(comparison, top=options.top, alpha=options.alpha)
        sys.stdout.flush()
    finally:  # write files even if printing fails
        for path in options.output:
            write_comparison(comparison, path, alpha=options.alpha)
            write_message(f"wrote {path}")


def _load_importance(path: str) -> ImportanceResult:
    result = load(path)
    if not isinstance(result, ImportanceResult):
        raise ValueError(f"{path} holds interactions, which cannot be compared; pass a result of truewood importance.")
    return result


def _summarize(options: argparse.Namespace, comparison: truewood.Comparison) -> dict[str, Any]:
    """Collect all results for JSON."""
    return {
        "truewood": truewood.__version__,
        "files": [options.a, options.b],
        "names": comparison.names,
        "task": comparison.task,
        "measure": comparison.measure,
        "rows": comparison.rows,
        "n_rows": comparison.n_rows,
        "paired": comparison.is_paired,
        "alpha": options.alpha,
        "features": comparison.frame().to_dict("records"),
    }
