"""`correlated_groups`: groups of correlated columns, to be scored as one feature each."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import squareform

from truewood._arguments import is_fraction
from truewood._formatting import count, quote
from truewood._inference.moments import SAME
from truewood._inputs.correlation import correlate_columns
from truewood._results.notebook_view import write_table, write_view

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Group names list up to this many columns.
_MAX_NAMED = 3


class CorrelatedGroups(dict[str, list[Any]]):
    """Groups of correlated columns: a dict from group name to columns for ``feature_groups=``, with its dendrogram.

    Attributes
    ----------
    threshold : float
        Correlation at which the dendrogram was cut.
    column_names : list of str
        Names of all columns.
    linkage : ndarray of shape (n_columns - 1, 4)
        The dendrogram, as in `scipy.cluster.hierarchy.linkage`; distances are 1 minus the correlation.
    """

    threshold: float
    column_names: list[str]
    linkage: NDArray[np.float64]

    def __init__(
        self, groups: dict[str, list[Any]], threshold: float, column_names: list[str], linkage: NDArray[np.float64]
    ) -> None:
        super().__init__(groups)
        self.threshold, self.column_names, self.linkage = threshold, column_names, linkage

    @property
    def cut(self) -> float:
        """Distance at which the dendrogram is cut."""
        return 1.0 - self.threshold + SAME

    @property
    def several(self) -> dict[str, list[Any]]:
        """The groups with more than one column."""
        return {name: columns for name, columns in self.items() if len(columns) > 1}

    def describe(self) -> str:
        """Describe in one line how many columns are grouped."""
        if not self.several:
            return f"no columns are correlated strongly enough to be grouped (threshold {self.threshold:g})"
        n_columns = sum(map(len, self.several.values()))
        groups = count(len(self.several), "group")
        return (
            f"{n_columns:,} of {count(len(self.column_names), 'column')} form {groups} of correlated columns "
            f"(threshold {self.threshold:g})"
        )

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Plot the dendrogram of the columns, with colored groups and the threshold as a dashed line.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; if None, a new figure is created.

        Returns
        -------
        matplotlib Axes
        """
        from truewood._plotting.dendrogram import draw_dendrogram

        return draw_dendrogram(self, ax)

    def _repr_html_(self) -> str:
        columns = {
            "group": list(self.several),
            "columns": [", ".join(map(str, members)) for members in self.several.values()],
        }
        n_alone = len(self) - len(self.several)
        notes = [f"{count(n_alone, 'other column')} {'is' if n_alone == 1 else 'are'} not grouped."] * (n_alone > 0)
        table = write_table(columns, n_names=2) if self.several else ""
        return write_view("CorrelatedGroups", self.describe(), table, notes)


def correlated_groups(X: Any, *, threshold: float = 0.7) -> CorrelatedGroups:
    """Group correlated columns by hierarchical clustering of their rank correlations.

    Correlated features share credit, and their p-values cannot say which one matters. As a group they get one score and
    one p-value.

    Parameters
    ----------
    X : array-like, data frame or sparse matrix of shape (n_rows, n_columns)
        The table. At most 2,000 rows are used, drawn with a fixed seed. Missing numbers are dropped pairwise; a
        missing category counts as a level.
    threshold : float, default=0.7
        Minimum average correlation between the columns of a group (average linkage). The correlation of two numeric
        columns is the absolute value of Spearman's coefficient; if one of them is a category, it is Cramér's V.
        Constant columns and categories with more than 25 levels are not grouped.

    Returns
    -------
    CorrelatedGroups
        A dict from group name to columns for ``feature_groups=``; a column on its own keeps its name.

    Examples
    --------
    >>> import truewood as tw
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> tw.correlated_groups(X).several
    {'s1 + s2': ['s1', 's2'], 's3 + s4': ['s3', 's4']}
    """
    if not is_fraction(threshold):
        raise ValueError(f"threshold must be a number between 0 and 1, got {quote(threshold)}; the default is 0.7.")
    names, strength = correlate_columns(X)
    if len(names) < 2:
        return CorrelatedGroups({name: [name] for name in names}, threshold, names, np.empty((0, 4)))
    from scipy.cluster.hierarchy import fcluster, linkage  # slow to import

    tree = linkage(squareform(np.clip(1.0 - strength, 0.0, 1.0), checks=False), method="average")
    group_of = fcluster(tree, 1.0 - threshold + SAME, criterion="distance")
    columns: list[Any] = [name if names.count(name) == 1 else position for position, name in enumerate(names)]
    groups: dict[str, list[Any]] = {}
    for group in dict.fromkeys(group_of.tolist()):
        members = np.flatnonzero(group_of == group).tolist()
        name = _name_group([names[j] for j in members], groups, names)
        groups[name] = [columns[j] for j in members]
    return CorrelatedGroups(groups, threshold, names, tree)


def _name_group(members: list[str], groups: Collection[str], columns: Collection[str]) -> str:
    """Name a group after its columns, or the first ones and the number of others; unique among groups and columns."""
    shown = members if len(members) <= _MAX_NAMED else [*members[:2], f"{len(members) - 2} more"]
    name = " + ".join(shown)
    while name in groups or (len(members) > 1 and name in columns):
        name += "'"
    return name
