"""`truewood importance`: which columns of a table tell about one of them, and how sure that is."""

from __future__ import annotations

import argparse
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import truewood
from truewood.cli.arguments import FILE, Once, fraction, jobs, not_negative, positive
from truewood.cli.output import check_outputs, make_frame, print_json, print_table, show_p_value, write_outputs
from truewood.formulas.registry import MEASURES
from truewood.tabular.files import find_name, read_table
from truewood.tabular.fitting import DEFAULT_TEST_SIZE, FORESTS, MODELS, check_installed
from truewood.tabular.messages import Speaker
from truewood.tabular.table_score import Scored, score_file, score_fit
from truewood.tabular.target_column import drop_rows_without_target
from truewood.words import ROWS_IN_WORDS, count

_MANY_ROWS = 80_000
_DESCRIPTION = """Find out which columns of a table tell about the target, and how sure that is:
infer what the columns are, fit a forest (or take a saved model), and score its
splits on rows it never saw."""
_EXAMPLES = """examples:
  truewood importance data.csv --target price
  truewood importance data.parquet --target churn --drop customer --output report.html
  truewood importance data.csv.gz --target churn --model lightgbm --json > scores.json
  truewood importance test.csv --target churn --model-file model.ubj
  cat data.csv | truewood importance - --target price --quiet

A forest is scored on the rows each tree left out, a boosted model on a held-out
part, a saved model on DATA, which it must not have seen. Messages go to standard
error, the table or the JSON object to standard output.

exit codes: 0; 2 for input that cannot be used, with one line that says why; 130
when interrupted
"""


