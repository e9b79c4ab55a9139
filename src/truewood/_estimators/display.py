"""`ImportanceDisplay`: a plot of importances in the style of scikit-learn's displays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from truewood._importance import importance
from truewood._results.importance_result import ImportanceResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class ImportanceDisplay:
    """Plot of importances in the style of scikit-learn's displays.

    Create it with `from_estimator` or `from_result`.

    Parameters
    ----------
    result : ImportanceResult
        The scores.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the plot.
    figure_ : matplotlib Figure
        Figure of the plot.

    Examples
    --------
    >>> import truewood as tw
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> forest = RandomForestRegressor(random_state=0).fit(X, y)
    >>> display = tw.ImportanceDisplay.from_estimator(forest, X, y)
    >>> [label.get_text() for label in display.ax_.get_yticklabels()][:2]
    ['bmi', 's5']
    """

    ax_: Axes
    figure_: Figure

    def __init__(self, result: ImportanceResult) -> None:
        self.result = result

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        kind: str = "bar",
        top: int | None = 20,
        ax: Axes | None = None,
        alpha: float = 0.05,
        **options: Any,
    ) -> ImportanceDisplay:
        """Score a fitted estimator and plot the scores.

        Parameters
        ----------
        estimator : object
            The fitted model, see `truewood.importance`.
        X : array-like, data frame or sparse matrix of shape (n_rows, n_columns)
            The rows to score on, as in `truewood.importance`.
        y : array-like of shape (n_rows,) or (n_rows, n_outputs), or str
            The target, or the name of its column in X.
        kind, top, ax, alpha
            As in `plot`.
        **options : object
            Further arguments of `truewood.importance`, such as ``rows="heldout"``.

        Returns
        -------
        ImportanceDisplay
        """
        return cls.from_result(importance(estimator, X, y, **options), kind=kind, top=top, ax=ax, alpha=alpha)

    @classmethod
    def from_result(
        cls,
        result: ImportanceResult,
        *,
        kind: str = "bar",
        top: int | None = 20,
        ax: Axes | None = None,
        alpha: float = 0.05,
    ) -> ImportanceDisplay:
        """Plot an existing result.

        Parameters
        ----------
        result : ImportanceResult
            The scores.
        kind, top, ax, alpha
            As in `plot`.

        Returns
        -------
        ImportanceDisplay
        """
        if not isinstance(result, ImportanceResult):
            raise TypeError(
                f"result must be an ImportanceResult, got {type(result).__name__}; pass what importance() returns."
            )
        return cls(result).plot(kind=kind, top=top, ax=ax, alpha=alpha)

    def plot(
        self, *, kind: str = "bar", top: int | None = 20, ax: Axes | None = None, alpha: float = 0.05
    ) -> ImportanceDisplay:
        """Plot the scores.

        Parameters
        ----------
        kind : {"bar", "compare", "box", "rank", "rank_sets", "classes"}, default="bar"
            The kind of plot, see `ImportanceResult.plot`.
        top : int or None, default=20
            Number of features to show; None shows all.
        ax : matplotlib Axes, default=None
            Axes to draw on; if None, a new figure is created.
        alpha : float, default=0.05
            Significance level for p-values adjusted by the Benjamini-Hochberg procedure; with "rank_sets", the
            probability that any rank set is wrong.

        Returns
        -------
        ImportanceDisplay
            This object, with `ax_` and `figure_`.
        """
        self.ax_ = self.result.plot(kind, top=top, ax=ax, alpha=alpha)
        figure: Any = self.ax_.figure
        self.figure_ = figure
        return self
