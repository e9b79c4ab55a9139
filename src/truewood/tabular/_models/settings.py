"""`FitSettings`: the model to fit to a table, and its hyperparameters."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass

from truewood._arguments import check_n_jobs, check_seed, is_choice, is_count, is_fraction
from truewood._extras import explain_missing
from truewood._formatting import quote
from truewood._message import Message
from truewood.tabular._errors import TableError

FORESTS = ("random-forest", "extra-trees")
BOOSTERS = ("xgboost", "lightgbm", "catboost", "hist-gradient-boosting")
MODELS = (*FORESTS, *BOOSTERS)
# More trees only stabilize a forest; boosting overfits.
FOREST_TREES, BOOSTING_TREES = 500, 200
FOLDS = 5
ALL_ROWS = "all"
# Fewer rows are too few for standard errors.
FEWEST_ROWS = 20
# Breiman's leaf sizes, and Ishwaran's for survival forests; leaves grow beyond this number of rows.
_LEAF_SIZE = {"classification": 1, "regression": 5, "survival": 15}
_ROWS_OF_LEAF_SIZE = 50_000
# Models whose library has no minimum number of rows per leaf, or ignores it.
_WITHOUT_LEAF_SIZE = ("xgboost", "catboost")


@dataclass(frozen=True)
class FitSettings:
    """The model to fit, and its hyperparameters.

    Parameters
    ----------
    model : {"random-forest", "extra-trees", "xgboost", "lightgbm", "catboost", "hist-gradient-boosting"}, \
default="random-forest"
        The model. Forests are scored on out-of-bag rows unless `groups`, `cv` or `test_size` is given; boosted trees
        are scored by cross-validation unless `test_size` is given.
    n_estimators : int, default=None
        Number of trees; None means 500 for forests and 200 for boosting.
    max_depth : int, default=None
        Maximum depth of the trees; None means the default of the library.
    max_features : {"sqrt", "log2"}, int or float, default=None
        Number or fraction of encoded columns to consider at each split of a forest; None means "sqrt" for
        classification and survival, and all columns for regression.
    min_samples_leaf : int, default=None
        Minimum number of rows in a leaf. None means the default of the library for boosting, and 1 for classification
        forests, 5 for regression forests and 15 for survival forests; beyond 50,000 rows, forests use more. Not
        available for "xgboost" and "catboost".
    sample : int or "all", default=None
        Number of rows to use, drawn at random; "all" means all. None means all, or fewer if the fit would take more
        than 2 minutes on one core or its trees more than 4 GiB.
    cv : int, default=None
        Number of folds; forests are then scored by cross-validation, too. None means 5 for boosted trees or with
        `groups`, unless `test_size` is given.
    test_size : float, default=None
        Fraction of rows to hold out; the model is then fit once, to the other rows, and scored on the held-out rows.
        None means no such split.
    n_jobs : int, default=None
        Number of threads, as in scikit-learn.
    random_state : int, default=0
        Seed of the model, of `sample`, of the folds or held-out rows, and of ``measure="permutation"``.

    Examples
    --------
    >>> from truewood.tabular import FitSettings
    >>> FitSettings(model="extra-trees").count_trees()
    500
    """

    model: str = MODELS[0]
    _: KW_ONLY
    n_estimators: int | None = None
    max_depth: int | None = None
    max_features: str | int | float | None = None
    min_samples_leaf: int | None = None
    sample: int | str | None = None
    cv: int | None = None
    test_size: float | None = None
    n_jobs: int | None = None
    random_state: int = 0

    def __post_init__(self) -> None:
        if not is_choice(self.model, MODELS):
            raise TableError(f"must be one of {', '.join(MODELS)}, got {quote(self.model)}.", "model")
        for name, least in (("n_estimators", 1), ("max_depth", 1), ("min_samples_leaf", 1), ("cv", 2)):
            given = getattr(self, name)
            if given is not None and not is_count(given, least):
                raise TableError(f"must be an integer >= {least}, got {quote(given)}.", name)
        if self.test_size is not None and not is_fraction(self.test_size):
            raise TableError(f"must be a number between 0 and 1, got {quote(self.test_size)}.", "test_size")
        check_n_jobs(self.n_jobs)
        check_seed(self.random_state)
        if self.cv is not None and self.test_size is not None:
            raise TableError(
                Message(
                    "cannot be combined with a train/test split.",
                    "Got {cv} and {test_size}; pass only one.",
                    cv=self.cv,
                    test_size=self.test_size,
                ),
                "cv",
            )
        self._check_splits()
        is_some = self.sample is not None and not is_choice(self.sample, [ALL_ROWS])
        if is_some and not is_count(self.sample, FEWEST_ROWS):
            raise TableError(f"must be an integer >= {FEWEST_ROWS} or 'all', got {quote(self.sample)}.", "sample")

    def _check_splits(self) -> None:
        """Refuse split parameters that the model does not support."""
        if self.max_features is not None:
            if not self.is_forest:
                raise TableError(
                    f"requires model {' or '.join(map(repr, FORESTS))}, got model {quote(self.model)}.", "max_features"
                )
            given = self.max_features
            if not (is_fraction(given, or_one=True) or is_count(given, 1) or is_choice(given, ("sqrt", "log2"))):
                raise TableError(
                    "must be 'sqrt', 'log2', a number of columns, or a fraction of them between 0 and 1, got "
                    f"{quote(self.max_features)}.",
                    "max_features",
                )
        if self.min_samples_leaf is not None and self.model in _WITHOUT_LEAF_SIZE:
            raise TableError(
                Message(f"{self.model} has no such parameter.", "Limit the trees with {max_depth}.", max_depth=3),
                "min_samples_leaf",
            )

    @property
    def is_forest(self) -> bool:
        """Whether the model is a forest, which has out-of-bag rows if it is fit to all rows."""
        return self.model in FORESTS

    def count_folds(self) -> int | None:
        """Number of folds if rows are held out; None for a single split."""
        return None if self.test_size is not None else self.cv or FOLDS

    def count_trees(self) -> int:
        """Number of trees to grow."""
        return self.n_estimators or (FOREST_TREES if self.is_forest else BOOSTING_TREES)

    def choose_max_features(self, task: str) -> str | int | float:
        """Value of `max_features` for a forest."""
        return self.max_features or (1.0 if task == "regression" else "sqrt")

    def count_candidates(self, task: str, n_columns: int) -> int:
        """Number of columns to consider at each split of a forest."""
        chosen = self.choose_max_features(task)
        if isinstance(chosen, str):
            chosen = int(math.sqrt(n_columns) if chosen == "sqrt" else math.log2(n_columns))
        return max(1, min(n_columns, int(chosen * n_columns) if isinstance(chosen, float) else chosen))

    def choose_leaf_size(self, task: str, n_rows: int) -> int:
        """Minimum number of rows in a leaf of a forest."""
        return self.min_samples_leaf or _LEAF_SIZE[task] * -(-n_rows // _ROWS_OF_LEAF_SIZE)

    def check_installed(self) -> None:
        """Raise an error if the library of the model is not installed."""
        if self.model not in ("xgboost", "lightgbm", "catboost"):
            return
        problem = explain_missing("needs", [self.model], self.model)
        if problem is not None:
            raise TableError(f"{problem} Or choose {' or '.join(FORESTS)}.", "model")
