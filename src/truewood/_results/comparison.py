"""`Comparison`: two results feature by feature, and how sure it is that they differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm

from truewood._arguments import is_fraction
from truewood._formatting import ROWS_IN_WORDS, count, in_one_line, quote
from truewood._inference.p_values import adjust, find_p_value, find_z_score
from truewood._read_only import make_read_only, restore_read_only

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]

_N_SHOWN = 10


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """The importances of two results, and their differences.

    Attributes
    ----------
    difference : ndarray of shape (n_features,)
        Scores of the first result less those of the second.
    std_error : ndarray of shape (n_features,)
        Standard errors of the differences.
    values_a, values_b : ndarray of shape (n_features,)
        The scores.
    feature_names : ndarray of str, shape (n_features,)
        Names of the features, in the order of the first result.
    names : tuple of (str, str)
        What the two results are called.
    is_paired : bool
        Whether rows were paired; otherwise the results are taken as independent, and their variances add up.
    rows : {"oob", "heldout", "lists"}
        Which rows scored the trees.
    n_rows : tuple of (int, int)
        Number of rows of each.
    measure, task : str
        As of the results.
    is_additive : bool
        Whether both models' trees add up to a raw score, as in boosting.
    n_groups : int or None
        Number of groups of rows that belong together, whose sums were paired; None without ``groups=``.
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
        """Numbers of the features, the largest difference first, whatever its sign."""
        return np.argsort(-np.abs(self.difference), kind="stable")

    @property
    def z_score(self) -> Floats:
        """Differences in units of `std_error`, shape (n_features,); 0 where there is no spread at all."""
        return find_z_score(self.difference, self.std_error)

    @property
    def p_value(self) -> Floats:
        """Two-sided p-values, shape (n_features,): of such a difference, either way, if both are expected the same."""
        return find_p_value(self.difference, self.std_error, two_sided=True)

    def adjusted_p_value(self, correction: str | None = "bh") -> Floats:
        """P-values adjusted for testing all features at once; see `ImportanceResult.adjusted_p_value`."""
        return adjust(self.p_value, correction)

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Confidence intervals of the expected differences: their ends, each of shape (n_features,)."""
        if not is_fraction(level):
            raise ValueError(f"level must lie between 0 and 1, got {quote(level)}.")
        width = norm.isf((1.0 - level) / 2.0) * self.std_error
        return self.difference - width, self.difference + width

    def frame(self) -> pd.DataFrame:
        """Return the differences as a table, the largest first, whatever its sign.

        Returns
        -------
        pandas.DataFrame
            Columns feature, difference, std_error, ci_low, ci_high (of 95 % intervals), p_value, adjusted_p_value
            (Benjamini & Hochberg), importance_a, importance_b.
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
        """Say what was compared, and how, in a sentence."""
        a, b = map(in_one_line, self.names)
        rows = ROWS_IN_WORDS[self.rows]
        if self.is_paired:
            groups = self.n_groups
            how = "row by row" if groups is None else f"by sums over {count(groups, 'group')} of rows"
            return f"{a} less {b}: {self.measure} of the same {count(self.n_rows[0], 'row')} ({rows}), paired {how}"
        of_each = " and ".join(f"{number:,}" for number in self.n_rows)
        return f"{a} less {b}: {self.measure} of {of_each} different rows ({rows}), taken as independent"

    def plot(self, *, top: int | None = 20, ax: Axes | None = None, alpha: float = 0.05) -> Axes:
        """Draw the differences with 95 % intervals.

        Parameters
        ----------
        top : int or None, default=20
            Number of features to draw, those of the largest difference; None draws all.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if None.
        alpha : float, default=0.05
            Largest adjusted p-value (Benjamini & Hochberg) of a difference that is called significant.

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
        """Write a report for people to read: one HTML file that loads nothing from elsewhere.

        Parameters
        ----------
        path : str or path
            The file.
        title : str, default=None
            The report's title.
        notes : sequence of str, default=()
            Sentences to add to what was measured.
        alpha : float, default=0.05
            Largest adjusted p-value (Benjamini & Hochberg) of a difference that is called significant.
        """
        from truewood._report import write_comparison

        write_comparison(self, path, title=title, notes=notes, alpha=alpha)

    def __repr__(self) -> str:
        table = self.frame().drop(columns=["ci_low", "ci_high"]).head(_N_SHOWN)
        table = table.assign(feature=table["feature"].map(in_one_line))
        lines = [f"Comparison: {self.describe()}", table.to_string(index=False, float_format=lambda x: f"{x:.4g}")]
        n_hidden = len(self.difference) - _N_SHOWN
        return "\n".join(lines + [f"{n_hidden} more features; all of them in .frame()."] * (n_hidden > 0))

    __setstate__ = restore_read_only
