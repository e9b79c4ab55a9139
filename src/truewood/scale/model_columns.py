"""The columns of a source that a model takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from truewood.adapters import find_spark_pipeline
from truewood.data.tables import TableForm
from truewood.pipelines.spark_stages import SparkPipeline
from truewood.pipelines.unwrapping import find_innermost
from truewood.words import list_names


def choose_columns(model: Any, form: TableForm, known: Sequence[str], others: Sequence[str]) -> list[str]:
    """Names of the columns of a source that a model takes, in its order.

    Parameters
    ----------
    model : object
        The model, with whatever is around it.
    form : TableForm
        The table that the innermost model takes.
    known : sequence of str
        Names of the columns that there are. A model without names takes all of them, in their order.
    others : sequence of str
        Columns of the target and of the weights.
    """
    is_plain = find_innermost(model) is model
    names: Sequence[Any] | None
    if is_plain:
        names, n_columns = form.names if form.names is None else form.names.tolist(), form.n_features
    elif (spark := find_spark_pipeline(model)) is not None:
        names, n_columns = SparkPipeline(spark).inputs, form.n_features
    else:
        names, n_columns = getattr(model, "feature_names_in_", None), getattr(model, "n_features_in_", None)
    given = [name for name in known if name not in others]
    if names is None:
        if n_columns is not None and len(given) != n_columns:
            raise ValueError(
                f"X must have the {n_columns} columns {form.model} was fit on, got {len(given)} beside y and "
                f"sample_weight: {list_names(given, 5)}; {form.model} knows no names of columns."
            )
        return given
    spell = form.spell if is_plain else str
    # A column of the very name comes before one that is only spelled so.
    spelled = {spell(name): name for name in given} | {name: name for name in given}
    absent = [str(name) for name in names if str(name) not in spelled]
    if absent:
        raise ValueError(
            f"X must have the columns {form.model} was fit on, and lacks {list_names(absent, 5)}; it has "
            f"{list_names(given, 5)}."
        )
    return [spelled[str(name)] for name in names]
