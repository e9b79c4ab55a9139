"""`UnbiasedSelector`: feature selection by unbiased importance, as a scikit-learn transformer."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from truewood._arguments import check_estimator, is_count, read_flag
from truewood._estimators.html_view import HTMLViewMixin
from truewood._formatting import count, enumerate_names, quote
from truewood._importance import importance
from truewood._inputs.groups import Grouping, read_feature_groups
from truewood._inputs.table_types import read_names
from truewood._inputs.text_columns import name_text_columns
from truewood._measures.registry import get_measure
from truewood._pipelines.final_estimator import check_bags
from truewood._refitting import name_weight, set_seeds
from truewood._results.importance_text import write_html
from truewood._results.notebook_view import write_view
from truewood._sklearn_compat import SKLEARN_VERSION, keep_warning_filters
from truewood._streaming.open_source import check_in_memory

# Trees of the default forest: more than scikit-learn's 100, so that the seed rarely changes the selection.
_N_TREES = 500
# A numeric target with more distinct values than this, and fewer rows per value than that, is continuous.
_MANY_VALUES = 20
_FEW_ROWS = 5


class UnbiasedSelector(HTMLViewMixin, MetaEstimatorMixin, SelectorMixin, BaseEstimator):  # type: ignore[misc]
    """Select features with significant unbiased importance, or the k most important ones.

    Parameters
    ----------
    estimator : object, default=None
        A forest with bootstrap, or another estimator that `truewood.importance` can score out of bag, such as a
        pipeline of encoders and a forest. None means a random forest with 500 trees: a classifier for class labels, a
        regressor for a continuous target. Whole numbers are class labels unless there are more than 20 distinct ones
        with fewer than five rows each on average.
    alpha : float, default=0.05
        Significance level: features with an adjusted p-value of at most `alpha` are selected.
    correction : {"bh", "by", "holm"} or None, default="bh"
        Adjustment of the p-values, see `ImportanceResult.adjusted_p_value`.
    k : int, default=None
        Number of features to select by score, regardless of p-values.
    min_features : int, default=1
        Minimum number of features to select. If fewer pass the test, `fit` warns and adds those with the largest
        scores, so that the next step of a pipeline has input. With 0, none are added; if no feature passes, `transform`
        warns and returns no columns, as scikit-learn's selectors do. Ignored with `k`.
    rows : {"oob", "heldout"} or sequence of array-like, default="oob"
        The rows that each tree is scored on, see `importance`. Must be "oob" without `prefit`, because each
        tree was trained on all rows except its out-of-bag rows.
    measure : str, default="auto"
        Name of the measure, one of `measures()`. Measures without p-values need `k`.
    feature_groups : dict or sequence, default=None
        Columns to score together, and to select or drop together: a dict from group name to columns, or the group name
        of each column. A group counts as one feature for `k` and `min_features`.
    prefit : bool, default=False
        Whether `estimator` is already fitted. If so, `fit` does not fit it, and expects its training data or, with
        ``rows="heldout"``, rows it was not trained on.
    n_jobs : int, default=None
        Number of threads for scoring, and for fitting the default forest; a given estimator has its own setting for
        fitting.
    random_state : int, RandomState instance or None, default=None
        Seed of the default forest, of an estimator without a seed of its own, and of ``measure="permutation"``.
    engine : {"auto", "native", "numpy", "cuda"}, default="auto"
        Implementation that routes the rows through the trees, as in `truewood.importance`.

    Attributes
    ----------
    estimator_ : object
        The fitted estimator.
    importance_result_ : ImportanceResult
        Scores and p-values of all features or groups. `alpha`, `correction`, `k` and `min_features` can be changed
        without another fit.
    n_features_in_ : int
        Number of columns seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, if all of them are strings.

    Notes
    -----
    With the default `correction`, the expected fraction of false discoveries among the features that pass the test is
    at most `alpha`. A false discovery is a feature that adds no information beyond the other splits on a tree's path. A
    feature that is correlated with a useful one can replace it in some trees and is selected, too, even if it is
    redundant; `feature_groups` selects or drops such features together.

    Trees are not evaluated on copies of rows they were trained on, see `importance_result_.notes`.

    Examples
    --------
    >>> import numpy as np
    >>> import truewood as tw
    >>> X = np.random.default_rng(0).standard_normal((300, 5))
    >>> y = X[:, 2] > 0
    >>> tw.UnbiasedSelector(random_state=0).set_output(transform="pandas").fit_transform(X, y).columns.tolist()
    ['x2']
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        alpha: float = 0.05,
        correction: str | None = "bh",
        k: int | None = None,
        min_features: int = 1,
        rows: Any = "oob",
        measure: str = "auto",
        feature_groups: Any = None,
        prefit: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        engine: str = "auto",
    ) -> None:
        self.estimator = estimator
        self.alpha = alpha
        self.correction = correction
        self.k = k
        self.min_features = min_features
        self.rows = rows
        self.measure = measure
        self.feature_groups = feature_groups
        self.prefit = prefit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.engine = engine

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None, **fit_params: Any
    ) -> UnbiasedSelector:
        """Fit the estimator, and score its features on evaluation rows.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
            Training data; with `prefit`, the rows described by `rows`.
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
            Target.
        sample_weight : array-like of shape (n_rows,), default=None
            Sample weights, for training and for scoring.
        groups : array-like of shape (n_rows,), default=None
            The group of each row, for cluster-robust standard errors, see `importance`. Not available for out-of-bag
            rows of forests that draw single rows into their bootstrap samples, as scikit-learn's do.
        **fit_params : object
            Further arguments for the fit of `estimator`; ignored with `prefit`. With scikit-learn's metadata routing,
            these and `sample_weight` are routed to `estimator` as it requests.

        Returns
        -------
        self : UnbiasedSelector
        """
        check_in_memory(X, type(self).__name__)
        self._fit_estimator(X, y, sample_weight, groups, fit_params)
        if not self.prefit:
            check_bags(self.estimator_, "pass a forest with bootstrap, or a fitted model with prefit=True")
        if np.asarray(y).shape[:1] == (1,):
            raise ValueError("X must have rows to train trees and rows to score them, got 1 sample; pass more rows.")
        names = self._name_columns(X)
        grouping = read_feature_groups(self.feature_groups, np.asarray(names, dtype=np.str_))
        self.importance_result_ = importance(
            self.estimator_,
            X,
            y,
            rows=self.rows,
            sample_weight=sample_weight,
            feature_groups=None if self.feature_groups is None else grouping.names[grouping.group_of],
            groups=groups,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
            measure=self.measure,
            engine=self.engine,
        )
        self._check_features(grouping)
        self._group_of = grouping.group_of
        self.n_features_in_ = len(names)
        if hasattr(self.estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.estimator_.feature_names_in_
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_  # of an earlier fit
        self._get_support_mask()  # raises errors here rather than in transform
        if self.k is None:
            self._warn_of_few()
        return self

    def get_metadata_routing(self) -> MetadataRouter:
        """Return which arguments of `fit` this selector and its estimator request.

        Returns
        -------
        sklearn.utils.metadata_routing.MetadataRouter
            The requests. To change them, call `set_fit_request` of the selector or of the estimator.
        """
        router = MetadataRouter(owner=self).add_self_request(self)
        if self.estimator is not None and not self.prefit:
            router.add(estimator=self.estimator, method_mapping=MethodMapping().add(caller="fit", callee="fit"))
        return router

    def _list_fit_params(self, estimator: Any, sample_weight: Any, groups: Any, params: dict[str, Any]) -> Any:
        """Return the arguments for the estimator's fit, routed if scikit-learn's metadata routing is enabled."""
        if get_config()["enable_metadata_routing"] and self.estimator is not None:
            given = {"sample_weight": sample_weight, "groups": groups, **params}
            routed = process_routing(self, "fit", **{name: value for name, value in given.items() if value is not None})
            return routed.estimator.fit
        return params if sample_weight is None else {name_weight(estimator): sample_weight, **params}

    def _fit_estimator(self, X: Any, y: Any, sample_weight: Any, groups: Any, fit_params: dict[str, Any]) -> None:
        if read_flag(self.prefit, "prefit"):
            if self.estimator is None:
                raise ValueError("estimator must be a fitted model if prefit=True, got None; fit one and pass it.")
            self.estimator_ = self.estimator
            return
        if not (isinstance(self.rows, str) and self.rows in ("auto", "oob")):
            given = repr(self.rows) if isinstance(self.rows, str) else type(self.rows).__name__
            raise ValueError(
                f"rows must be 'oob' unless prefit=True, got {given}; for other rows, fit the estimator first and pass "
                "prefit=True."
            )
        estimator = self._make_estimator(y)
        params = self._list_fit_params(estimator, sample_weight, groups, fit_params)
        with keep_warning_filters(), name_text_columns(X, estimator):
            self.estimator_ = estimator.fit(X, y, **params)

    def _name_columns(self, X: Any) -> list[str]:
        """Return the column names of X, or those of the estimator, or numbered names."""
        names = read_names(X)
        if names is not None:
            return names
        shape = X.shape if hasattr(X, "shape") else np.asarray(X).shape
        n_columns = shape[1] if len(shape) == 2 else 0  # importance rejects other shapes
        known = getattr(self.estimator_, "feature_names_in_", ())
        return [str(name) for name in known] if len(known) == n_columns else [f"x{j}" for j in range(n_columns)]

    def _check_features(self, grouping: Grouping) -> None:
        """Check that the scored features are the columns of X, or groups of them."""
        result = self.importance_result_
        # Without a pipeline or groups, features are columns, possibly under the model's own names.
        is_other = len(result.values) != len(grouping.names)
        if is_other or (result.columns is not None and result.feature_names.tolist() != grouping.names.tolist()):
            raise ValueError(
                "estimator must use each column of X as it is, but this one combines or drops columns; put the "
                "selector into the pipeline, right before the model."
            )

    def _make_estimator(self, y: Any) -> Any:
        if self.estimator is not None:
            check_estimator(self.estimator)
            return set_seeds(clone(self.estimator), self.random_state)
        forest = RandomForestClassifier if _has_classes(y) else RandomForestRegressor
        return forest(_N_TREES, n_jobs=self.n_jobs, random_state=self.random_state)

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        result, n_least = self.importance_result_, self._read_min_features()
        if self.k is not None:
            return result.select(k=self.k)[self._group_of]
        is_kept = self._test_features()
        others = result.order[~is_kept[result.order]]
        is_kept[others[: max(0, n_least - int(is_kept.sum()))]] = True
        return is_kept[self._group_of]

    def _read_min_features(self) -> int:
        given: Any = self.min_features
        most = len(self.importance_result_.values)
        if not is_count(given, 0) or given > most:
            raise ValueError(
                f"min_features must be a whole number from 0 to the number of features, {most}, got {quote(given)}."
            )
        return int(given)

    def _test_features(self) -> NDArray[np.bool_]:
        """Return which features pass the test; none if there is no test, as with very few rows."""
        result = self.importance_result_
        if get_measure(result.measure).why_no_inference is not None:
            raise ValueError(f"k must be given for a measure without p-values: {result.inference_unavailable}.")
        if result.inference_unavailable is not None:
            return np.zeros(len(result.values), dtype=np.bool_)
        return result.select(self.alpha, self.correction)

    def _warn_of_few(self) -> None:
        """Warn that there was no test, or that features were selected that did not pass it."""
        problem, n_passed = self.importance_result_.inference_unavailable, int(self._test_features().sum())
        n_added = max(0, self._read_min_features() - n_passed)
        if n_added == 0 and problem is None:
            return
        if problem is not None:
            finding = f"p-values are unavailable: {problem}; pass k= to select by score alone"
        else:
            finding = f"only {count(n_passed, 'feature')}" if n_passed else "no feature"
            finding += f" passed the test at alpha={self.alpha:g}"
        if n_added:
            verb, noun = ("added", "other feature") if n_passed else ("kept", "feature")
            added, scores = (noun, "score") if n_added == 1 else (count(n_added, noun), "scores")
            finding += f"; {verb} the {added} with the largest {scores} (see min_features)"
        warnings.warn(f"{finding}.", UserWarning, stacklevel=3)

    def _write_scores(self) -> str:
        if not hasattr(self, "importance_result_"):
            return ""
        names = self.get_feature_names_out().tolist()
        text = f"{len(names):,} of {count(self.n_features_in_, 'column')}"
        view = write_view("Selected", f"{text}: {enumerate_names(names)}" if names else text, "")
        return f"{view}\n{write_html(self.importance_result_)}"

    def __sklearn_tags__(self) -> Any:
        # Called by scikit-learn 1.6 or later, which has get_tags.
        from sklearn.utils import get_tags

        tags = super().__sklearn_tags__()
        inner = get_tags(RandomForestClassifier() if self.estimator is None else self.estimator)
        tags.input_tags.allow_nan = inner.input_tags.allow_nan and SKLEARN_VERSION >= (1, 8)  # as importance does
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.target_tags.required = True
        return tags


def _has_classes(y: Any) -> bool:
    """Whether y holds class labels rather than quantities."""
    values = np.asarray(y)
    if values.ndim == 1 and values.dtype.kind in "iuf":
        n_different = len(np.unique(values))
        if n_different > _MANY_VALUES and len(values) < _FEW_ROWS * n_different:
            return False
    return not type_of_target(y, input_name="y").startswith("continuous")
