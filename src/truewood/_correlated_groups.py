"""`correlated_groups`: columns that tell nearly the same, put together to be scored as one feature."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import squareform

from truewood._arguments import is_fraction
from truewood._formatting import count, quote
from truewood._inference.rounding import SAME
from truewood._inputs.correlation import relate_columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Groups of up to this many columns are named by all of them.
_MOST_NAMED = 3


class CorrelatedGroups(dict[str, list[Any]]):
    """Groups of columns: a dict from group name to columns, for ``feature_groups=``, with the tree they are from.

    Attributes
    ----------
    threshold : float
        Strength at which the tree was cut.
    column_names : list of str
        Names of all columns.
    linkage : ndarray of shape (n_columns - 1, 4)
        The tree, as of `scipy.cluster.hierarchy.linkage`; distances are 1 less the strength.
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
        """The distance at which the tree is cut."""
        return 1.0 - self.threshold + SAME

    @property
    def several(self) -> dict[str, list[Any]]:
        """The groups of more than one column."""
        return {name: columns for name, columns in self.items() if len(columns) > 1}

    def describe(self) -> str:
        """Say how many columns are together, in a line."""
        if not self.several:
            return f"no columns relate so strongly ({self.threshold:g}) that they make a group"
        n_columns = sum(map(len, self.several.values()))
        groups = count(len(self.several), "group")
        return f"{n_columns:,} of {count(len(self.column_names), 'column')} are in {groups} ({self.threshold:g})"

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Draw the tree of the columns (a dendrogram), with groups in colour and the threshold as a line.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if None.

        Returns
        -------
        matplotlib Axes
        """
        from truewood._plotting.dendrogram import draw_dendrogram

        return draw_dendrogram(self, ax)


def correlated_groups(X: Any, *, threshold: float = 0.7) -> CorrelatedGroups:
    """Put columns together that tell nearly the same, by hierarchical clustering of their rank correlations.

    Correlated features share what they tell, and neither p-value says which of them is the one. As one group they get
    one score and one test.

    Parameters
    ----------
    X : array-like, data frame or sparse matrix of shape (n_rows, n_columns)
        The table. Missing values are left out pair by pair; 2,000 rows are looked at.
    threshold : float, default=0.7
        Columns are together if they relate so strongly on average over pairs (average linkage). The strength of two
        numbers is the size of Spearman's correlation, where a category takes part Cramér's V. Constant columns and
        text of more than 25 levels stay for themselves.

    Returns
    -------
    CorrelatedGroups
        A dict from group name to columns, for ``feature_groups=``; a column that is alone keeps its name.

    Examples
    --------
    >>> import truewood as tw
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> tw.correlated_groups(X).several
    {'s1 + s2': ['s1', 's2'], 's3 + s4': ['s3', 's4']}
    """
    if not is_fraction(threshold):
        raise ValueError(f"threshold must be a number between 0 and 1, got {quote(threshold)}.")
    names, strength = relate_columns(X)
    if len(names) < 2:
        return CorrelatedGroups({name: [name] for name in names}, threshold, names, np.empty((0, 4)))
    from scipy.cluster.hierarchy import fcluster, linkage  # which takes time to import

    tree = linkage(squareform(np.clip(1.0 - strength, 0.0, 1.0), checks=False), method="average")
    group_of = fcluster(tree, 1.0 - threshold + SAME, criterion="distance")
    columns: list[Any] = [name if names.count(name) == 1 else place for place, name in enumerate(names)]
    groups: dict[str, list[Any]] = {}
    for group in dict.fromkeys(group_of.tolist()):
        members = np.flatnonzero(group_of == group).tolist()
        name = _name_group([names[place] for place in members], groups, names)
        groups[name] = [columns[place] for place in members]
    return CorrelatedGroups(groups, threshold, names, tree)


def _name_group(members: list[str], groups: Collection[str], columns: Collection[str]) -> str:
    """A name of all members, or of the first ones and how many more there are, that no other group or column has."""
    shown = members if len(members) <= _MOST_NAMED else [*members[:2], f"{len(members) - 2} more"]
    name = " + ".join(shown)
    while name in groups or (len(members) > 1 and name in columns):
        name += "'"
    return name
