"""`truewood importance`: which columns of a table tell about one of them, and how sure that is."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import truewood
from truewood.cli.arguments import (
    FILE,
    Once,
    add_columns,
    at_least_two,
    columns_to_try,
    fraction,
    jobs,
    not_negative,
    positive,
    rows_to_use,
)
from truewood.cli.describe_command import find_table, list_columns, make_messages
from truewood.cli.output import check_outputs, make_frame, print_json, print_table, write_output
from truewood.cli.wording import as_options
from truewood.formulas.registry import measures
from truewood.progress import show_progress
from truewood.result.cautions import check_table, list_cautions
from truewood.tabular import FitSettings, Messages, TableScore, score_saved_model, score_table
from truewood.tabular.engines import ENGINES
from truewood.tabular.messages import without_hints
from truewood.tabular.settings import BOOSTING_TREES, FOLDS, FOREST_TREES, MODELS

_DESCRIPTION = """Find out which columns of a table tell about the target, and how sure that is:
infer what the columns are, fit a forest (or take a saved model), and score its
splits on rows it never saw."""
_EXAMPLES = """examples:
  truewood importance data.csv --target price
  truewood importance cars.xlsx --target price --as doors=category --as built=date:%Y-%m
  truewood importance data.parquet --target churn --drop customer --output report.html
  truewood importance data.csv.gz --target churn --model lightgbm --json > scores.json
  truewood importance patients.csv --time days --event died
  truewood importance test.csv --target churn --model-file model.ubj
  truewood importance 'rows/*.parquet' --target churn --model-file model.ubj
  truewood importance rows/ --target churn --model-file model.ubj --engine spark
  cat data.csv | truewood importance - --target price --quiet

A forest is scored on the rows each tree left out, a boosted model, refit fold by
fold, on the fold it did not see, a saved model on DATA, which it must not have
seen. Messages go to standard error, the table or the JSON object to standard
output.

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
        "data",
        metavar="DATA",
        help="CSV, TSV, JSON lines, Parquet or Feather file, also with .gz, or Excel file; - is standard input; with "
        "--model-file also a folder or glob of Parquet files, which need not fit into memory",
    )
    data.complete = FILE
    _add_columns(parser)
    _add_model(parser.add_argument_group("model"))
    _add_output(parser.add_argument_group("output"))
    parser.set_defaults(run=run)


def _add_columns(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--target", action=Once, metavar="COLUMN", help="the column to predict; without it the columns are listed"
    )
    add_columns(parser)
    parser.add_argument("--sample-weight", action=Once, metavar="COLUMN", help="the column with weights of the rows")
    parser.add_argument(
        "--row-groups",
        action=Once,
        metavar="COLUMN",
        help="the column that says which rows belong together (a patient, a shop); no fold parts them",
    )
    parser.add_argument(
        "--time", action=Once, metavar="COLUMN", help="instead of --target: the column of times until an event"
    )
    parser.add_argument(
        "--event",
        action=Once,
        metavar="COLUMN",
        help="with --time: the column that says whether there was an event (true and false, 0 and 1, 1 and 2); fits a "
        "survival forest",
    )


def _add_model(group: Any) -> None:
    group.add_argument("--model", choices=MODELS, help=f"(default: {FitSettings.model})")
    group.add_argument(
        "--trees", type=positive, help=f"number of trees (default: {FOREST_TREES}; boosting: {BOOSTING_TREES})"
    )
    group.add_argument("--max-depth", type=positive, help="depth of trees (default: that of the library)")
    group.add_argument(
        "--max-features",
        type=columns_to_try,
        metavar="N",
        help="columns that a split of a forest may choose from, after encoding: a number, a part such as 0.33, sqrt, "
        "log2 or all (default: sqrt for classes, all for numbers)",
    )
    group.add_argument(
        "--min-leaf",
        type=positive,
        metavar="N",
        help="smallest number of rows in a leaf (default: forests 1 for classes, 5 for numbers, more from 50,000 rows "
        "on; boosting: that of the library)",
    )
    group.add_argument(
        "--sample",
        type=rows_to_use,
        metavar="N",
        help="use so many rows, drawn at random with --seed, or all (default: all, or as many as 2 minutes of one core "
        "and 4 GiB of trees allow)",
    )
    group.add_argument(
        "--cv",
        type=at_least_two,
        metavar="N",
        help=f"folds, each of which judges a model fit to the others (default: {FOLDS}; boosting, --row-groups)",
    )
    group.add_argument(
        "--test-size",
        type=fraction,
        metavar="PART",
        help="hold this part of the rows out instead, and fit once",
    )
    saved = group.add_argument(
        "--model-file",
        metavar="FILE",
        help="score a saved model instead: XGBoost (.json, .ubj), LightGBM (.txt), CatBoost (.cbm, .json), skops, or a "
        "folder of Spark ML",
    )
    saved.complete = FILE
    group.add_argument(
        "--trust-pickle",
        action="store_true",
        help="open --model-file even if it is a pickle (.pkl, .joblib), which can run any program",
    )
    group.add_argument(
        "--engine",
        choices=ENGINES,
        default=ENGINES[0],
        help="what reads Parquet files for --model-file (default: %(default)s)",
    )
    group.add_argument("--scheduler", metavar="ADDRESS", help="the scheduler of --engine dask (default: this process)")
    group.add_argument(
        "--master",
        metavar="URL",
        help="the master of --engine spark, or sc://HOST for Connect (default: as Spark is set up, else local[*])",
    )
    group.add_argument(
        "--seed", type=not_negative, default=0, help="seed of the model and of --sample (default: %(default)s)"
    )
    group.add_argument("--jobs", type=jobs, default=-1, help="threads; -1 for all cores (default: %(default)s)")


