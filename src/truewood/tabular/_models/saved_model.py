"""A saved model as the tables that it judges see it: its columns, classes and levels, and how it predicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood.adapters import SparkModel


@dataclass(frozen=True, eq=False)
class SavedModel:
    """A loaded model and what it wants.

    Parameters
    ----------
    model : object
        What `importance` takes.
    library : {"XGBoost", "LightGBM", "CatBoost", "Spark", "estimator"}
        Whose model it is; an estimator has the interface of scikit-learn.
    columns : list of str, or None
        Names of its columns, in order; None where it does not know them.
    n_columns : int
        Number of its columns.
    classes : ndarray or None
        The labels it predicts; None for numbers.
    predict : callable
        ``predict(X)`` gives numbers, or probabilities of the classes; see `predict_probabilities`.
    levels : dict
        Columns that are categories to the model, and their levels; None for levels it does not list.
    spell : callable
        ``spell(name)`` gives a name as the model has it.
    """

    model: Any
    library: str
    columns: list[str] | None
    n_columns: int
    classes: NDArray[Any] | None
    predict: Callable[[pd.DataFrame], Any]
    levels: dict[str, Sequence[Any] | None]
    spell: Callable[[str], str] = str

    @property
    def name(self) -> str:
        """The class of the model, as its library names it."""
        return self.model.name if isinstance(self.model, SparkModel) else type(self.model).__name__

    def predict_probabilities(self, X: pd.DataFrame) -> NDArray[np.float64]:
        """Predictions as numbers, or as a column per class."""
        values = np.asarray(self.predict(X), dtype=np.float64)
        if self.classes is None or values.ndim == 2:
            return values
        if len(self.classes) == 2:
            return np.column_stack([1.0 - values, values])
        return np.asarray(values[:, np.newaxis] == np.arange(len(self.classes)), dtype=np.float64)
