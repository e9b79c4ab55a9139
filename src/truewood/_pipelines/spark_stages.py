"""Run a Spark ML PipelineModel outside of Spark: StringIndexer, OneHotEncoder and VectorAssembler.

Columns are computed backwards from the model, so stages that it does not use are not run. Missing and unknown values
follow Spark if it keeps their rows (``handleInvalid="keep"``); where Spark would fail or drop rows, an error is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood._formatting import count, list_names, quote
from truewood._pipelines.encoding import Encoding
from truewood._pipelines.provenance import ColumnProvenance
from truewood.adapters import SparkModel

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Computed:
    """Numbers of shape (n_rows, n), the provenance of their n columns and, if they are codes, the labels."""

    numbers: Floats
    provenance: ColumnProvenance
    labels: list[str] | None = None


class SparkPipeline:
    """The stages of a PipelineModel, applied to a table.

    Parameters
    ----------
    pipeline : SparkModel
        The PipelineModel.
    """

    def __init__(self, pipeline: SparkModel) -> None:
        stages = _list_stages(pipeline)
        predictors = [stage for stage in stages if "predictionCol" in stage.params]
        if not predictors:
            names = ", ".join(stage.name for stage in stages)
            raise TypeError(f"a PipelineModel of Spark must have a tree model among its stages, got {names}.")
        self.model = predictors[-1]
        self._producers = {
            column: (stage, place)
            for stage in stages[: stages.index(self.model)]
            for place, column in enumerate(_list_outputs(stage))
        }

    @property
    def features(self) -> list[str]:
        """Columns that the model takes: a vector column, or for XGBoost possibly numeric columns."""
        params = self.model.params
        return list(params.get("features_cols") or [params["featuresCol"]])

    @property
    def inputs(self) -> list[str] | None:
        """Columns of the caller's table that the model uses; None if no stage computes its vector column."""
        if self.features[0] not in self._producers and "features_cols" not in self.model.params:
            return None
        return list(dict.fromkeys(name for column in self.features for name in self._find_inputs(column)))

    @property
    def labels(self) -> list[str] | None:
        """Labels of the target, if a StringIndexer encodes it."""
        stage, place = self._producers.get(self.model.params.get("labelCol", ""), (None, 0))
        return None if stage is None or stage.name != "StringIndexerModel" else _read_labels(stage)[place]

    def find_predictor(self) -> Any:
        """The model; for another library's model, the original object, which has its own adapter."""
        return self.model if self.model.trees is not None or self.model.live is None else self.model.live

    def _find_inputs(self, column: str) -> list[str]:
        if column not in self._producers:
            return [column]
        stage, place = self._producers[column]
        if stage.name not in _STAGES:
            raise TypeError(
                f"stages before the tree model of a PipelineModel must be {', '.join(_STAGES)}, got {stage.name}; run "
                "it in Spark, and pass the tree model alone with the elements of its features vector as X."
            )
        used = _list_inputs(stage) if stage.name == "VectorAssembler" else [_list_inputs(stage)[place]]
        return [name for column in used for name in self._find_inputs(column)]

    def run(self, X: Any) -> tuple[Floats, Encoding]:
        """Compute the features of a table, and trace them back to its columns."""
        table = _read_table(X, self.inputs or [])
        computed = _join([self._compute(column, table) for column in self.features])
        return computed.numbers, Encoding([str(name) for name in table.columns], computed.provenance)

    def encode_target(self, y: Any) -> Any:
        """Encode y as the model expects it: as codes, if a StringIndexer encodes the labels."""
        if self.labels is None:
            return y
        values = np.asarray(y)
        if values.ndim != 1:
            raise ValueError(f"y must have one dimension, a label per row, got shape {values.shape}.")
        return _find_codes(pd.Series(values), self.labels, "y", "error")

    def _compute(self, column: str, table: pd.DataFrame) -> _Computed:
        if column not in self._producers:
            place = list(table.columns).index(column)
            return _Computed(_read_numbers(table[column]), ColumnProvenance([column], [frozenset([place])]))
        stage, place = self._producers[column]
        return _STAGES[stage.name](self, stage, place, column, table)

    def _index(self, stage: SparkModel, place: int, column: str, table: pd.DataFrame) -> _Computed:
        source, labels = _list_inputs(stage)[place], _read_labels(stage)[place]
        is_computed = source in self._producers
        computed = self._compute(source, table) if is_computed else None
        values = table[source] if computed is None else pd.Series(computed.numbers[:, 0])
        sources = [frozenset([list(table.columns).index(source)])] if computed is None else computed.provenance.sources
        codes = _find_codes(values, labels, f"column {quote(source)} of X", stage.params["handleInvalid"])
        # Spark's name for the code of invalid values that are kept.
        return _Computed(codes[:, np.newaxis], ColumnProvenance([column], sources), [*labels, "__unknown"])

    def _encode(self, stage: SparkModel, place: int, column: str, table: pd.DataFrame) -> _Computed:
        """One column per category, then one for invalid values if they are kept; the last column may be dropped."""
        computed = self._compute(_list_inputs(stage)[place], table)
        codes, n_categories = computed.numbers[:, 0], int(stage.learned["categorySizes"][place])
        is_known = (codes >= 0) & (codes < n_categories)
        is_kept = stage.params["handleInvalid"] == "keep"
        if not is_kept and not is_known.all():
            raise ValueError(
                f"X must contain codes from 0 to {n_categories - 1} for {quote(column)}, because OneHotEncoder has "
                f"handleInvalid='error', got others in {count(int((~is_known).sum()), 'row')}; leave these rows out."
            )
        width = n_categories + is_kept - bool(stage.params["dropLast"])
        hot = np.where(is_known, codes, n_categories).astype(np.int64)
        labels = (computed.labels or list(map(str, range(n_categories))))[:n_categories]
        names = [*labels, "invalid"][:width]
        provenance = ColumnProvenance([f"{column}_{name}" for name in names], computed.provenance.sources * width)
        return _Computed((hot[:, np.newaxis] == np.arange(width)).astype(np.float64), provenance)

    def _assemble(self, stage: SparkModel, _place: int, column: str, table: pd.DataFrame) -> _Computed:
        parts = [self._compute(source, table) for source in _list_inputs(stage)]
        how = stage.params["handleInvalid"]
        for source, part in zip(_list_inputs(stage), parts, strict=True):
            n_missing = int(np.isnan(part.numbers).any(axis=1).sum())
            if n_missing and how != "keep":
                raise ValueError(
                    f"X must not contain missing values in {quote(source)}, got {count(n_missing, 'row')} with some: "
                    f"VectorAssembler of {quote(column)} has handleInvalid={quote(how)}; leave these rows out."
                )
        return _join(parts)


