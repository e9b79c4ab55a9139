"""`Explanation`: the effect of each feature on the prediction of each row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from truewood._arguments import find_index
from truewood._formatting import ROWS_IN_WORDS, count, find_unit, list_names, quote, shorten
from truewood._read_only import make_read_only, restore_read_only
from truewood._results.notebook_view import draw_bars, write_table, write_view
from truewood._results.trends import name_prediction

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Features of the notebook view.
_N_SHOWN = 10
# Output names that an error message lists.
_MAX_LISTED = 8


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """The effect of each feature on the prediction of each row, from trees that were not trained on the row.

    Attributes
    ----------
    values : ndarray of shape (n_rows, n_features) or (n_rows, n_features, n_outputs)
        How much splits on the feature changed the prediction along the row's paths. The last axis has one entry per
        class, output or raw score. It does not exist if a single number is predicted: by regressors with one output,
        survival forests, and boosted trees with a single raw score for two classes.
    base_values : ndarray of shape (n_rows,) or (n_rows, n_outputs)
        The prediction before any split. Base values plus values are the prediction of the trees that were not trained
        on the row: class proportions or means for forests, risks for survival forests, raw scores for boosted
        trees. NaN, like `values`, if all trees were trained on the row.
    data : ndarray of shape (n_rows, n_features)
        The columns of the table; NaN for features that combine several columns.
    feature_names : ndarray of str, shape (n_features,)
        Names of the features.
    output_names : ndarray of str, shape (n_outputs,), or None
        Names of the classes or outputs; None if values have no axis for them.
    target : ndarray of shape (n_rows,) or (n_rows, n_outputs), or None
        The target of the trees; for classifiers, 1 for the class of the row and 0 for the others. None if y was not
        given.
    rows : {"oob", "heldout", "folds", "lists"}
        Which trees explain a row. "oob": those it is out of bag for. "heldout": all trees. "folds": those of the fold
        that held it out (only from `truewood.tabular`). "lists": those it was listed for.
    is_additive : bool
        Whether the trees' values add up to a raw score, as in boosting.
    is_risk : bool
        Whether a larger prediction means an earlier event, as for the risks that survival models predict.
    notes : tuple of str
        Caveats, one sentence each.
    positive_class : str or None
        The class that a higher raw score makes more likely, for boosted classifiers with a single raw score.
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
    positive_class: str | None = None

    def __post_init__(self) -> None:
        make_read_only(self)

    @property
    def predictions(self) -> NDArray[np.float64]:
        """Predictions of the trees that were not trained on each row, shape (n_rows,) or (n_rows, n_outputs)."""
        summed: NDArray[np.float64] = self.base_values + self.values.sum(axis=1)
        return summed

    def of_output(self, output: int | str | None = None) -> Explanation:
        """Return the explanation of one class or output.

        Parameters
        ----------
        output : int, str or None, default=None
            Index or name; None for the only output, or for the second of two. Required with more than two.

        Returns
        -------
        Explanation
            An explanation with values of shape (n_rows, n_features).
        """
        if self.output_names is None:
            if output not in (None, 0):
                raise ValueError(f"output must be None for a model with one output, got {quote(output)}; leave it out.")
            return self
        k = self._find_output(output)
        target = None if self.target is None else self.target[:, k]
        values, base_values = self.values[:, :, k], self.base_values[:, k]
        return replace(self, values=values, base_values=base_values, output_names=None, target=target)

    def _find_output(self, output: int | str | None) -> int:
        names = [] if self.output_names is None else self.output_names.tolist()
        if output is None and len(names) == 2:
            return 1
        found = find_index(output, names)
        if found is not None:
            return found
        raise ValueError(
            f"output must be the index or name of a class or output, one of {list_names(names, _MAX_LISTED)}, got "
            f"{quote(output)}; for example, pass output={quote(names[0])}."
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
        """Plot the explanation.

        Parameters
        ----------
        kind : {"beeswarm", "dependence", "waterfall"}, default="beeswarm"
            "beeswarm": one point per row and feature. "dependence": the effects of one feature against its values,
            with the mean of the target if y was given. "waterfall": the steps from the base value to the prediction
            of one row.
        feature : int, str or None, default=None
            Index or name of the feature for "dependence"; None for the one with the largest mean absolute effect.
        row : int or None, default=None
            Index of the row for "waterfall", which requires it.
        output : int, str or None, default=None
            Index or name of the class or output. None means the only one, the second of two or, with more than two,
            the one with the largest mean absolute effects; the plot names it.
        top : int or None, default=20
            Number of features to show, those with the largest effects; None shows all.
        ax : matplotlib Axes, default=None
            Axes to draw on; if None, a new figure is created.

        Returns
        -------
        matplotlib Axes
        """
        from truewood._plotting.explanation import draw

        if output is None and self.output_names is not None and len(self.output_names) > 2:
            output = int(np.nansum(np.abs(self.values), axis=(0, 1)).argmax())
        name = None if self.output_names is None else str(self.output_names[self._find_output(output)])
        return draw(self.of_output(output), kind, name, feature=feature, row=row, top=top, ax=ax)

    def to_shap(self) -> Any:
        """Convert to a `shap.Explanation` for shap's plots; the values are not Shapley values.

        Returns
        -------
        shap.Explanation
        """
        try:
            import shap
        except ImportError as error:
            raise ImportError("to_shap() needs shap, which is not installed; run pip install shap.") from error
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
        return f"Explanation({n_rows:,} {ROWS_IN_WORDS[self.rows]}, {count(n_features, 'feature')}{outputs})"

    def _repr_html_(self) -> str:
        n_rows, n_features = self.values.shape[:2]
        header = f"{n_rows:,} {ROWS_IN_WORDS[self.rows]}, {count(n_features, 'feature')}"
        header += "" if self.output_names is None else f", {len(self.output_names)} outputs"
        effects = summarize_effects(self)
        if effects is None:
            return write_view("Explanation", header, "", ["No explanations: all trees were trained on all rows."])
        bars = draw_bars(effects.means, [True] * len(effects.means))
        notes = [f"Effects are on the {effects.prediction}; .plot() shows them row by row."]
        n_hidden, n_missing = n_features - _N_SHOWN, int(np.count_nonzero(~_find_explained(self)))
        notes += [f"{count(n_hidden, 'more feature')}; see .values."] * (n_hidden > 0)
        notes += [f"No explanation for {count(n_missing, 'row')}: all trees were trained on them."] * (n_missing > 0)
        return write_view("Explanation", header, write_table(effects.columns, bars), [*notes, *self.notes])

    def _ipython_display_(self) -> None:
        from truewood._report.notebook_chart import display_explanation

        display_explanation(self)

    __setstate__ = restore_read_only


@dataclass(frozen=True)
class EffectSummary:
    """The features with the largest effects, as notebooks show them.

    Parameters
    ----------
    prediction : str
        What the effects are on.
    means : list of float
        Mean absolute effects, the largest first.
    columns : dict of str to list of str
        Texts of the table by heading, in the same order.
    """

    prediction: str
    means: list[float]
    columns: dict[str, list[str]]


def summarize_effects(explanation: Explanation) -> EffectSummary | None:
    """Summarize the features with the largest effects; None if no row is explained."""
    is_explained, names = _find_explained(explanation), explanation.output_names
    if not is_explained.any():
        return None
    by_feature = [
        explanation.values[is_explained, j].reshape(np.count_nonzero(is_explained), -1)
        for j in range(explanation.values.shape[1])
    ]
    name = None
    if names is not None and len(names) == 2 and all(np.allclose(part.sum(axis=1), 0.0) for part in by_feature):
        name = str(names[1])  # two classes: effects on the first are the same with the opposite sign
        by_feature = [part[:, 1:] for part in by_feature]
    size = np.array([np.abs(part).mean(axis=0) for part in by_feature])  # (n_features, n_outputs)
    mean = size.mean(axis=1)
    order = np.argsort(-mean, kind="stable")[:_N_SHOWN].tolist()
    unit, ends = find_unit(mean), [(float(by_feature[j].min()), float(by_feature[j].max())) for j in order]
    ends_unit = find_unit(end for both in ends for end in both)
    columns = {
        "feature": explanation.feature_names[order].tolist(),
        unit.name("mean absolute effect"): [unit.write(mean[j]) for j in order],
        ends_unit.name("range"): [f"{ends_unit.write(low)} to {ends_unit.write(high)}" for low, high in ends],
    }
    if names is not None and name is None:
        columns["largest for"] = [shorten(str(names[k]), 24) for k in size[order].argmax(axis=1)]
    return EffectSummary(name_prediction(explanation, name), mean[order].tolist(), columns)


def _find_explained(explanation: Explanation) -> NDArray[np.bool_]:
    """Find the rows with an explanation, shape (n_rows,)."""
    first: NDArray[np.float64] = explanation.base_values.reshape(len(explanation.base_values), -1)[:, 0]
    return ~np.isnan(first)
