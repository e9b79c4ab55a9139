"""`ImportanceResult`: the scores with all raw arrays, and what can be asked of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from truewood._arguments import read_flag
from truewood._read_only import make_read_only, restore_read_only
from truewood._results.scores_with_errors import ClassScores, ScoresWithErrors, make_class_frame, make_frame
from truewood._results.text import write_html, write_text

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from truewood._results.explanation import Explanation


@dataclass(frozen=True, eq=False, repr=False)
class ImportanceResult(ScoresWithErrors):
    """How much each feature is worth to a model.

    Attributes
    ----------
    values : ndarray of shape (n_features,)
        Scores: mean over trees, and over outputs; for boosted trees the sum. Signed; a feature without predictive power
        is zero on average.
    share : ndarray of shape (n_features,)
        Scores as the part of the target's impurity that splits on the feature explain ("sobol_mda": that the model
        would miss without it); NaN where scores are not in the units of that, as for boosted classifiers, and for error
        rates (permutation importance of classes).
    per_tree : ndarray of shape (n_trees, n_features)
        Scores by tree, of folds one after the other; NaN for trees that no unseen row scores, and for "sobol_mda",
        which scores the forest.
    tree_weight : ndarray of shape (n_trees,) or None
        How much each tree counts in `values`, as in AdaBoost; None where they count the same, or add up.
    per_output : ndarray of shape (n_outputs, n_features)
        Scores by output.
    per_fold : ndarray of shape (n_folds, n_features) or None
        Scores by fold, of which `values` is the mean; only of `cross_importance`.
    mdi : ndarray of shape (n_features,)
        The biased score of the same trees (mean decrease in impurity, not normalised), for comparison.
    impurity : float
        The target's impurity at the roots (Gini or variance; of survival times the variance of martingale residuals;
        for boosted trees the variance of what they are scored by): what `share` is a share of.
    feature_names : ndarray of str, shape (n_features,)
        Names of the features, or of the groups.
    measure : str
        Name of the measure.
    task : {"classification", "regression", "survival"}
        What the model predicts; "survival" where splits are scored by the hazards of their nodes.
    rows : {"oob", "heldout", "folds", "lists", "training"}
        Which rows scored the trees.
    n_rows : int
        Number of rows that were passed.
    skipped_weight : float
        Share of split weight that could not be scored, because no unseen row reached one of the children.
    is_additive : bool
        Whether the trees' values add up to a raw score, as in boosting. Scores are then sums over trees, in units of
        raw score times target.
    std_error : ndarray of shape (n_features,)
        Standard errors of the scores: their spread over data sets like this one, or, for held-out rows, over held-out
        sets for this model. Of "sobol_mda" it counts the rows that score, not that rows grow trees, and is too small
        for useful features (docs/theory/needed.md). NaN without inference.
    null_std_error : ndarray of shape (n_features,)
        Spread of a score around zero if the feature says nothing; what `z_score` and `p_value` go by. Out of bag it is
        smaller than `std_error`, which also has to do with the size of a signal.
    contributions : ndarray of shape (n_rows, n_features) or None
        What each row adds to each score where it is unseen; only with ``contributions=True``.
    n_groups : int or None
        Number of groups of rows that belong together, of whose sums errors are; None without ``groups=``.
    groups : ndarray of int, shape (n_rows,), or None
        The group of each row; only with ``groups=`` and ``contributions=True``.
    total_error : float
        Spread of the sum of all scores around zero if no feature says anything; what `total_p_value` goes by. NaN for
        "sobol_mda", whose scores do not add up to anything.
    inference_unavailable : str or None
        Why there are no standard errors and p-values; None where there are.
    columns : ImportanceResult or None
        The scores of the single columns, where features are groups of them; see `expand`.
    classes : ClassScores or None
        The parts that classes have in the scores, with their errors; only with ``per_class=True``.
    notes : tuple of str
        What else to know, as sentences: which features a pipeline mixed from several columns, and which it left out.
    """

    values: NDArray[np.float64]
    share: NDArray[np.float64]
    per_tree: NDArray[np.float64]
    per_output: NDArray[np.float64]
    mdi: NDArray[np.float64]
    impurity: float
    feature_names: NDArray[np.str_]
    measure: str
    task: str
    rows: str
    n_rows: int
    skipped_weight: float
    is_additive: bool = False
    std_error: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    null_std_error: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    contributions: NDArray[np.float64] | None = None
    n_groups: int | None = None
    groups: NDArray[np.int64] | None = None
    total_error: float = np.nan
    inference_unavailable: str | None = None
    columns: ImportanceResult | None = None
    per_fold: NDArray[np.float64] | None = None
    tree_weight: NDArray[np.float64] | None = None
    classes: ClassScores | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("std_error", "null_std_error"):
            if not len(getattr(self, name)):
                object.__setattr__(self, name, np.full(len(self.values), np.nan))
        make_read_only(self)

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.per_tree)

    @property
    def per_class(self) -> NDArray[np.float64] | None:
        """Scores by class, shape (n_classes, n_features), which sum to `values`; of boosted trees by their class.

        None unless ``importance(..., per_class=True)`` was asked for; `classes` has their names and errors.
        """
        return None if self.classes is None else self.classes.values

    def expand(self) -> ImportanceResult:
        """Return the scores of the single columns whose sums this result holds.

        Returns
        -------
        ImportanceResult
            One feature for each column that the trees split on, such as the dummy columns of a categorical feature.
        """
        if self.columns is None:
            raise ValueError("there is nothing to expand: each feature of this result is a single column.")
        return self.columns

    def require_classes(self) -> ClassScores:
        """Return the scores by class, or say how to get them."""
        if self.classes is None:
            raise ValueError("this result has no scores by class: importance(..., per_class=True) adds them.")
        return self.classes

    def frame(self, *, per_class: bool = False) -> pd.DataFrame:
        """Return the scores as a table, the most important feature first.

        Parameters
        ----------
        per_class : bool, default=False
            Whether to list the scores by class, a line for each feature and class.

        Returns
        -------
        pandas.DataFrame
            Columns feature, importance, share, std_error, ci_low, ci_high (of 95 % intervals), p_value, rank, mdi,
            mdi_rank, and of folds fold_std, the standard deviation of their scores; no std_error to p_value without
            inference. Features of equal score share the better rank. By class, columns feature, class, importance,
            and std_error to p_value.
        """
        return make_class_frame(self) if read_flag(per_class, "per_class") else make_frame(self)

    def plot(
        self,
        kind: str = "bar",
        *,
        top: int | None = 20,
        ax: Axes | None = None,
        alpha: float = 0.05,
        title: str | None = None,
        explanation: Explanation | None = None,
    ) -> Axes:
        """Draw the scores.

        Parameters
        ----------
        kind : {"bar", "compare", "box", "rank", "classes"}, default="bar"
            Bars and points with 95 % intervals, in percent of what there is to explain where that exists; biased beside
            unbiased ranks, joined by lines; boxes of scores by tree, or by fold where there are folds; all scores in
            falling order; or scores by class as a heat map.
        top : int or None, default=20
            Number of features to draw, the most important first; None draws all. "rank" always draws all.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if None.
        alpha : float, default=0.05
            Largest adjusted p-value (Benjamini & Hochberg) of what "bar" calls found and "classes" significant.
        title : str, default=None
            A line above the title, such as what the target is.
        explanation : Explanation, default=None
            Of the same features, of `truewood.explain`: "bar" then says which way each moves predictions.

        Returns
        -------
        matplotlib Axes
        """
        from truewood._plotting.importance import draw

        return draw(self, kind, top=top, ax=ax, alpha=alpha, title=title, explanation=explanation)

    def report(
        self,
        path: str | PathLike[str],
        *,
        X: Any = None,
        feature_groups: Mapping[str, Sequence[Any]] | None = None,
        title: str | None = None,
        performance: str | None = None,
        notes: Sequence[str] = (),
        warnings: Sequence[str] = (),
        explanation: Explanation | None = None,
        alpha: float = 0.05,
    ) -> None:
        """Write a report for people to read: one HTML file that loads nothing from elsewhere.

        It says which features matter and how much, what to be careful about and what was measured on what, and has
        charts and a table that can be sorted and searched. ``pip install 'truewood[report]'`` brings what it needs.

        Parameters
        ----------
        path : str or path
            The file, whose name ends in .html.
        X : array-like, data frame or sparse matrix of shape (n_rows, n_columns), default=None
            The table, to look for features that tell nearly the same, and for missing values; without it the report
            says it did not look.
        feature_groups : dict, default=None
            What was passed as ``feature_groups=``, to show the members of each group; with the tree that they are from
            if it is of `truewood.correlated_groups`.
        title : str, default=None
            The report's title.
        performance : str, default=None
            How well the model predicts rows it never saw, such as "AUC 0.91".
        notes : sequence of str, default=()
            Sentences to add to what was measured.
        warnings : sequence of str, default=()
            Sentences that say why the scores may be wrong; they stand right below the answer.
        explanation : Explanation, default=None
            Of the same features, of `truewood.explain`: the table then says which way each moves predictions, with a
            small picture. Of more than 2,000 rows, as many are looked at.
        alpha : float, default=0.05
            Largest adjusted p-value (Benjamini & Hochberg) of a feature that is called found.
        """
        from truewood._report import write_report

        write_report(
            self,
            path,
            X=X,
            feature_groups=feature_groups,
            title=title,
            performance=performance,
            notes=notes,
            warnings=warnings,
            explanation=explanation,
            alpha=alpha,
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to a JSON file that `truewood.load` reads back exactly.

        Parameters
        ----------
        path : str or path
            The file.

        Raises
        ------
        ValueError
            If a name holds half of a letter (a lone surrogate), which no file can hold.
        """
        from truewood._results.json_files import save

        save(self, path)

    __setstate__ = restore_read_only
    __repr__ = write_text
    _repr_html_ = write_html
