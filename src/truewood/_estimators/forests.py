"""scikit-learn's forests with unbiased importances: `fit` also scores every tree on its out-of-bag rows."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import check_is_fitted

from truewood._estimators.html_view import HTMLViewMixin
from truewood._formatting import quote
from truewood._importance import importance
from truewood._inputs.text_columns import name_text_columns
from truewood._results.importance_result import ImportanceResult
from truewood._results.importance_text import write_html
from truewood._results.notebook_view import write_view
from truewood._rows.bag_weights import choose_bag_size
from truewood._sklearn_compat import WEIGHTS_ARE_DRAWN


class _NoImportancesError(ValueError, AttributeError):
    """Like scikit-learn's NotFittedError, an AttributeError as well, so that `dir` and `hasattr` work."""


class _ScoredForest(HTMLViewMixin):
    """Mixin for a scikit-learn forest that scores the forest in `fit`."""

    bootstrap: bool
    max_samples: int | float | None
    n_jobs: int | None
    _importance: ImportanceResult | None
    _why_no_importance: str | None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit the forest as scikit-learn does, and score its trees on their out-of-bag rows.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
            Training data.
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
            Target.
        sample_weight : array-like of shape (n_rows,), default=None
            Sample weights, for training and for scoring.

        Returns
        -------
        self : object
        """
        if not self.bootstrap:
            raise ValueError(
                f"bootstrap must be True for {type(self).__name__}, which scores each tree on its out-of-bag rows, got "
                f"{quote(self.bootstrap)}; use importance(..., rows='heldout') to score a forest without bootstrap."
            )
        with self._leave_out_rows(y, sample_weight), name_text_columns(X, self):
            super().fit(X, y, sample_weight)  # type: ignore[misc]
        self._importance, self._why_no_importance = None, None
        try:
            self._importance = importance(self, X, y, sample_weight=sample_weight, n_jobs=self.n_jobs)
        except ValueError as error:
            # The forest itself is fine; only access to its importances raises this error.
            self._why_no_importance = str(error)
        return self

    @contextmanager
    def _leave_out_rows(self, y: Any, sample_weight: Any) -> Iterator[None]:
        """Draw smaller bags if weights would leave a class without out-of-bag rows."""
        given = self.max_samples
        weight = self._find_draw_weights(y, sample_weight) if given is None else None
        if weight is not None:
            self.max_samples = choose_bag_size(weight, np.unique(np.asarray(y), return_inverse=True)[1])
        try:
            yield
        finally:
            self.max_samples = given

    def _find_draw_weights(self, y: Any, sample_weight: Any) -> NDArray[np.float64] | None:
        """Return the weights by which rows are drawn into bags; None if there are no usable ones."""
        class_weight = getattr(self, "class_weight", None)
        has_weight = sample_weight is not None or class_weight not in (None, "balanced_subsample")
        labels = np.asarray(y)
        if not (WEIGHTS_ARE_DRAWN and has_weight and is_classifier(self)) or labels.ndim != 1:
            return None
        weight = np.ones(len(labels)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        if class_weight not in (None, "balanced_subsample"):
            weight = weight * compute_sample_weight(class_weight, labels)
        # scikit-learn rejects other weights.
        is_usable = weight.shape == labels.shape and np.isfinite(weight).all() and (weight >= 0).all()
        return weight if is_usable and len(np.unique(labels[weight > 0])) > 1 else None

    def _write_scores(self) -> str:
        if not hasattr(self, "estimators_"):
            return ""
        if self._importance is None:
            return write_view("No importances", str(self._why_no_importance), "")
        return write_html(self._importance)

    @property
    def importance_result_(self) -> ImportanceResult:
        """The result of `truewood.importance` on the out-of-bag rows of the training data."""
        check_is_fitted(self)
        if self._importance is None:
            raise _NoImportancesError(f"this {type(self).__name__} has no importances: {self._why_no_importance}")
        return self._importance

    @property
    def unbiased_importances_(self) -> NDArray[np.float64]:
        """Signed scores, shape (n_features,): a feature without predictive power scores zero on average."""
        return self.importance_result_.values

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """Scores with negative ones set to 0, shape (n_features,); they do not sum to one.

        scikit-learn's RFE and SelectFromModel square these scores or take absolute values, so a negative score, which
        is noise, would look important.
        """
        return np.maximum(self.unbiased_importances_, 0.0)


def _bootstrap_by_default(init: Callable[..., None]) -> Callable[..., None]:
    """Give a scikit-learn constructor, of any version, the default bootstrap=True."""
    signature = inspect.signature(init)
    parameters = [
        parameter.replace(default=True) if name == "bootstrap" else parameter
        for name, parameter in signature.parameters.items()
    ]

    @functools.wraps(init)
    def construct(self: Any, *args: Any, **options: Any) -> None:
        init(self, *args, **{"bootstrap": True, **options})

    # scikit-learn reads the names and defaults of parameters from the signature.
    construct.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return construct


class UnbiasedRandomForestClassifier(_ScoredForest, RandomForestClassifier):  # type: ignore[misc]
    """A `RandomForestClassifier` with unbiased `feature_importances_`.

    Parameters, methods and predictions are those of scikit-learn's class, with two exceptions. First,
    ``bootstrap=False`` raises an error: without bootstrap, trees have no out-of-bag rows. Second, scikit-learn 1.9 and
    later draw rows into bootstrap samples in proportion to their weights. If too few rows of a class are then out of
    bag to score it, and `max_samples` is None, `fit` draws smaller bootstrap samples.

    `fit` also runs `truewood.importance` on the out-of-bag rows, with `n_jobs` threads. If there are no out-of-bag rows
    to score, the forest is fit anyway, and the attributes below raise an error that explains why.

    Attributes
    ----------
    feature_importances_ : ndarray of shape (n_features,)
        Unbiased scores, with negative ones set to 0; they do not sum to one.
    unbiased_importances_ : ndarray of shape (n_features,)
        Unbiased scores, which may be negative.
    importance_result_ : ImportanceResult
        The scores with standard errors, p-values, tables and plots.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import truewood as tw
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> forest = tw.UnbiasedRandomForestClassifier(random_state=0).fit(X, y)
    >>> forest.importance_result_.frame()["feature"][0]
    'petal length (cm)'
    """


class UnbiasedRandomForestRegressor(_ScoredForest, RandomForestRegressor):  # type: ignore[misc]
    """A `RandomForestRegressor` with unbiased `feature_importances_`.

    Parameters, methods and predictions are those of scikit-learn's class, except that ``bootstrap=False`` raises an
    error: without bootstrap, trees have no out-of-bag rows. `fit` also runs `truewood.importance` on the out-of-bag
    rows, with `n_jobs` threads. If there are no out-of-bag rows to score, the forest is fit anyway, and the attributes
    below raise an error that explains why.

    Attributes
    ----------
    feature_importances_ : ndarray of shape (n_features,)
        Unbiased scores, with negative ones set to 0; they do not sum to one.
    unbiased_importances_ : ndarray of shape (n_features,)
        Unbiased scores, which may be negative.
    importance_result_ : ImportanceResult
        The scores with standard errors, p-values, tables and plots.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> import truewood as tw
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> forest = tw.UnbiasedRandomForestRegressor(random_state=0).fit(X, y)
    >>> sorted(forest.importance_result_.frame()["feature"][:2])
    ['bmi', 's5']
    """


class UnbiasedExtraTreesClassifier(_ScoredForest, ExtraTreesClassifier):  # type: ignore[misc]
    """An `ExtraTreesClassifier` with bootstrap and unbiased `feature_importances_`.

    Parameters, methods and predictions are those of scikit-learn's class, with two exceptions. First,
    ``bootstrap=True`` is the default and required: without bootstrap, trees have no out-of-bag rows. Second,
    scikit-learn 1.9 and later draw rows into bootstrap samples in proportion to their weights. If too few rows
    of a class are then out of bag to score it, and `max_samples` is None, `fit` draws smaller bootstrap samples.

    `fit` also runs `truewood.importance` on the out-of-bag rows, with `n_jobs` threads. If there are no out-of-bag rows
    to score, the forest is fit anyway, and the attributes below raise an error that explains why.

    Attributes
    ----------
    feature_importances_ : ndarray of shape (n_features,)
        Unbiased scores, with negative ones set to 0; they do not sum to one.
    unbiased_importances_ : ndarray of shape (n_features,)
        Unbiased scores, which may be negative.
    importance_result_ : ImportanceResult
        The scores with standard errors, p-values, tables and plots.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import truewood as tw
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> forest = tw.UnbiasedExtraTreesClassifier(random_state=0).fit(X, y)
    >>> sorted(forest.importance_result_.frame()["feature"][:2])
    ['petal length (cm)', 'petal width (cm)']
    """

    __init__ = _bootstrap_by_default(ExtraTreesClassifier.__init__)


class UnbiasedExtraTreesRegressor(_ScoredForest, ExtraTreesRegressor):  # type: ignore[misc]
    """An `ExtraTreesRegressor` with bootstrap and unbiased `feature_importances_`.

    Parameters, methods and predictions are those of scikit-learn's class, except that ``bootstrap=True`` is the default
    and required: without bootstrap, trees have no out-of-bag rows. `fit` also runs `truewood.importance` on the
    out-of-bag rows, with `n_jobs` threads. If there are no out-of-bag rows to score, the forest is fit anyway, and the
    attributes below raise an error that explains why.

    Attributes
    ----------
    feature_importances_ : ndarray of shape (n_features,)
        Unbiased scores, with negative ones set to 0; they do not sum to one.
    unbiased_importances_ : ndarray of shape (n_features,)
        Unbiased scores, which may be negative.
    importance_result_ : ImportanceResult
        The scores with standard errors, p-values, tables and plots.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> import truewood as tw
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> forest = tw.UnbiasedExtraTreesRegressor(random_state=0).fit(X, y)
    >>> sorted(forest.importance_result_.frame()["feature"][:2])
    ['bmi', 's5']
    """

    __init__ = _bootstrap_by_default(ExtraTreesRegressor.__init__)