def _add_output(group: Any) -> None:
    group.add_argument("--measure", choices=list(measures()), default="auto", help="(default: %(default)s)")
    group.add_argument(
        "--group-correlated",
        type=fraction,
        nargs="?",
        const=0.7,
        metavar="THRESHOLD",
        help="score columns together whose rank correlation is at least this (default: %(const)s)",
    )
    group.add_argument(
        "--alpha",
        type=fraction,
        default=0.05,
        help="adjusted p-value that is called significant (default: %(default)s)",
    )
    group.add_argument("--top", type=positive, default=20, metavar="N", help="rows to print (default: %(default)s)")
    output = group.add_argument(
        "--output",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="also write .html (report), .csv, .md, .json (for truewood.load), .png, .svg, .pdf; may be given several "
        "times",
    )
    output.complete = FILE
    group.add_argument(
        "--contributions",
        action="store_true",
        help="keep what each row adds to the scores in .json, for truewood compare",
    )
    group.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    group.add_argument("--quiet", action="store_true", help="no messages; warnings stay")


def run(options: argparse.Namespace) -> None:
    """Score the table, print, write."""
    _read_survival(options)
    if options.target is None:
        list_columns(options)
        raise ValueError("--target: give the column to predict, one of these.")
    check_outputs(options.output, _list_inputs(options))
    _check_engine(options)
    messages = make_messages(is_quiet=options.quiet)
    score = (_score_table if options.model_file is None else _score_saved_model)(options, messages)
    title = f"What tells about {options.target}?"
    skill = None if score.skill is None else score.skill.describe()
    try:
        if options.json:
            print_json(_summarise(options, score, messages))
        else:
            heading = f"{title} {score.describe()}"
            print_table(
                score.result,
                X=score.X,
                groups=score.groups,
                explanation=score.explanation,
                top=options.top,
                alpha=options.alpha,
                title=heading,
                skill=skill,
            )
        sys.stdout.flush()
    finally:  # whatever becomes of the one, the other is not lost
        for path in options.output:
            write_output(
                score.result,
                path,
                score.X,
                groups=score.groups,
                explanation=score.explanation,
                alpha=options.alpha,
                title=title,
                skill=skill,
                notes=[without_hints(text) for text in messages.messages if text != str(score.skill)],
                warnings=list(map(without_hints, messages.warnings)),
            )
            messages.add(f"wrote {path}")


def _read_survival(options: argparse.Namespace) -> None:
    """Take --time for the target, with --event."""
    if options.time is None and options.event is None:
        return
    for option in ("time", "event"):
        if getattr(options, option) is None:
            raise ValueError(f"--{option}: --time and --event go together, the time and whether there was an event.")
    for option in ("target", "task", "model_file"):
        if getattr(options, option) is not None:
            raise ValueError(f"--{option.replace('_', '-')}: cannot be given with --time and --event.")
    options.target = options.time


def _list_inputs(options: argparse.Namespace) -> list[os.stat_result]:
    """The files that are read, whatever their names here."""
    given = [0 if options.data == "-" else options.data, options.model_file]  # 0 is standard input
    return [os.stat(file) for file in given if file == 0 or (file is not None and os.path.exists(file))]


