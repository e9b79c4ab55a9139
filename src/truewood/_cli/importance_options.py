"""Options of `truewood importance`: what there is to say, and what goes together."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from truewood._cli.arguments import (
    FILE,
    Once,
    add_columns,
    add_target,
    at_least_two,
    columns_to_try,
    fraction,
    jobs,
    not_negative,
    positive,
    rows_to_use,
)
from truewood._measures.registry import measures
from truewood.tabular import FitSettings
from truewood.tabular._models.distributed import BACKENDS
from truewood.tabular._models.settings import BOOSTING_TREES, FOLDS, FOREST_TREES, MODELS

# What only a fit takes, by how it is spelled.
_OF_FITS = {
    "task": "--task",
    "keep": "--keep",
    "dtypes": "--dtype",
    "model": "--model",
    "n_estimators": "--n-estimators",
    "max_depth": "--max-depth",
    "max_features": "--max-features",
    "min_samples_leaf": "--min-samples-leaf",
    "sample": "--sample",
    "cv": "--cv",
    "test_size": "--test-size",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the table, its columns, the model and what to write."""
    data: Any = parser.add_argument(
        "data",
        metavar="DATA",
        help="CSV, TSV, JSON lines, Parquet or Feather file, also with .gz, or Excel file; - is standard input; with "
        "--model-file also a folder or glob of Parquet files, which need not fit into memory",
    )
    data.complete = FILE
    _add_columns(parser)
    _add_model(parser.add_argument_group("model"))
    _add_output(parser.add_argument_group("output"))


def _add_columns(parser: argparse.ArgumentParser) -> None:
    add_target(parser, "the column to predict; without it the columns are listed")
    add_columns(parser)
    parser.add_argument("--sample-weight", action=Once, metavar="COLUMN", help="the column with weights of the rows")
    parser.add_argument(
        "--groups",
        action=Once,
        metavar="COLUMN",
        help="the column that says which rows belong together (a patient, a shop); no fold parts them",
    )


def _add_model(group: Any) -> None:
    group.add_argument("--model", choices=MODELS, help=f"(default: {FitSettings.model})")
    group.add_argument(
        "--n-estimators", type=positive, help=f"number of trees (default: {FOREST_TREES}; boosting: {BOOSTING_TREES})"
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
        "--min-samples-leaf",
        type=positive,
        metavar="N",
        help="smallest number of rows in a leaf (default: forests 1 for classes, 5 for numbers, more from 50,000 rows "
        "on; boosting: that of the library)",
    )
    group.add_argument(
        "--sample",
        type=rows_to_use,
        metavar="N",
        help="use so many rows, drawn at random with --random-state, or all (default: all, or as many as 2 minutes of one core "
        "and 4 GiB of trees allow)",
    )
    group.add_argument(
        "--cv",
        type=at_least_two,
        metavar="N",
        help=f"folds, each of which judges a model fit to the others (default: {FOLDS}; boosting, --groups)",
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
        "--backend",
        choices=BACKENDS,
        default=BACKENDS[0],
        help="what reads Parquet files for --model-file (default: %(default)s)",
    )
    group.add_argument("--scheduler", metavar="ADDRESS", help="the scheduler of --backend dask (default: this process)")
    group.add_argument(
        "--master",
        metavar="URL",
        help="the master of --backend spark, or sc://HOST for Connect (default: as Spark is set up, else local[*])",
    )
    group.add_argument(
        "--random-state", type=not_negative, default=0, help="seed of the model and of --sample (default: %(default)s)"
    )
    group.add_argument("--n-jobs", type=jobs, default=-1, help="threads; -1 for all cores (default: %(default)s)")


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


def check_options(options: argparse.Namespace) -> None:
    """Refuse backends without a model, addresses of other backends, and what a saved model makes pointless."""
    if options.backend != "local" and options.model_file is None:
        raise ValueError(f"--backend: {options.backend} scores a model that is fit already; give it with --model-file.")
    if options.backend != "local" and options.data == "-":
        raise ValueError(f"--backend: {options.backend} reads files, not standard input; give a folder or glob.")
    for option, backend in (("scheduler", "dask"), ("master", "spark")):
        if getattr(options, option) is not None and options.backend != backend:
            raise ValueError(f"--{option}: it is for --backend {backend}, got --backend {options.backend}.")
    given = [option for name, option in _OF_FITS.items() if getattr(options, name) not in (None, [], {})]
    if options.model_file is not None and given:
        raise ValueError(f"--model-file: {', '.join(given)} cannot be given with it: the model is fit already.")
