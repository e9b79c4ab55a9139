"""`ImportanceResult`: scores with all raw arrays, tables, plots, report and file format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from truewood._arguments import is_fraction, read_flag
from truewood._formatting import quote
from truewood._inference.p_values import find_rank_sets
from truewood._inference.standard_errors import average_tree_noise, count_trees_needed
from truewood._read_only import make_read_only, restore_read_only
from truewood._results.feature_differences import measure_feature_differences
from truewood._results.importance_frame import make_class_frame, make_frame
from truewood._results.importance_text import write_html, write_text
from truewood._results.scores_with_errors import ClassScores, ScoresWithErrors

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from truewood._results.explanation import Explanation
    from truewood._results.interactions import Interactions


@dataclass(frozen=True, eq=False, repr=False)
class ImportanceResult(ScoresWithErrors):
    """Feature importances of a tree model, with standard errors and p-values.

    Attributes
    ----------
    values : ndarray of shape (n_features,)
        Scores: the mean over trees and outputs; for boosted trees, the sum over trees and raw scores. They are signed:
        a feature without predictive power scores zero on average.
    share : ndarray of shape (n_features,)
        Scores relative to the target's impurity: the share explained by splits on the feature; for "sobol_mda", the
        share that the model explains only with the feature; for "permutation", the increase in squared error when
        the feature is permuted. NaN if scores are not in units of impurity, as for boosted classifiers and for error
        rates (permutation importance of classifiers).
    per_tree : ndarray of shape (n_trees, n_features)
        Scores by tree; with several folds, the trees of the first fold come first. NaN for trees without evaluation
        rows, and for "sobol_mda", which scores the forest as a whole.
    tree_weight : ndarray of shape (n_trees,) or None
        Weight of each tree in `values`, as in AdaBoost; None if all trees have the same weight, or are summed.
    per_output : ndarray of shape (n_outputs, n_features)
        Scores by output; for boosted trees, by raw score, such as one per class.
    per_fold : ndarray of shape (n_folds, n_features) or None
        Scores by fold, of which `values` is the weighted mean; only from `cross_importance`.
    mdi : ndarray of shape (n_features,)
        Mean decrease in impurity of the same trees, the usual biased importance (not normalized), for comparison.
    impurity : float
        Impurity of the target at the roots, the denominator of `share`: Gini impurity or variance; for survival times
        the variance of martingale residuals; for boosted trees the variance of the target they are scored against.
    feature_names : ndarray of str, shape (n_features,)
        Names of the features or feature groups.
    measure : str
        Name of the measure.
    task : {"classification", "regression", "survival"}
        What the model predicts; "survival" if splits are scored by the hazards of their nodes.
    rows : {"oob", "heldout", "folds", "lists", "training"}
        The kind of rows the trees were scored on; "lists" if a list of rows was passed for each tree, "training" for
        `corrected_importance`, which uses only the training rows. With ``measure="mdi"``, the kind of rows that was
        passed, although scores do not depend on them.
    n_rows : int
        Number of rows passed.
    skipped_weight : float
        Share of the splits, each weighted by its training rows, that was not scored because no evaluation row reached
        one of the children.
    is_additive : bool
        Whether the trees' values add up to a raw score, as in boosting. Scores are then sums over trees, in units of
        raw score times target.
    std_error : ndarray of shape (n_features,)
        Standard errors of the scores: their variation over data sets like this one or, for held-out rows, over test
        sets for this model. For "sobol_mda" they reflect the evaluation rows but not the training of the trees, and
        are too small for useful features, see "Needed, given the others" in the documentation. NaN without inference.
    null_std_error : ndarray of shape (n_features,)
        Standard errors under the null hypothesis that the feature has no predictive power, used by `z_score` and
        `p_value`. For out-of-bag rows they are smaller than `std_error`, which grows with the size of a signal.
    contributions : ndarray of shape (n_rows, n_features) or None
        The contribution of each evaluation row to each score; only with ``contributions=True``.
    n_groups : int or None
        Number of clusters that standard errors are based on; None without ``groups=``.
    groups : ndarray of int, shape (n_rows,), or None
        The group of each row; only with ``groups=`` and ``contributions=True``.
    total_error : float
        Standard error of the sum of all scores under the null hypothesis that no feature has predictive power, used
        by `total_p_value`. NaN for "sobol_mda", whose scores do not add up to a total.
    tree_noise : ndarray of shape (n_features,)
        Share of each `null_std_error` that comes from the randomness of the trees and that more trees would remove, for
        out-of-bag rows, see `n_trees_needed`. NaN for other rows, where trees are treated as fixed.
    residual_values : ndarray of shape (n_features,) or None
        Scores in which the target is replaced by what the other features leave unexplained, for `z_score` and
        `p_value`; only with ``inference="residual"``.
    residual_std_error : ndarray of shape (n_features,) or None
        Standard errors of `residual_values` under the null hypothesis that the feature has no predictive power.
    residual_contributions : ndarray of shape (n_rows, n_features) or None
        The contribution of each evaluation row to `residual_values`; only with ``inference="residual"`` and
        ``contributions=True``.
    inference_unavailable : str or None
        Why standard errors and p-values are unavailable; None if they are available.
    columns : ImportanceResult or None
        The scores of the individual columns if features are groups of columns; see `expand`.
    classes : ClassScores or None
        The scores by class, with standard errors; only with ``per_class=True``.
    notes : tuple of str
        Caveats, one sentence each, such as which features a pipeline combined from several columns or dropped.
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
    std_error: NDArray[np.float64] = field(default_factory=partial(np.empty, 0))
    null_std_error: NDArray[np.float64] = field(default_factory=partial(np.empty, 0))
    contributions: NDArray[np.float64] | None = None
    n_groups: int | None = None
    groups: NDArray[np.int64] | None = None
    total_error: float = np.nan
    tree_noise: NDArray[np.float64] = field(default_factory=partial(np.empty, 0))
    residual_values: NDArray[np.float64] | None = None
    residual_std_error: NDArray[np.float64] | None = None
    residual_contributions: NDArray[np.float64] | None = None
    inference_unavailable: str | None = None
    columns: ImportanceResult | None = None
    per_fold: NDArray[np.float64] | None = None
    tree_weight: NDArray[np.float64] | None = None
    classes: ClassScores | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("std_error", "null_std_error", "tree_noise"):
            if not len(getattr(self, name)):
                object.__setattr__(self, name, np.full(len(self.values), np.nan))
        make_read_only(self)

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.per_tree)

    @property
    def n_trees_needed(self) -> int | None:
        """Number of trees with which the trees' randomness makes up 5% of the `null_std_error` of useless features.

        At most `n_trees` if it makes up 5% or less already. None if `tree_noise` is unknown, or if the trees'
        randomness makes up all of the standard error.
        """
        noise = average_tree_noise(self.tree_noise, self.null_std_error, self.values)
        return count_trees_needed(noise, self.n_trees)

    @property
    def per_class(self) -> NDArray[np.float64] | None:
        """Scores by class, shape (n_classes, n_features), which add up to `values`.

        For boosted trees, these are the scores of the trees of each class. None without
        ``importance(..., per_class=True)``; `classes` has the names and standard errors.
        """
        return None if self.classes is None else self.classes.values

    def expand(self) -> ImportanceResult:
        """Return the scores of the individual columns behind each feature.

        Returns
        -------
        ImportanceResult
            One feature per column that the trees split on, such as the dummy columns of a categorical feature.
        """
        if self.columns is None:
            raise ValueError(
                "expand() needs features that combine several columns, but each feature of this result is a single "
                "column; use the result as it is."
            )
        return self.columns

    def rank_sets(self, alpha: float = 0.05) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the ranks that each feature may have: its best and its worst rank by expected score.

        The order of similar scores changes from one fit or data set to the next. Rank sets show which part of the order
        is certain: with a probability of at least ``1 - alpha``, every set contains the true rank of its feature, which
        is the rank of its expected score. The features with a worst rank of at most k are among the top k. The sets
        come from tests of all differences between two scores, adjusted by Holm's method (Goldwasser & Hooker, 2025).

        Parameters
        ----------
        alpha : float, default=0.05
            Probability that any of the sets is wrong.

        Returns
        -------
        best, worst : ndarray of int, shape (n_features,)
            Best and worst ranks, from 1 to n_features. They are closer together with ``contributions=True``, which
            measures how scores vary together; otherwise, the largest possible error of each difference is assumed.

        Examples
        --------
        >>> import truewood as tw
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = load_iris(return_X_y=True, as_frame=True)
        >>> forest = RandomForestClassifier(random_state=0).fit(X, y)
        >>> best, worst = tw.importance(forest, X, y, contributions=True).rank_sets()
        >>> X.columns[worst <= 2].tolist()
        ['petal length (cm)', 'petal width (cm)']
        """
        self._require_inference()
        if not is_fraction(alpha):
            raise ValueError(f"alpha must lie between 0 and 1, got {quote(alpha)}; pass 0.05 for 95% confidence.")
        return find_rank_sets(measure_feature_differences(self), alpha)

    def frame(self, *, per_class: bool = False) -> pd.DataFrame:
        """Return the scores as a data frame, the most important feature first.

        Parameters
        ----------
        per_class : bool, default=False
            Whether to list the scores by class, with one row per feature and class.

        Returns
        -------
        pandas.DataFrame
            Columns feature, importance, share, std_error, ci_low and ci_high (95% intervals), p_value, rank, mdi,
            mdi_rank and, with several folds, fold_std (standard deviation of the scores over folds). With
            ``contributions=True`` and at most 200 features, the best_rank and worst_rank of `rank_sets` follow rank.
            Without inference, the columns std_error to p_value are left out. Tied features share the better rank. With
            ``per_class=True``, columns feature, class, importance, and std_error to p_value.
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
        """Plot the scores.

        Parameters
        ----------
        kind : {"bar", "compare", "box", "rank", "rank_sets", "classes"}, default="bar"
            "bar": scores with 95% intervals, as percentages if the measure allows it. "compare": biased ranks next to
            unbiased ranks. "box": box plots of the scores by tree, or by fold. "rank": all scores in descending
            order, biased and unbiased. "rank_sets": the ranks that each feature may have, see `rank_sets`.
            "classes": a heat map of the scores by class.
        top : int or None, default=20
            Number of features to show, the most important first; None shows all. "rank" always shows all.
        ax : matplotlib Axes, default=None
            Axes to draw on; if None, a new figure is created.
        alpha : float, default=0.05
            Significance level for p-values adjusted by the Benjamini-Hochberg procedure, in "bar" and "classes";
            probability that any rank set is wrong, in "rank_sets".
        title : str, default=None
            First line of the title, such as the name of the target.
        explanation : Explanation, default=None
            The result of `truewood.explain` for the same features; "bar" then shows the direction of each feature.

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
        interactions: Interactions | None = None,
        target: str | None = None,
        data: str | None = None,
        alpha: float = 0.05,
    ) -> None:
        """Write a report as a single HTML file that works offline.

        The report states which features matter and how much, lists caveats, shows the details of each feature and
        describes the method. Charts and table can be sorted and searched. It needs
        ``pip install 'truewood[report]'``.

        Parameters
        ----------
        path : str or path
            The file to write; its name must end in .html.
        X : array-like, data frame or sparse matrix of shape (n_rows, n_columns), default=None
            The table, to check for correlated features and missing values; without it, the report states that this
            was not checked.
        feature_groups : dict, default=None
            The value passed as ``feature_groups=``, to list the columns of each group; groups from
            `truewood.correlated_groups` are shown with their dendrogram.
        title : str, default=None
            Title of the report; None means "Which features matter?".
        performance : str, default=None
            How well the model predicts rows it was not trained on, such as "AUC 0.91".
        notes : sequence of str, default=()
            Sentences to add to the description of the method.
        warnings : sequence of str, default=()
            Reasons why the scores may be wrong; they appear right above the summary.
        explanation : Explanation, default=None
            The result of `truewood.explain` for the same features; the report then shows how each feature moves
            predictions, based on up to 2,000 rows.
        interactions : Interactions, default=None
            The result of `truewood.interactions` for the same features; the report then shows which pairs of features
            work together.
        target : str, default=None
            Name of the target, as in "explains 64% of the variation in price".
        data : str, default=None
            Name of the analyzed data, such as a file name, for the top of the report.
        alpha : float, default=0.05
            Significance level for p-values adjusted by the Benjamini-Hochberg procedure.
        """
        from truewood._report.importance_page import write_report

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
            interactions=interactions,
            target=target,
            data=data,
            alpha=alpha,
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Save the result to a JSON file that `truewood.load` restores exactly.

        Parameters
        ----------
        path : str or path
            The file to write.

        Raises
        ------
        ValueError
            If a name contains a lone surrogate, which cannot be encoded.
        """
        from truewood._results.importance_files import save

        save(self, path)

    def _ipython_display_(self) -> None:
        from truewood._report.notebook_chart import display_importance

        display_importance(self)

    __setstate__ = restore_read_only
    __repr__ = write_text
    _repr_html_ = write_html
