"""`truewood importance`: score how well each column of a table predicts the target."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import asdict
from typing import Any

import truewood
from truewood._arguments import get_keywords
from truewood._cli.arguments import open_data, take_options, use_time_as_target
from truewood._cli.describe import list_columns
from truewood._cli.importance_options import add_options, check_options, list_settings
from truewood._cli.message_text import make_messages, render
from truewood._cli.output import check_outputs, extend_frame, print_json, print_table, write_output
from truewood._progress import show_progress
from truewood._results.caveats import check_table, list_caveats
from truewood.tabular import FitSettings, Messages, TableScore, score_saved_model, score_table
from truewood.tabular._columns.target_column import name_time_to_event
from truewood.tabular._files.reading import is_many_files

_DESCRIPTION = """Score how well each column of a table predicts the target, with p-values: infer
column types, fit a forest (or load a saved model), and score its splits on
out-of-bag or held-out rows."""
_EXAMPLES = """examples:
  truewood importance data.csv --target price
  truewood importance cars.xlsx --target price --dtype doors=category --dtype built=date:%Y-%m
  truewood importance data.parquet --target churn --drop customer --output report.html
  truewood importance data.csv.gz --target churn --model lightgbm --json > scores.json
  truewood importance patients.csv --time days --event died
  truewood importance test.csv --target churn --model-file model.ubj
  truewood importance 'rows/*.parquet' --target churn --model-file model.ubj
  truewood importance rows/ --target churn --model-file model.ubj --backend spark
  cat data.csv | truewood importance - --target price --quiet

Forests are scored on out-of-bag rows, boosted trees by cross-validation, and a
saved model on DATA, which must not contain its training rows. Messages are
written to standard error, and the table or JSON object to standard output.

exit codes: 0 for success; 2 for unusable input, with one line that explains why;
130 if interrupted
"""


def add_command(commands: Any) -> None:
    """Add `importance` to the commands."""
    parser = commands.add_parser(
        "importance",
        help="score how well each column of a table predicts the target",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Score the table, print the result, and write files."""
    use_time_as_target(options)
    if options.target is None:
        if is_many_files(options.data):
            raise ValueError("--target: name the column that the model predicts.")
        list_columns(options)
        raise ValueError("--target: choose the column to predict from those above.")
    check_outputs(options.output, _list_inputs(options))
    check_options(options)
    messages = make_messages(is_quiet=options.quiet)
    score = (_fit_and_score if options.saved_model is None else _score_saved_model)(options, messages)
    target = options.target if options.event is None else name_time_to_event(options.time, options.event)
    title = f"What predicts {target}?"
    try:
        if options.json:
            print_json(_summarize(options, score, messages))
        else:
            print_table(score, top=options.top, alpha=options.alpha, title=title)
        sys.stdout.flush()
    finally:  # write files even if printing fails
        for path in options.output:
            write_output(score, path, alpha=options.alpha, title=title)
            messages.add(f"wrote {path}")


def _list_inputs(options: argparse.Namespace) -> list[os.stat_result]:
    """Identify the files that are read."""
    given = [0 if options.data == "-" else options.data, options.saved_model]  # 0 is standard input
    return [os.stat(file) for file in given if file == 0 or (file is not None and os.path.exists(file))]


def _fit_and_score(options: argparse.Namespace, messages: Messages) -> TableScore:
    settings = FitSettings(**take_options(options, list_settings()))
    given = take_options(options, get_keywords(score_table))
    with show_progress(f"fitting {settings.model}", unit="trees", is_wanted=not options.quiet) as progress:
        return score_table(
            open_data(options.data), options.target, **given, settings=settings, messages=messages, progress=progress
        )


def _score_saved_model(options: argparse.Namespace, messages: Messages) -> TableScore:
    address = options.scheduler if options.backend == "dask" else options.master
    given = take_options(options, get_keywords(score_saved_model))
    with show_progress("scoring", unit="rows", is_wanted=not options.quiet) as progress:
        return score_saved_model(
            options.saved_model,
            open_data(options.data),
            options.target,
            **given,
            address=address,
            messages=messages,
            progress=progress,
        )


def _summarize(options: argparse.Namespace, score: TableScore, messages: Messages) -> dict[str, Any]:
    """Collect all results for JSON."""
    result, performance = score.result, score.performance
    return {
        "truewood": truewood.__version__,
        "data": options.data,
        "target": options.target,
        "task": result.task,
        "model": score.model_name,
        "n_trees": result.n_trees,
        "n_folds": None if result.per_fold is None else len(result.per_fold),
        "measure": result.measure,
        "rows": result.rows,
        "n_rows": result.n_rows,
        "n_groups": result.n_groups,
        "columns": [
            {
                "name": column.name,
                "dtype": column.dtype,
                "used": column.is_used,
                "note": None if column.note is None else render(column.note),
            }
            for column in score.columns
        ],
        "performance": None
        if performance is None
        else asdict(performance) | {"interval": performance.interval, "p_value": performance.p_value},
        "total_p_value": result.total_p_value,
        "alpha": options.alpha,
        "impurity": result.impurity,
        "skipped_weight": result.skipped_weight,
        "inference_unavailable": result.inference_unavailable,
        "features": extend_frame(result, options.alpha, score.explanation).to_dict("records"),
        "interactions": None if score.interactions is None else score.interactions.frame().to_dict("records"),
        "feature_groups": None if score.feature_groups is None else dict(score.feature_groups),
        "notes": result.notes,
        "caveats": list(map(str, list_caveats(result, check_table(result, score.X, score.feature_groups)))),
        "messages": list(map(render, messages.messages)),
        "warnings": list(map(render, messages.warnings)),
        "suggestions": [warning.suggestion for warning in messages.warnings],
        "files": [str(path) for path in options.output],
    }
