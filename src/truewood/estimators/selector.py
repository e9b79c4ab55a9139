"""`UnbiasedSelector`: feature selection by unbiased importance, as a transformer of scikit-learn."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.feature_selection import SelectorMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from truewood.compat import SKLEARN_VERSION
from truewood.data.tables import read_names
from truewood.estimators.seeds import set_seeds
from truewood.scoring.model_importance import importance

# Trees of the forest that is fit where none is given; a multiple of scikit-learn's 100, so that another seed rarely
# makes another selection.
_N_TREES = 500
# Numbers of more values than this, with fewer rows per value than that, are quantities and not names of classes.
_MANY_VALUES = 20
_FEW_ROWS = 5


class UnbiasedSelector(MetaEstimatorMixin, SelectorMixin, BaseEstimator):  # type: ignore[misc]
    """Select features whose unbiased importance is significant, or the k most important ones.

    Parameters
    ----------
    estimator : object, default=None
        A forest with bootstrap, or another estimator that `truewood.importance` scores out of bag, such as a pipeline
        of encoders and a forest. None means a random forest of 500 trees: a classifier for class labels, a regressor
        for quantities. Integers and whole numbers are labels, unless there are more than 20 different ones with fewer
        than five rows each on average.
    alpha : float, default=0.05
        Largest adjusted p-value that is selected.
    correction : {"bh", "by", "holm"} or None, default="bh"
        Adjustment of the p-values, see `ImportanceResult.adjusted_p_value`.
    k : int, default=None
        Number of features; if given, the k largest scores are selected whatever their p-value.
    prefit : bool, default=False
        Whether `estimator` has been fit already. Then `fit` takes its training data, and fits nothing.
    n_jobs : int, default=None
        Number of threads that score, and that fit the forest of ``estimator=None``; an own estimator has its own
        setting for the fit.
    random_state : int, RandomState instance or None, default=None
        Seed of the forest; an own estimator keeps its own where it has one.

    Attributes
    ----------
    estimator_ : object
        The fitted estimator.
    importance_result_ : ImportanceResult
        Scores and p-values of all features. `alpha`, `correction` and `k` may be changed without another fit.
    n_features_in_ : int
        Number of features seen by `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where all of them are strings.

    Notes
    -----
    Rows that are repeated in X are not unseen where a copy is in the bag, and make noise significant: pass them once,
    with their number as `sample_weight`. Where nothing is significant, or rows are too few for a test, `transform`
    warns and returns no column, as scikit-learn's selectors do.

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
        prefit: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.alpha = alpha
        self.correction = correction
        self.k = k
        self.prefit = prefit
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> UnbiasedSelector:
        """Fit the estimator, and score its features out of bag.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
            Training data.
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
            Target.
        sample_weight : array-like of shape (n_rows,), default=None
            Weights of the rows, when they grow trees and when they score them.

        Returns
        -------
        self : UnbiasedSelector
        """
        if self.prefit:
            self.estimator_ = self.estimator
        else:
            estimator = self._make_estimator(y)
            weights = {} if sample_weight is None else {_name_weight(estimator): sample_weight}
            self.estimator_ = estimator.fit(X, y, **weights)
        if np.asarray(y).shape[:1] == (1,):
            raise ValueError("X must hold rows to grow trees and rows to score them, got 1 sample.")
        self.importance_result_ = importance(self.estimator_, X, y, sample_weight=sample_weight, n_jobs=self.n_jobs)
        self.n_features_in_ = len(self.importance_result_.values)
        if self.importance_result_.columns is not None:
            self._check_columns(X)
        if hasattr(self.estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.estimator_.feature_names_in_
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_  # of an earlier fit
        self._get_support_mask()  # refuses alpha, correction or k here rather than in transform
        if self._has_no_test():
            warnings.warn(
                f"no feature can be significant: {self.importance_result_.no_inference}; k= selects by score alone.",
                UserWarning,
                stacklevel=2,
            )
        return self

    def _check_columns(self, X: Any) -> None:
        """Whether the features that a pipeline gives are the columns of X."""
        names = read_names(X) or [f"x{j}" for j in range(np.shape(X)[1])]
        if self.importance_result_.feature_names.tolist() != names:
            raise ValueError(
                "the estimator's pipeline mixes or leaves out columns, so that its features are not those of X; put "
                "the selector into the pipeline, before the model."
            )

    def _make_estimator(self, y: Any) -> Any:
        if self.estimator is not None:
            return set_seeds(clone(self.estimator), self.random_state)
        forest = RandomForestClassifier if _has_classes(y) else RandomForestRegressor
        return forest(_N_TREES, n_jobs=self.n_jobs, random_state=self.random_state)

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        if self._has_no_test():
            return np.zeros(self.n_features_in_, dtype=np.bool_)
        return self.importance_result_.select(self.alpha, self.correction, k=self.k)

    def _has_no_test(self) -> bool:
        """Whether features are selected by p-values that there are none of, as with very few rows."""
        return self.k is None and self.importance_result_.no_inference is not None

    def __sklearn_tags__(self) -> Any:
        # Asked by scikit-learn 1.6 or later; get_tags is not older.
        from sklearn.utils import get_tags

        tags = super().__sklearn_tags__()
        inner = get_tags(RandomForestClassifier() if self.estimator is None else self.estimator)
        tags.input_tags.allow_nan = inner.input_tags.allow_nan and SKLEARN_VERSION >= (1, 8)  # as importance does
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.target_tags.required = True
        return tags


def _name_weight(estimator: Any) -> str:
    """What `fit` calls the weights of rows: a pipeline passes them on to its model, under the model's name."""
    if not isinstance(estimator, Pipeline):
        return "sample_weight"
    name, last = estimator.steps[-1]
    return f"{name}__{_name_weight(last)}"


def _has_classes(y: Any) -> bool:
    """Whether y holds labels of classes rather than quantities."""
    values = np.asarray(y)
    if values.ndim == 1 and values.dtype.kind in "iuf":
        n_different = len(np.unique(values))
        if n_different > _MANY_VALUES and len(values) < _FEW_ROWS * n_different:
            return False
    return not type_of_target(y, input_name="y").startswith("continuous")
