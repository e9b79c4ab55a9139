"""From a table to scores, for the command line: fit a pipeline to it, or judge a saved model by it."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pandas as pd
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from truewood.result.importance_result import ImportanceResult
from truewood.scoring.model_importance import importance
from truewood.tabular.columns import describe, read_columns
from truewood.tabular.duplicates import find_copies
from truewood.tabular.fitting import (
    DEFAULT_TEST_SIZE,
    DEFAULT_TREES,
    FORESTS,
    MODELS,
    FitOptions,
    Fitted,
    fit_boosting,
    fit_forest,
)
from truewood.tabular.messages import Speaker
from truewood.tabular.model_tables import as_probabilities, match_target, prepare_table
from truewood.tabular.saved_models import load_model
from truewood.tabular.skill import Skill, measure_skill
from truewood.tabular.target_column import read_target, read_weight
from truewood.words import ROWS_IN_WORDS, count


@dataclass(frozen=True, eq=False)
class Scored:
    """Scores with what belongs to them.

    Parameters
    ----------
    result : ImportanceResult
        The scores.
    X : DataFrame
        The columns that were scored, as they were read.
    model : str
        The model in words.
    columns : list of dict
        Name, kind and use of each column that was looked at.
    skill : Skill or None
        How well the model predicts; None where that could not be measured.
    """

    result: ImportanceResult
    X: pd.DataFrame
    model: str
    columns: list[dict[str, Any]]
    skill: Skill | None


def score_fit(options: argparse.Namespace, table: pd.DataFrame, speaker: Speaker) -> Scored:
    """Infer what the columns are, fit a model to them, and score it.

    Parameters
    ----------
    options : Namespace
        The arguments of the command.
    table : DataFrame
        The rows that have a target.
    speaker : Speaker
        Where messages go.
    """
    target = read_target(table[options.target], options.target, options.task, speaker.say)
    weight = None if options.sample_weight is None else read_weight(table, options.sample_weight)
    columns = read_columns(_leave_out(options, table), options.keep)
    for line in describe(columns):
        speaker.say(line)
    used = [column for column in columns if column.is_used]
    if not used:
        raise ValueError("no column is left to predict the target with.")
    X = pd.DataFrame({column.name: column.values for column in used})
    _warn_of_copies(X, target.y, speaker)
    name = options.model or MODELS[0]
    trees = options.trees or DEFAULT_TREES[name]
    test_size = options.test_size or DEFAULT_TEST_SIZE
    chosen = FitOptions(name, trees, options.max_depth, options.seed, options.jobs, test_size)
    description = f"fitting {name} to {count(len(X), 'row')}"
    with _show_progress(description, trees, is_quiet=options.quiet) as progress:
        fit = fit_forest if name in FORESTS else fit_boosting
        fitted = fit(used, X, target, weight, chosen, progress)
    result = _score(fitted, options, speaker)
    skill = measure_skill(fitted.y, fitted.predicted, fitted.classes, fitted.weight, ROWS_IN_WORDS[fitted.rows])
    listed = [{"name": c.name, "kind": c.kind, "used": c.is_used, "note": c.note} for c in columns]
    return Scored(result, fitted.X, name, listed, skill)


def score_file(options: argparse.Namespace, table: pd.DataFrame, speaker: Speaker) -> Scored:
    """Load a model and score it on the table, which it must not have seen; arguments as of `score_fit`."""
    saved = load_model(options.model_file, trust_pickle=options.trust_pickle)
    name = type(saved.model).__name__
    speaker.say(f"loaded {options.model_file}: {name}, {'regression' if saved.classes is None else 'classification'}")
    y = match_target(saved, table[options.target], options.target)
    weight = None if options.sample_weight is None else read_weight(table, options.sample_weight)
    X = prepare_table(saved, _leave_out(options, table), speaker)
    _warn_of_copies(X, y, speaker)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            predicted = as_probabilities(saved.predict(X), saved.classes)
    except Exception as error:  # each library has exceptions of its own for tables it does not take
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(f"--model-file: the model does not take this table: {reason}") from error
    fitted = Fitted(saved.model, X, y, weight, "heldout", predicted, saved.classes)
    try:
        result = _score(fitted, options, speaker)
    except TypeError as error:  # not a tree model
        raise ValueError(f"--model-file: {error}") from error
    except ValueError as error:
        if "got the rows it was fit on" not in str(error):
            raise
        raise ValueError(
            "--model-file: the table holds the rows that the model was fit on, which cannot judge it; pass a table of "
            "rows it has never seen."
        ) from error
    listed = [{"name": str(c), "kind": str(X[c].dtype), "used": True, "note": None} for c in X]
    return Scored(result, X, name, listed, measure_skill(y, predicted, saved.classes, weight, "the rows of the table"))


def _leave_out(options: argparse.Namespace, table: pd.DataFrame) -> pd.DataFrame:
    """The table without target, weights, and what the user drops."""
    absent = {options.target, options.sample_weight, *options.drop}
    return table[[name for name in table if name not in absent]]


def _warn_of_copies(X: pd.DataFrame, y: NDArray[Any], speaker: Speaker) -> None:
    n_copies = find_copies(X, y)
    if n_copies:
        speaker.warn(
            f"{n_copies:,} of {len(X):,} rows repeat another row in all columns and the target; if they are copies, "
            "scores and p-values are far too good: remove copies"
        )


def _score(fitted: Fitted, options: argparse.Namespace, speaker: Speaker) -> ImportanceResult:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = importance(
            fitted.model,
            fitted.X,
            fitted.y,
            rows=fitted.rows,
            measure=options.measure,
            sample_weight=fitted.weight,
            n_jobs=options.jobs,
            random_state=options.seed,
        )
    for message in dict.fromkeys(str(warning.message) for warning in caught if warning.category is UserWarning):
        speaker.warn(message)
    return result


@contextmanager
def _show_progress(description: str, total: int, *, is_quiet: bool) -> Iterator[Callable[[int], None]]:
    """A bar that a function moves, on a terminal that may show one."""
    console = Console(stderr=True)
    if is_quiet or not console.is_terminal:
        yield lambda _done: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("trees"))
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as progress:
        task = progress.add_task(description, total=total)
        yield lambda done: progress.update(task, completed=done)
