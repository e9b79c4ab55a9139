"""Options of `truewood importance`, and which of them can be combined."""

from __future__ import annotations

import argparse
from dataclasses import fields
from typing import Any

from truewood._arguments import get_keywords
from truewood._cli.arguments import (
    FILE,
    Once,
    add_columns,
    add_data,
    add_result_options,
    add_target,
    at_least_two,
    columns_to_try,
    fraction,
    jobs,
    not_negative,
    positive,
    rows_to_use,
)
from truewood._cli.message_text import name_option
from truewood._engines.selection import AUTO, ENGINES
from truewood._measures.registry import measures
from truewood.tabular import FitSettings, score_saved_model, score_table
from truewood.tabular._models.distributed import BACKENDS
from truewood.tabular._models.settings import BOOSTING_TREES, FOLDS, FOREST_TREES, MODELS


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all options."""
    add_data(parser, "; with --model-file also a folder or glob of Parquet files, which need not fit into memory")
    _add_columns(parser)
    _add_model(parser.add_argument_group("model"))
    _add_output(parser.add_argument_group("output"))


def _add_columns(parser: argparse.ArgumentParser) -> None:
    add_target(parser, "column to predict; without it, the command lists the columns and stops")
    add_columns(parser)
    parser.add_argument("--sample-weight", action=Once, metavar="COLUMN", help="column of row weights")
    parser.add_argument(
        "--groups",
        action=Once,
        metavar="COLUMN",
        help="column that groups rows (a patient, a shop); folds keep groups together",
    )


def _add_model(group: Any) -> None:
    group.add_argument("--model", choices=MODELS, help=f"model to fit (default: {FitSettings.model})")
    group.add_argument(
        "--n-estimators",
        type=positive,
        metavar="N",
        help=f"number of trees (default: {FOREST_TREES}; boosting: {BOOSTING_TREES})",
    )
    group.add_argument("--max-depth", type=positive, metavar="N", help="maximum tree depth (default: the library's)")
    group.add_argument(
        "--max-features",
        type=columns_to_try,
        metavar="N",
        help="encoded columns to consider at each split of a forest: a number, a fraction such as 0.33, sqrt, log2 or "
        "all (default: sqrt for classification and survival, all for regression)",
    )
    group.add_argument(
        "--min-samples-leaf",
        type=positive,
        metavar="N",
        help="minimum number of rows in a leaf (default: 1 for classification, 5 for regression and 15 for survival "
        "forests, more beyond 50,000 rows; boosting: the library's)",
    )
    group.add_argument(
        "--sample",
        type=rows_to_use,
        metavar="N",
        help="number of rows to use, drawn at random, or all (default: all, or fewer if the fit would take more than "
        "about 2 minutes on one core or its trees more than 4 GiB of memory)",
    )
    group.add_argument(
        "--cv",
        type=at_least_two,
        metavar="N",
        help=f"number of cross-validation folds (default: {FOLDS} for boosting or with --groups, else none)",
    )
    group.add_argument(
        "--test-size",
        type=fraction,
        metavar="FRACTION",
        help="fraction of rows to hold out; the model is then fit once, to the other rows",
    )
    saved = group.add_argument(
        "--model-file",
        dest="saved_model",
        metavar="FILE",
        help="score a saved model on DATA instead: XGBoost (.json, .ubj), LightGBM (.txt), CatBoost (.cbm, .json), "
        "skops, or a Spark ML folder",
    )
    saved.complete = FILE
    group.add_argument(
        "--trust-pickle",
        action="store_true",
        help="open --model-file even if it is a pickle (.pkl, .joblib), which can execute arbitrary code",
    )
    group.add_argument(
        "--backend",
        choices=BACKENDS,
        default=BACKENDS[0],
        help="what reads the Parquet files of a folder or glob for --model-file: this process (local), Dask or Spark "
        "(default: %(default)s)",
    )
    group.add_argument(
        "--scheduler", metavar="ADDRESS", help="Dask scheduler, with --backend dask (default: this process)"
    )
    group.add_argument(
        "--master",
        metavar="URL",
        help="Spark master, or sc://HOST for Spark Connect, with --backend spark (default: Spark's configuration)",
    )
    group.add_argument(
        "--random-state",
        type=not_negative,
        default=0,
        metavar="SEED",
        help="seed of the model, of --sample, and of folds or held-out rows (default: %(default)s)",
    )
    group.add_argument(
        "--n-jobs",
        type=jobs,
        default=-1,
        metavar="N",
        help="number of threads; -1 for all cores (default: %(default)s)",
    )
    group.add_argument(
        "--engine",
        choices=[AUTO, *ENGINES],
        default=AUTO,
        help="engine that computes the scores: the compiled kernel (native), its slower reference (numpy) or a GPU "
        "(cuda); auto is native, or the engine that the environment variable TRUEWOOD_ENGINE names (default: "
        "%(default)s)",
    )


def _add_output(group: Any) -> None:
    group.add_argument(
        "--measure",
        choices=list(measures()),
        default="auto",
        help="importance measure, as described by truewood.measures() in Python; auto is ufi for classification, "
        "ufi_centered for regression, survival and boosting, and mdi_oob with --sample-weight (default: %(default)s)",
    )
    group.add_argument(
        "--group-correlated",
        type=fraction,
        nargs="?",
        const=0.7,
        metavar="THRESHOLD",
        help="score columns together if their average rank correlation is at least THRESHOLD (%(const)s if omitted)",
    )
    add_result_options(group, ".html (report), .csv, .md, .json (for truewood.load), .png, .svg or .pdf")
    group.add_argument(
        "--contributions",
        action="store_true",
        help="keep the contribution of each row in .json, for truewood compare",
    )
    group.add_argument(
        "--interactions",
        action="store_true",
        help="also test pairs of features for interactions",
    )
    group.add_argument("--json", action="store_true", help="print a JSON object instead of the table")
    group.add_argument("--quiet", action="store_true", help="suppress messages, but not warnings")


def check_options(options: argparse.Namespace) -> None:
    """Refuse options that cannot be combined."""
    if options.backend != "local" and options.saved_model is None:
        raise ValueError(f"--backend: {options.backend} scores a saved model; pass it with --model-file.")
    if options.backend != "local" and options.data == "-":
        raise ValueError(f"--backend: {options.backend} reads files, not standard input; pass a folder or glob.")
    for option, backend in (("scheduler", "dask"), ("master", "spark")):
        if getattr(options, option) is not None and options.backend != backend:
            raise ValueError(f"--{option}: requires --backend {backend}, got --backend {options.backend}.")
    if options.saved_model is None:
        return
    of_fits = {*list_settings(), *get_keywords(score_table)} - {*get_keywords(score_saved_model)}
    given = [name_option(name) for name, value in vars(options).items() if name in of_fits and value]
    if given:
        raise ValueError(f"--model-file: cannot be combined with {', '.join(given)}, because the model is already fit.")


def list_settings() -> list[str]:
    """List the hyperparameters of models that are fit."""
    return [field.name for field in fields(FitSettings)]
