"""`ImportanceDisplay`: a picture of the scores in the manner of scikit-learn's displays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from truewood._importance import importance
from truewood._results.importance_result import ImportanceResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class ImportanceDisplay:
    """Picture of importances, as scikit-learn's displays are used.

    Make one with `from_estimator` or `from_result`.

    Parameters
    ----------
    result : ImportanceResult
        The scores.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where the picture was drawn.
    figure_ : matplotlib Figure
        The figure that holds it.

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
        """Score a fitted estimator, and draw the scores.

        Parameters
        ----------
        estimator : object
            The fitted model, as of `truewood.importance`.
        X : array-like, data frame or sparse matrix of shape (n_rows, n_columns)
            The table.
        y : array-like of shape (n_rows,)
            The target.
        kind, top, ax, alpha : object
            As of `plot`.
        **options : object
            More arguments of `truewood.importance`, such as ``rows="heldout"``.

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
        """Draw scores that are there already.

        Parameters
        ----------
        result : ImportanceResult
            The scores.
        kind, top, ax, alpha : object
            As of `plot`.

        Returns
        -------
        ImportanceDisplay
        """
        if not isinstance(result, ImportanceResult):
            raise TypeError(f"result must be an ImportanceResult, got {type(result).__name__}.")
        return cls(result).plot(kind=kind, top=top, ax=ax, alpha=alpha)

    def plot(
        self, *, kind: str = "bar", top: int | None = 20, ax: Axes | None = None, alpha: float = 0.05
    ) -> ImportanceDisplay:
        """Draw the scores once more.

        Parameters
        ----------
        kind : {"bar", "compare", "box", "rank"}, default="bar"
            The kind of picture, as of `ImportanceResult.plot`.
        top : int or None, default=20
            Number of features to draw; None draws all.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if None.
        alpha : float, default=0.05
            Largest adjusted p-value of a feature that "bar" calls significant.

        Returns
        -------
        ImportanceDisplay
            This one, with `ax_` and `figure_`.
        """
        self.ax_ = self.result.plot(kind, top=top, ax=ax, alpha=alpha)
        figure: Any = self.ax_.figure
        self.figure_ = figure
        return self