def add_command(commands: Any) -> None:
    """Add `importance` to the commands."""
    parser = commands.add_parser(
        "importance",
        help="score the columns of a table",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    data = parser.add_argument(
        "data", metavar="DATA", help="CSV, TSV, Parquet or Feather file, also with .gz; - is standard input"
    )
    data.complete = FILE
    parser.add_argument("--target", required=True, action=Once, metavar="COLUMN", help="the column to predict")
    parser.add_argument(
        "--task", choices=["classification", "regression"], help="what the target is (default: as it looks)"
    )
    parser.add_argument(
        "--drop", action="append", default=[], metavar="COLUMN", help="leave a column out; may be given several times"
    )
    parser.add_argument(
        "--keep",
        action="append",
        default=[],
        metavar="COLUMN",
        help="use a column though it looks like an identifier or free text; may be given several times",
    )
    parser.add_argument("--sample-weight", action=Once, metavar="COLUMN", help="the column with weights of the rows")

    model = parser.add_argument_group("model")
    model.add_argument("--model", choices=MODELS, help=f"(default: {MODELS[0]})")
    model.add_argument("--trees", type=positive, help="number of trees (default: 500; boosting: 200)")
    model.add_argument("--max-depth", type=positive, help="depth of trees (default: that of the library)")
    model.add_argument(
        "--test-size",
        type=fraction,
        help=f"part of the rows that boosting does not see and that judge it (default: {DEFAULT_TEST_SIZE})",
    )
    saved = model.add_argument(
        "--model-file",
        metavar="FILE",
        help="score a saved model instead: XGBoost (.json, .ubj), LightGBM (.txt), CatBoost (.cbm, .json) or skops",
    )
    saved.complete = FILE
    model.add_argument(
        "--trust-pickle",
        action="store_true",
        help="open --model-file even if it is a pickle (.pkl, .joblib), which can run any program",
    )
    model.add_argument("--seed", type=not_negative, default=0, help="seed of the model (default: %(default)s)")
    model.add_argument("--jobs", type=jobs, default=-1, help="threads; -1 for all cores (default: %(default)s)")

    shown = parser.add_argument_group("output")
    shown.add_argument("--measure", choices=MEASURES, default="ufi", help="(default: %(default)s)")
    shown.add_argument(
        "--alpha",
        type=fraction,
        default=0.05,
        help="adjusted p-value that is called significant (default: %(default)s)",
    )
    shown.add_argument("--top", type=positive, default=20, metavar="N", help="rows to print (default: %(default)s)")
    output = shown.add_argument(
        "--output",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="also write .html (report), .csv, .json (for truewood.load), .png, .svg, .pdf; may be given several times",
    )
    output.complete = FILE
    shown.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    shown.add_argument("--quiet", action="store_true", help="no messages; warnings stay")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Read, infer, fit or load, score, print, write."""
    check_outputs(options.output)
    if options.model_file is None:
        check_installed(options.model or MODELS[0])
    else:
        _check_options_of_fits(options)
    speaker = Speaker(is_quiet=options.quiet)
    model_target = None if options.model_file is None else options.target
    table = read_table(options.data, speaker.say, model_target=model_target)
    _check_columns(options, [str(name) for name in table])
    table = drop_rows_without_target(table, options.target, speaker.say)
    if len(table) > _MANY_ROWS and options.model_file is None:
        speaker.say(f"a fit to {len(table):,} rows takes minutes; a random part of them often says as much")
    scored = (score_fit if options.model_file is None else score_file)(options, table, speaker)
    _judge(scored, options, speaker)
    title = f"What tells about {options.target}?"
    notes = [*speaker.messages, *speaker.warnings]
    write_outputs(scored.result, options.output, scored.X, alpha=options.alpha, title=title, notes=notes)
    for path in options.output:
        speaker.say(f"wrote {path}")
    if options.json:
        print_json(_summarise(options, scored, speaker))
    else:
        print_table(scored.result, top=options.top, alpha=options.alpha, title=f"{title} {_describe(scored)}")


def _check_options_of_fits(options: argparse.Namespace) -> None:
    """Refuse options that a saved model makes pointless."""
    fits = ("task", "keep", "model", "trees", "max_depth", "test_size")
    given = [f"--{name.replace('_', '-')}" for name in fits if getattr(options, name) not in (None, [])]
    if given:
        raise ValueError(f"--model-file: {', '.join(given)} cannot be given with it: the model is fit already.")


def _check_columns(options: argparse.Namespace, names: list[str]) -> None:
    """Refuse names that the table does not have, and columns with two roles."""
    find_name(options.target, names, "--target")
    for option, given in (("--drop", options.drop), ("--keep", options.keep)):
        for name in given:
            if find_name(name, names, option) == options.target:
                raise ValueError(f"{option}: {name!r} is the target.")
    if (
        options.sample_weight is not None
        and find_name(options.sample_weight, names, "--sample-weight") == options.target
    ):
        raise ValueError(f"--sample-weight: {options.target!r} is the target.")


def _judge(scored: Scored, options: argparse.Namespace, speaker: Speaker) -> None:
    """Say how well the model predicts, and warn where its importances mean nothing."""
    alpha, skill, total = options.alpha, scored.skill, scored.result.total_p_value
    if skill is None:
        speaker.warn("how well the model predicts could not be measured: too few unseen rows, or all of one class")
        return
    speaker.say(str(skill))
    together = "" if math.isnan(total) else f", all columns together p = {show_p_value(total)}"
    is_noise = not math.isnan(total) and total > alpha
    if skill.p_value <= alpha:
        if is_noise:
            speaker.warn(f"the splits taken together may be noise (p = {show_p_value(total)})")
        return
    tested = f"{skill.name} {skill.value:.3f} against {skill.chance:.3f}, one-sided p = {show_p_value(skill.p_value)}"
    if is_noise or math.isnan(total):
        speaker.warn(
            f"the model predicts no better than chance ({tested}{together}); importances of such a model mean nothing"
        )
    else:
        is_deep = scored.model in FORESTS and options.max_depth is None
        hint = "; trees may be too deep for so weak a signal, try --max-depth 3" if is_deep else ""
        speaker.warn(
            f"the model predicts no better than chance ({tested}), though its splits hold up on unseen rows (p = "
            f"{show_p_value(total)}){hint}"
        )


def _describe(scored: Scored) -> str:
    result = scored.result
    rows = f"{result.n_rows:,} {ROWS_IN_WORDS[result.rows]}"
    return f"{scored.model}, {count(result.n_trees, 'tree')}, {rows}, {result.measure}"


def _summarise(options: argparse.Namespace, scored: Scored, speaker: Speaker) -> dict[str, Any]:
    """Everything there is to know, for JSON."""
    result, skill = scored.result, scored.skill
    return {
        "truewood": truewood.__version__,
        "data": options.data,
        "target": options.target,
        "task": result.task,
        "model": scored.model,
        "n_trees": result.n_trees,
        "measure": result.measure,
        "rows": result.rows,
        "n_rows": result.n_rows,
        "columns": scored.columns,
        "skill": None if skill is None else asdict(skill) | {"interval": skill.interval, "p_value": skill.p_value},
        "total_p_value": result.total_p_value,
        "alpha": options.alpha,
        "impurity": result.impurity,
        "skipped_weight": result.skipped_weight,
        "no_inference": result.no_inference,
        "features": make_frame(result, options.alpha).to_dict("records"),
        "notes": result.notes,
        "messages": speaker.messages,
        "warnings": speaker.warnings,
        "files": [str(path) for path in options.output],
    }