_STAGES: dict[str, Callable[[SparkPipeline, SparkModel, int, str, pd.DataFrame], _Computed]] = {
    "StringIndexerModel": SparkPipeline._index,
    "OneHotEncoderModel": SparkPipeline._encode,
    "VectorAssembler": SparkPipeline._assemble,
}


def _list_stages(pipeline: SparkModel) -> list[SparkModel]:
    """All stages, with nested PipelineModels flattened."""
    return [part for stage in pipeline.stages for part in (_list_stages(stage) if stage.stages else [stage])]


def _list_inputs(stage: SparkModel) -> list[str]:
    return list(stage.params["inputCols"] if "inputCols" in stage.params else [stage.params["inputCol"]])


def _list_outputs(stage: SparkModel) -> list[str]:
    # Stages with several output columns also have a default outputCol.
    single = [stage.params["outputCol"]] if "outputCol" in stage.params else []
    return list(stage.params.get("outputCols", single))


def _read_labels(stage: SparkModel) -> list[list[str]]:
    """Labels of each column; Spark 2 supports only one."""
    learned = stage.learned
    return [list(labels) for labels in learned.get("labelsArray", [learned.get("labels", ())])]


def _join(parts: Sequence[_Computed]) -> _Computed:
    names = [name for part in parts for name in part.provenance.names]
    sources = [source for part in parts for source in part.provenance.sources]
    return _Computed(np.concatenate([part.numbers for part in parts], axis=1), ColumnProvenance(names, sources))


def _read_table(X: Any, needed: list[str]) -> pd.DataFrame:
    """Convert X to a pandas DataFrame with the columns that the pipeline needs."""
    frame = X if isinstance(X, pd.DataFrame) else nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, pd.DataFrame | nw.DataFrame):
        raise TypeError(f"X must be a data frame with the columns {list_names(needed)}, got {type(X).__name__}.")
    table = frame if isinstance(frame, pd.DataFrame) else frame.to_pandas()
    table = table.set_axis([str(name) for name in table.columns], axis=1)
    for name in needed:
        n_found = list(table.columns).count(name)
        if n_found != 1:
            raise ValueError(
                f"X must have exactly one column {quote(name)}, an input of the PipelineModel, got {n_found}."
            )
    if not len(table):
        raise ValueError("X must have at least one row, got none.")
    return table


def _read_numbers(values: pd.Series[Any]) -> Floats:
    """Numbers or booleans as Spark assembles them, NaN for missing values."""
    if not (pd.api.types.is_numeric_dtype(values) or values.isna().all()):
        raise ValueError(
            f"column {quote(values.name)} of X must contain numbers, as the PipelineModel expects, got {values.dtype} "
            "values."
        )
    numbers: Floats = values.to_numpy(dtype=np.float64, na_value=np.nan)[:, np.newaxis]
    return numbers


def _find_codes(values: pd.Series[Any], labels: list[str], what: str, how: str) -> Floats:
    """Code of each value: its position among the labels, which Spark stores as strings."""
    is_text = not pd.api.types.is_numeric_dtype(values)
    if pd.api.types.is_bool_dtype(values) or pd.api.types.is_datetime64_any_dtype(values):
        raise ValueError(
            f"{what} must contain strings or numbers, as StringIndexer expects, got {values.dtype} values."
        )
    known = {label: code for code, label in enumerate(labels)} if is_text else _number_labels(labels)
    texts = values.astype(object).map(str) if is_text else values.astype(np.float64)
    # A missing value never matches the string label "nan", but in a numeric column NaN can be a label.
    missing = labels.index("NaN") if not is_text and "NaN" in labels else np.nan
    codes: Floats = np.where(values.isna(), missing, texts.map(known).to_numpy(dtype=np.float64))
    is_invalid = np.isnan(codes)
    if is_invalid.any() and how != "keep":
        shown = list_names([repr(value) for value in values[is_invalid].unique().tolist()], 3)
        raise ValueError(
            f"{what} must contain labels that StringIndexer knows, because handleInvalid={quote(how)}, got {shown} in "
            f"{count(int(is_invalid.sum()), 'row')}; leave these rows out."
        )
    return np.where(is_invalid, len(labels), codes)


def _number_labels(labels: list[str]) -> dict[float, int]:
    """Codes of numeric labels: Spark writes 3 as "3" or "3.0", depending on the column type."""
    numbers = pd.to_numeric(pd.Series(labels, dtype=object), errors="coerce")
    return {number: code for code, number in enumerate(numbers.tolist()) if number == number}