def _score_table(options: argparse.Namespace, messages: Messages) -> TableScore:
    settings = FitSettings(
        model=options.model or FitSettings.model,
        n_trees=options.trees,
        max_depth=options.max_depth,
        max_features=options.max_features,
        min_leaf=options.min_leaf,
        sample=options.sample,
        cv=options.cv,
        test_size=options.test_size,
        random_state=options.seed,
        n_jobs=options.jobs,
    )
    with show_progress(f"fitting {settings.model}", unit="trees", is_wanted=not options.quiet) as progress:
        return score_table(
            find_table(options.data),
            options.target,
            task=options.task,
            drop=options.drop,
            keep=options.keep,
            kinds=options.kinds,
            sample_weight=options.sample_weight,
            row_groups=options.row_groups,
            event=options.event,
            settings=settings,
            measure=options.measure,
            contributions=options.contributions,
            group_correlated=options.group_correlated,
            alpha=options.alpha,
            messages=messages,
            progress=progress,
        )


def _score_saved_model(options: argparse.Namespace, messages: Messages) -> TableScore:
    _check_options_of_fits(options)
    address = options.scheduler if options.engine == "dask" else options.master
    with show_progress("scoring", unit="rows", is_wanted=not options.quiet) as progress:
        return score_saved_model(
            options.model_file,
            find_table(options.data),
            options.target,
            drop=options.drop,
            sample_weight=options.sample_weight,
            row_groups=options.row_groups,
            trust_pickle=options.trust_pickle,
            measure=options.measure,
            contributions=options.contributions,
            group_correlated=options.group_correlated,
            alpha=options.alpha,
            random_state=options.seed,
            n_jobs=options.jobs,
            engine=options.engine,
            address=address,
            messages=messages,
            progress=progress,
        )


def _check_engine(options: argparse.Namespace) -> None:
    """Refuse engines without a model, and addresses of other engines."""
    if options.engine != "local" and options.model_file is None:
        raise ValueError(f"--engine: {options.engine} scores a model that is fit already; give it with --model-file.")
    if options.engine != "local" and options.data == "-":
        raise ValueError(f"--engine: {options.engine} reads files, not standard input; give a folder or glob.")
    for option, engine in (("scheduler", "dask"), ("master", "spark")):
        if getattr(options, option) is not None and options.engine != engine:
            raise ValueError(f"--{option}: it is for --engine {engine}, got --engine {options.engine}.")


def _check_options_of_fits(options: argparse.Namespace) -> None:
    """Refuse options that a saved model makes pointless."""
    fits = (
        "task",
        "keep",
        "kinds",
        "model",
        "trees",
        "max_depth",
        "max_features",
        "min_leaf",
        "sample",
        "cv",
        "test_size",
    )
    spelled = {"kinds": "--as"}
    given = [
        spelled.get(name, f"--{name.replace('_', '-')}")
        for name in fits
        if getattr(options, name) not in (None, [], {})
    ]
    if given:
        raise ValueError(f"--model-file: {', '.join(given)} cannot be given with it: the model is fit already.")


def _summarise(options: argparse.Namespace, score: TableScore, messages: Messages) -> dict[str, Any]:
    """Everything there is to know, for JSON."""
    result, skill = score.result, score.skill
    return {
        "truewood": truewood.__version__,
        "data": options.data,
        "target": options.target,
        "task": result.task if options.event is None else "survival",
        "model": score.model_name,
        "n_trees": result.n_trees,
        "n_folds": None if result.per_fold is None else len(result.per_fold),
        "measure": result.measure,
        "rows": result.rows,
        "n_rows": result.n_rows,
        "n_row_groups": result.n_row_groups,
        "columns": [
            {"name": column.name, "kind": column.kind, "used": column.is_used, "note": column.note}
            for column in score.columns
        ],
        "skill": None if skill is None else asdict(skill) | {"interval": skill.interval, "p_value": skill.p_value},
        "total_p_value": result.total_p_value,
        "alpha": options.alpha,
        "impurity": result.impurity,
        "skipped_weight": result.skipped_weight,
        "no_inference": result.no_inference,
        "features": make_frame(result, options.alpha, score.explanation).to_dict("records"),
        "groups": None if score.groups is None else dict(score.groups),
        "notes": result.notes,
        "cautions": [str(caution) for caution in list_cautions(result, check_table(result, score.X, score.groups))],
        "messages": list(map(as_options, messages.messages)),
        "warnings": list(map(as_options, messages.warnings)),
        "files": [str(path) for path in options.output],
    }
