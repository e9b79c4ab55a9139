"""`Comparison`: the differences of two results, feature by feature, with standard errors and p-values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood._formatting import ROWS_IN_WORDS, count, in_one_line
from truewood._inference.p_values import adjust, find_critical_value, find_p_value, find_z_score
from truewood._read_only import make_read_only, restore_read_only
from truewood._results.comparison_text import write_html, write_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Differences between the importances of two results, with standard errors and p-values.

    Attributes
    ----------
    difference : ndarray of shape (n_features,)
        Scores of the first result minus scores of the second.
    std_error : ndarray of shape (n_features,)
        Standard errors of the differences.
    values_a, values_b : ndarray of shape (n_features,)
        Scores of the first and the second result.
    feature_names : ndarray of str, shape (n_features,)
        Names of the features, in the order of the first result.
    names : tuple of (str, str)
        Names of the two results.
    is_paired : bool
        Whether rows were paired; otherwise the results are treated as independent, and their variances are added.
    rows : {"oob", "heldout", "folds", "lists"}
        The kind of rows the trees were scored on, as in `ImportanceResult`.
    n_rows : tuple of (int, int)
        Number of rows of each result.
    measure, task : str
        Measure and task of both results.
    is_additive : bool
        Whether both models' trees add up to a raw score, as in boosting.
    n_groups : int or None
        Number of clusters if results were paired by cluster; None without ``groups=``, or if they are independent.
    """

    difference: Floats
    std_error: Floats
    values_a: Floats
    values_b: Floats
    feature_names: NDArray[np.str_]
    names: tuple[str, str]
    is_paired: bool
    rows: str
    n_rows: tuple[int, int]
    measure: str
    task: str
    is_additive: bool
    n_groups: int | None = None

    def __post_init__(self) -> None:
        make_read_only(self)

    @property
    def order(self) -> NDArray[np.int64]:
        """Indices of the features, the largest absolute difference first, shape (n_features,)."""
        return np.argsort(-np.abs(self.difference), kind="stable")

    @property
    def z_score(self) -> Floats:
        """Differences divided by `std_error`, shape (n_features,); 0 if the standard error is 0."""
        return find_z_score(self.difference, self.std_error)

    @property
    def p_value(self) -> Floats:
        """Two-sided p-values, shape (n_features,), of the null hypothesis that the expected scores are equal."""
        return find_p_value(self.difference, self.std_error, two_sided=True)

    def adjusted_p_value(self, correction: str | None = "bh") -> Floats:
        """Return p-values adjusted for testing all features at once.

        Parameters
        ----------
        correction : {"bh", "by", "holm"} or None, default="bh"
            As in `ImportanceResult.adjusted_p_value`.

        Returns
        -------
        ndarray of shape (n_features,)
        """
        return adjust(self.p_value, correction)

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Return confidence intervals of the expected differences.

        Parameters
        ----------
        level : float, default=0.95
            Confidence level.

        Returns
        -------
        low, high : ndarray of shape (n_features,)
            Lower and upper ends.
        """
        width = find_critical_value(level) * self.std_error
        return self.difference - width, self.difference + width

    def frame(self) -> pd.DataFrame:
        """Return the differences as a data frame, the largest absolute difference first.

        Returns
        -------
        pandas.DataFrame
            Columns feature, difference, std_error, ci_low and ci_high (95% intervals), p_value, adjusted_p_value
            (Benjamini-Hochberg), importance_a and importance_b.
        """
        low, high = self.interval()
        table = pd.DataFrame(
            {
                "feature": self.feature_names.tolist(),
                "difference": self.difference,
                "std_error": self.std_error,
                "ci_low": low,
                "ci_high": high,
                "p_value": self.p_value,
                "adjusted_p_value": self.adjusted_p_value(),
                "importance_a": self.values_a,
                "importance_b": self.values_b,
            }
        )
        return table.iloc[self.order].reset_index(drop=True)

    def describe(self) -> str:
        """Describe in one line what was compared, and how."""
        a, b = map(in_one_line, self.names)
        rows = ROWS_IN_WORDS[self.rows]
        if self.is_paired:
            groups = self.n_groups
            how = "row by row" if groups is None else f"by {count(groups, 'group')} of rows"
            return f"{a} minus {b}, {self.measure} on the same {self.n_rows[0]:,} {rows}, paired {how}"
        n_a, n_b = self.n_rows
        return f"{a} minus {b}, {self.measure} on different {rows} ({n_a:,} and {n_b:,}), treated as independent"

    def plot(self, *, top: int | None = 20, ax: Axes | None = None, alpha: float = 0.05) -> Axes:
        """Plot the differences with 95% intervals.

        Parameters
        ----------
        top : int or None, default=20
            Number of features to show, the largest absolute difference first; None shows all.
        ax : matplotlib Axes, default=None
            Axes to draw on; if None, a new figure is created.
        alpha : float, default=0.05
            Significance level for p-values adjusted by the Benjamini-Hochberg procedure.

        Returns
        -------
        matplotlib Axes
        """
        from truewood._plotting.comparison import draw_differences

        return draw_differences(self, top=top, ax=ax, alpha=alpha)

    def report(
        self,
        path: str | PathLike[str],
        *,
        title: str | None = None,
        notes: Sequence[str] = (),
        alpha: float = 0.05,
    ) -> None:
        """Write a report as a single HTML file that works offline.

        Parameters
        ----------
        path : str or path
            The file to write; its name must end in .html.
        title : str, default=None
            Title of the report; None means "Which features differ between a and b?", with the names of the results.
        notes : sequence of str, default=()
            Sentences to add to the description of the method.
        alpha : float, default=0.05
            Significance level for p-values adjusted by the Benjamini-Hochberg procedure.
        """
        from truewood._report.comparison_page import write_comparison

        write_comparison(self, path, title=title, notes=notes, alpha=alpha)

    __repr__ = write_text
    _repr_html_ = write_html
    __setstate__ = restore_read_only
