"""`Interactions`: which pairs of features work together, with standard errors and p-values."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata

from truewood._arguments import find_index, is_choice, is_count, is_fraction
from truewood._formatting import (
    ROWS_IN_WORDS,
    count,
    list_names,
    quote,
)
from truewood._inference.p_values import adjust, find_interval, find_p_value, find_z_score
from truewood._read_only import make_read_only, restore_read_only
from truewood._results.interactions_text import write_html, write_text
from truewood._results.pair_surfaces import JointSurfaces

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]

# Dependence of two features from which on one may show the interactions of the other. At 0.3, 8% of such pairs were
# significant at 5% without an interaction, at 0.8 about 30% (docs/theory/interactions.md).
_MAY_STAND_IN = 0.25

_MATRICES = ("values", "share", "p_value", "adjusted_p_value", "dependence")


@dataclass(frozen=True, eq=False, repr=False)
class Interactions:
    """Interactions of pairs of features, with standard errors and p-values.

    Attributes
    ----------
    values : ndarray of shape (n_pairs,)
        Scores: the variance of the target that the joint effect of the two features explains on evaluation rows, beyond
        what they explain separately. They are signed: a pair without an interaction scores zero on average.
    share : ndarray of shape (n_pairs,)
        Scores relative to the variance (Gini impurity for classes) of the target. NaN for raw scores that are not in
        units of the target.
    std_error : ndarray of shape (n_pairs,)
        Standard errors of the scores; NaN if they are unavailable or withheld.
    null_std_error : ndarray of shape (n_pairs,)
        Standard errors under the null hypothesis of no interaction, used by `p_value`.
    bias_bound : ndarray of shape (n_pairs,)
        Upper bound on the bias of a score if its two features depend on each other; p-values and intervals allow for
        this bias.
    dependence : ndarray of shape (n_pairs,)
        How strongly the two features depend on each other, from 0 to 1: the largest correlation between a
        function of one and a function of the other.
    pairs : ndarray of int64, shape (n_pairs, 2)
        Indices of the two features of each pair.
    feature_names : ndarray of str, shape (n_features,)
        Names of the features or feature groups.
    n_possible : int
        Number of possible pairs; if it is larger than ``n_pairs``, the others were not tested.
    impurity : float
        Variance or Gini impurity of the target, the denominator of `share`.
    scale : {"response", "raw score"}
        The scale on which the effects of features that do not interact are additive: that of the predictions or,
        for boosted trees, that of the sum of the trees, such as log-odds.
    task : {"classification", "regression"}
        What the model predicts.
    rows : {"oob", "heldout", "folds", "lists"}
        The kind of rows the trees were evaluated on.
    n_rows : int
        Number of rows passed.
    n_trees : int
        Number of trees.
    output_names : ndarray of str, shape (n_outputs,), or None
        Names of the classes or outputs; None for a single number.
    n_groups : int or None
        Number of clusters that standard errors are based on; None without ``groups=``.
    surfaces : JointSurfaces or None
        Joint effects of the pairs with the highest scores, for plots.
    inference_unavailable : str or None
        Why standard errors and p-values are unavailable for all pairs; None if they are available.
    notes : tuple of str
        Caveats, one sentence each.
    """

    values: Floats
    share: Floats
    std_error: Floats
    null_std_error: Floats
    bias_bound: Floats
    dependence: Floats
    pairs: NDArray[np.int64]
    feature_names: NDArray[np.str_]
    n_possible: int
    impurity: float
    scale: str
    task: str
    rows: str
    n_rows: int
    n_trees: int
    output_names: NDArray[np.str_] | None = None
    n_groups: int | None = None
    surfaces: JointSurfaces | None = None
    inference_unavailable: str | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        make_read_only(self)

    @property
    def order(self) -> NDArray[np.int64]:
        """Indices of the pairs, the highest score first, shape (n_pairs,)."""
        return np.argsort(-self.values, kind="stable")

    @property
    def is_withheld(self) -> NDArray[np.bool_]:
        """Whether a p-value is withheld because the features depend too strongly on each other, shape (n_pairs,)."""
        return np.isnan(self.null_std_error) & (self.inference_unavailable is None)

    @property
    def z_score(self) -> Floats:
        """Scores minus `bias_bound`, divided by `null_std_error`, shape (n_pairs,)."""
        return find_z_score(self.values - self.bias_bound, self.null_std_error)

    @property
    def p_value(self) -> Floats:
        """One-sided p-values, shape (n_pairs,).

        The probability of a score at least this large if the two features did not interact; 1 for two features that
        never share a path, NaN if withheld or without inference.
        """
        return find_p_value(self.values - self.bias_bound, self.null_std_error)

    def adjusted_p_value(self, correction: str | None = "bh") -> Floats:
        """Return p-values adjusted for testing all pairs at once.

        Parameters
        ----------
        correction : {"bh", "by", "holm"} or None, default="bh"
            As in `ImportanceResult.adjusted_p_value`.

        Returns
        -------
        ndarray of shape (n_pairs,)
            NaN for pairs whose p-value is withheld; these do not count as tests.
        """
        self._require_inference()
        p_value, is_tested = self.p_value, ~self.is_withheld
        adjusted = np.full(len(p_value), np.nan)
        if is_tested.any():
            adjusted[is_tested] = adjust(p_value[is_tested], correction)
        return adjusted

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Return confidence intervals of the expected scores.

        Parameters
        ----------
        level : float, default=0.95
            Confidence level.

        Returns
        -------
        low, high : ndarray of shape (n_pairs,)
            Lower and upper ends; NaN for pairs whose p-value is withheld.
        """
        self._require_inference()
        bound = self.bias_bound
        low, _ = find_interval(self.values - bound, self.null_std_error, self.std_error, level)
        _, high = find_interval(self.values + bound, self.null_std_error, self.std_error, level)
        return low, high

    def select(self, alpha: float = 0.05, correction: str | None = "bh", *, k: int | None = None) -> NDArray[np.bool_]:
        """Select pairs by adjusted p-value, or the k pairs with the highest scores.

        Parameters
        ----------
        alpha : float, default=0.05
            Significance level: pairs with an adjusted p-value of at most `alpha` are selected.
        correction : {"bh", "by", "holm"} or None, default="bh"
            Adjustment, see `adjusted_p_value`.
        k : int, default=None
            Number of pairs to select by score, regardless of p-values.

        Returns
        -------
        ndarray of bool, shape (n_pairs,)
            Mask of the selected pairs; pairs whose p-value is withheld are not selected by p-value.
        """
        if k is None:
            if not is_fraction(alpha, or_one=True):
                raise ValueError(f"alpha must lie between 0 and 1, got {quote(alpha)}; pass 0.05 for a 5% level.")
            return self.adjusted_p_value(correction) <= alpha
        if not is_count(k, 0) or k > len(self.values):
            raise ValueError(
                f"k must be a whole number from 0 to the number of pairs, {len(self.values)}, got {quote(k)}."
            )
        selected = np.zeros(len(self.values), dtype=np.bool_)
        selected[self.order[: int(k)]] = True
        return selected

    def find_proxies(self, alpha: float = 0.05) -> NDArray[np.int64]:
        """Find pairs that may only reflect another pair.

        If x0 and x1 interact, a feature that depends on x0 seems to interact with x1, too.

        Parameters
        ----------
        alpha : float, default=0.05
            Significance level of `select`.

        Returns
        -------
        ndarray of int64, shape (n_pairs,)
            For each pair, the index of the pair that it may reflect, or -1. That pair is significant, has a larger
            z-score and shares a feature, and the two other features depend on each other.
        """
        proxy_of = np.full(len(self.pairs), -1)
        dependence, is_found, z_score = self.matrix("dependence").to_numpy(), self.select(alpha), self.z_score
        for pair in sorted(np.flatnonzero(is_found), key=lambda pair: z_score[pair]):
            for shared, other in (self.pairs[pair], self.pairs[pair][::-1]):
                has_shared = (self.pairs == shared).any(axis=1) & (z_score < z_score[pair])
                partner = self.pairs.sum(axis=1) - shared
                proxy_of[has_shared & (dependence[np.where(has_shared, partner, other), other] >= _MAY_STAND_IN)] = pair
        return proxy_of

    def frame(self) -> pd.DataFrame:
        """Return the scores as a data frame, the highest score first.

        Returns
        -------
        pandas.DataFrame
            Columns feature_1, feature_2, interaction, share, std_error, ci_low and ci_high (95% intervals), p_value,
            adjusted_p_value (Benjamini-Hochberg), may_reflect (see `find_proxies`; empty if none), dependence and rank.
            Without inference, the columns std_error to may_reflect are left out.
        """
        columns: dict[str, Any] = {
            "feature_1": self.feature_names[self.pairs[:, 0]].tolist(),
            "feature_2": self.feature_names[self.pairs[:, 1]].tolist(),
            "interaction": self.values,
            "share": self.share,
        }
        if self.inference_unavailable is None:
            low, high = self.interval()
            columns |= {"std_error": self.std_error, "ci_low": low, "ci_high": high, "p_value": self.p_value}
            columns["adjusted_p_value"] = self.adjusted_p_value()
            columns["may_reflect"] = [self.name_pair(pair) if pair >= 0 else "" for pair in self.find_proxies()]
        columns |= {"dependence": self.dependence, "rank": rankdata(-self.values, method="min").astype(int)}
        return pd.DataFrame(columns).iloc[self.order].reset_index(drop=True)

    def matrix(self, of: str = "values") -> pd.DataFrame:
        """Return the scores as a symmetric matrix of features by features.

        Parameters
        ----------
        of : {"values", "share", "p_value", "adjusted_p_value", "dependence"}, default="values"
            What to arrange.

        Returns
        -------
        pandas.DataFrame
            NaN on the diagonal, for pairs that were not tested, and for withheld p-values.
        """
        if not is_choice(of, _MATRICES):
            raise ValueError(f"of must be one of {', '.join(map(repr, _MATRICES))}, got {quote(of)}.")
        numbers = self.adjusted_p_value() if of == "adjusted_p_value" else getattr(self, of)
        n_features = len(self.feature_names)
        filled = np.full((n_features, n_features), np.nan)
        first, second = self.pairs.T
        filled[first, second] = filled[second, first] = numbers
        names = self.feature_names.tolist()
        return pd.DataFrame(filled, index=names, columns=names)

    def find_pair(self, first: int | str, second: int | str) -> int:
        """Return the index of a pair.

        Parameters
        ----------
        first, second : int or str
            Indices or names of the two features, in any order.

        Returns
        -------
        int
        """
        wanted = {self._find_feature(first), self._find_feature(second)}
        if len(wanted) < 2:
            raise ValueError(f"a pair must have two different features, got {quote(first)} and {quote(second)}.")
        found = [k for k, pair in enumerate(self.pairs.tolist()) if set(pair) == wanted]
        if not found:
            raise ValueError(
                f"the pair of {quote(first)} and {quote(second)} was not tested; pass features={[first, second]!r} to "
                "interactions."
            )
        return found[0]

    def name_pair(self, pair: int) -> str:
        """Return the names of the two features of a pair, given its index."""
        return " and ".join(self.feature_names[self.pairs[pair]].tolist())

    def _find_feature(self, feature: int | str) -> int:
        names = self.feature_names.tolist()
        found = find_index(feature, names)
        if found is not None:
            return found
        raise ValueError(f"features of a pair must be indices or names of {list_names(names)}, got {quote(feature)}.")

    def plot(
        self,
        kind: str = "bar",
        *,
        pair: tuple[int | str, int | str] | None = None,
        output: int | str | None = None,
        top: int | None = 20,
        ax: Axes | None = None,
        alpha: float = 0.05,
    ) -> Axes:
        """Plot the interactions.

        Parameters
        ----------
        kind : {"bar", "heatmap", "surface", "curves"}, default="bar"
            "bar": a ranked list of pairs with 95% intervals. "heatmap": scores of all pairs of the features with the
            highest scores. "surface": the joint effect of one pair as a heat map. "curves": what the two features of a
            pair add to the prediction, as a curve of the first feature for each level of the second; without an
            interaction the curves are parallel.
        pair : tuple of two int or str, default=None
            Names or indices of the features, for "surface" and "curves"; None for the pair with the highest score.
        output : int, str or None, default=None
            Index or name of the class or output, for "surface" and "curves"; None means the only one, or the last of
            several.
        top : int or None, default=20
            Number of pairs, or of features in "heatmap", to show; None shows all.
        ax : matplotlib Axes, default=None
            Axes to draw on; if None, a new figure is created.
        alpha : float, default=0.05
            Significance level for p-values adjusted by the Benjamini-Hochberg procedure.

        Returns
        -------
        matplotlib Axes
        """
        from truewood._plotting.interactions import draw

        return draw(self, kind, pair=pair, output=output, top=top, ax=ax, alpha=alpha)

    def save(self, path: str | PathLike[str]) -> None:
        """Save the result to a JSON file that `truewood.load` restores exactly.

        Parameters
        ----------
        path : str or path
            The file to write.
        """
        from truewood._results.interactions_files import save

        save(self, path)

    def describe(self) -> str:
        """Describe in one line what was tested, and on which rows."""
        rows = f"{self.n_rows:,} {ROWS_IN_WORDS[self.rows]}"
        rows += "" if self.n_groups is None else f" in {count(self.n_groups, 'group')}"
        pairs = count(len(self.values), "pair")
        if len(self.values) < self.n_possible:
            pairs = f"{len(self.values):,} of {count(self.n_possible, 'pair')}"
        return f"{self.task}, {self.scale} scale, {pairs}, {count(self.n_trees, 'tree')}, {rows}"

    def _require_inference(self) -> None:
        if self.inference_unavailable is not None:
            raise ValueError(f"this result has no standard errors or p-values: {self.inference_unavailable}.")

    __repr__ = write_text
    _repr_html_ = write_html
    __setstate__ = restore_read_only
