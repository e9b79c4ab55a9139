"""`Explanation`: which way, and how far, each feature moved the prediction of each row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from truewood._formatting import ROWS_IN_WORDS, list_names, quote
from truewood._read_only import make_read_only, restore_read_only

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Names of outputs that a sentence lists before it counts the rest.
_LISTED = 8


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Which way, and how far, each feature moved the prediction of each row, by trees that never saw the row.

    Attributes
    ----------
    values : ndarray of shape (n_rows, n_features) or (n_rows, n_features, n_outputs)
        What splits on the feature did to the prediction along the row's paths. With classes, or with several outputs
        or raw scores, the last axis is the class or the output.
    base_values : ndarray of shape (n_rows,) or (n_rows, n_outputs)
        The prediction before any split. Base and values add up to the prediction of the trees that never saw the row:
        class proportions or numbers for forests, risks for survival forests, raw scores for boosted trees. NaN where
        every tree saw the row, as in `values`.
    data : ndarray of shape (n_rows, n_features)
        The columns of the table; missing for features that are made of several columns.
    feature_names : ndarray of str, shape (n_features,)
        Names of the features.
    output_names : ndarray of str, shape (n_outputs,), or None
        Names of the classes or outputs; None where values have no axis for them.
    target : ndarray of shape (n_rows,) or (n_rows, n_outputs), or None
        What the trees were to predict, with classes whether the row is of the class; None where y was not given.
    rows : {"oob", "heldout", "lists"}
        Which trees explain a row: those that it was left out of, all of them, or those it was listed for.
    is_additive : bool
        Whether the trees' values add up to a raw score, as in boosting.
    is_risk : bool
        Whether a larger prediction means an earlier event, as of survival times.
    notes : tuple of str
        What else to know, as sentences.
    """

    values: NDArray[np.float64]
    base_values: NDArray[np.float64]
    data: NDArray[Any]
    feature_names: NDArray[np.str_]
    output_names: NDArray[np.str_] | None = None
    target: NDArray[np.float64] | None = None
    rows: str = "heldout"
    is_additive: bool = False
    is_risk: bool = False
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        make_read_only(self)

    @property
    def predictions(self) -> NDArray[np.float64]:
        """What the trees that never saw a row predict for it, shape (n_rows,) or (n_rows, n_outputs)."""
        summed: NDArray[np.float64] = self.base_values + self.values.sum(axis=1)
        return summed

    def name_prediction(self) -> str:
        """Say what the values move: a prediction, a risk or a raw score."""
        return "raw score" if self.is_additive else "predicted risk" if self.is_risk else "prediction"

    def of_output(self, output: int | str | None = None) -> Explanation:
        """Return the explanation of one class or output.

        Parameters
        ----------
        output : int, str or None, default=None
            Its number or its name; None for the only one, or for the second of two classes.

        Returns
        -------
        Explanation
            One whose values have shape (n_rows, n_features).
        """
        if self.output_names is None:
            if output not in (None, 0):
                raise ValueError(f"output must be None, as values have one output only, got {quote(output)}.")
            return self
        k = self._find_output(output)
        target = None if self.target is None else self.target[:, k]
        values, base_values = self.values[:, :, k], self.base_values[:, k]
        return replace(self, values=values, base_values=base_values, output_names=None, target=target)

    def _find_output(self, output: int | str | None) -> int:
        names = [] if self.output_names is None else self.output_names.tolist()
        if output is None and len(names) == 2:
            return 1
        if isinstance(output, str) and output in names:
            return names.index(output)
        if isinstance(output, int | np.integer) and not isinstance(output, bool) and 0 <= output < len(names):
            return int(output)
        raise ValueError(
            f"output must be the number or the name of one of {list_names(names, _LISTED)}, got {quote(output)}."
        )

    def plot(
        self,
        kind: str = "beeswarm",
        *,
        feature: int | str | None = None,
        row: int | None = None,
        output: int | str | None = None,
        top: int | None = 20,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw the explanation.

        Parameters
        ----------
        kind : {"beeswarm", "dependence", "waterfall"}, default="beeswarm"
            A point for each row and feature; the values of one feature against its column, with the mean of the target
            beside it where y was given; or the way of one row from the base to its prediction.
        feature : int, str or None, default=None
            The feature of "dependence"; None for the one that moves predictions most.
        row : int or None, default=None
            The row of "waterfall".
        output : int, str or None, default=None
            The class or output, by number or name; None for the only one, or for the second of two classes.
        top : int or None, default=20
            Number of features to draw, those that move predictions most; None draws all.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if None.

        Returns
        -------
        matplotlib Axes
        """
        from truewood._plotting.explanation import draw

        return draw(self.of_output(output), kind, self._name_output(output), feature=feature, row=row, top=top, ax=ax)

    def _name_output(self, output: int | str | None) -> str | None:
        return None if self.output_names is None else str(self.output_names[self._find_output(output)])

    def to_shap(self) -> Any:
        """Return the same as a `shap.Explanation`, for the pictures of shap; these are no Shapley values.

        Returns
        -------
        shap.Explanation
        """
        try:
            import shap
        except ImportError as error:
            raise ImportError("to_shap needs shap, which is not installed; pip install shap brings it.") from error
        names = None if self.output_names is None else self.output_names.tolist()
        return shap.Explanation(
            values=self.values.copy(),
            base_values=self.base_values.copy(),
            data=self.data.copy(),
            feature_names=self.feature_names.tolist(),
            output_names=names,
        )

    def __repr__(self) -> str:
        n_rows, n_features = self.values.shape[:2]
        outputs = "" if self.output_names is None else f", {len(self.output_names)} outputs"
        return f"Explanation({n_rows} {ROWS_IN_WORDS[self.rows]}, {n_features} features{outputs})"

    __setstate__ = restore_read_only
