"""What a user may choose of the model that is fit to a table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib.util import find_spec

from truewood._arguments import check_n_jobs, check_seed, is_choice, is_count, is_fraction
from truewood._formatting import quote
from truewood.tabular._errors import TableError

FORESTS = ("random-forest", "extra-trees")
BOOSTERS = ("xgboost", "lightgbm", "catboost", "hist-gradient-boosting")
MODELS = (*FORESTS, *BOOSTERS)
# Forests only get steadier with more trees; boosting overfits.
FOREST_TREES, BOOSTING_TREES = 500, 200
FOLDS = 5
ALL_ROWS = "all"
# Fewer rows say too little for standard errors.
FEWEST_ROWS = 20
# Breiman's leaves, and Ishwaran's of survival forests; of more rows than these in larger ones.
_LEAF_SIZE = {"classification": 1, "regression": 5, "survival": 15}
_ROWS_OF_LEAF_SIZE = 50_000
# Models whose libraries have no smallest number of rows in a leaf, or none that they heed.
_WITHOUT_LEAF_SIZE = ("xgboost", "catboost")


@dataclass(frozen=True)
class FitSettings:
    """The model to fit: which one, its size and its seed.

    Parameters
    ----------
    model : {"random-forest", "extra-trees", "xgboost", "lightgbm", "catboost", "hist-gradient-boosting"}, \
default="random-forest"
        Forests are scored on the rows that each tree left out; boosted trees, and forests where rows belong together,
        on folds that they do not see.
    n_estimators : int, default=None
        Number of trees; None is 500 for forests and 200 for boosting.
    max_depth : int, default=None
        Depth of trees; None is what the library does by default.
    test_size : float, default=None
        Part of the rows that is held out and judges the model, which is then fit once; None is no such part.
    random_state : int, default=0
        Seed of the model.
    n_jobs : int, default=None
        Number of threads, as in scikit-learn.
    cv : int, default=None
        Number of folds, each of which judges a model that is fit to the others; None is 5 where models are judged by
        folds.
    max_features : {"sqrt", "log2"}, int or float, default=None
        Number or part of the encoded columns that a split of a forest may choose from; None is the square root for
        classes and all for numbers.
    min_samples_leaf : int, default=None
        Smallest number of rows in a leaf; None is 1 of forests for classes and 5 for numbers, more from 50,000 rows on,
        and of boosting what the library does by default.
    sample : int or "all", default=None
        Number of rows to use, drawn at random; None is all, unless the fit would take more than 2 minutes of one core
        or 4 GiB of trees.

    Examples
    --------
    >>> from truewood.tabular import FitSettings
    >>> FitSettings(model="extra-trees").count_trees()
    500
    """

    model: str = MODELS[0]
    n_estimators: int | None = None
    max_depth: int | None = None
    test_size: float | None = None
    random_state: int = 0
    n_jobs: int | None = None
    cv: int | None = None
    max_features: str | int | float | None = None
    min_samples_leaf: int | None = None
    sample: int | str | None = None

    def __post_init__(self) -> None:
        if not is_choice(self.model, MODELS):
            raise TableError(f"must be one of {', '.join(MODELS)}, got {quote(self.model)}.", "model")
        for name, least in (("n_estimators", 1), ("max_depth", 1), ("min_samples_leaf", 1), ("cv", 2)):
            given = getattr(self, name)
            if given is not None and not is_count(given, least):
                raise TableError(f"must be a whole number from {least} up, got {quote(given)}.", name)
        if self.test_size is not None and not is_fraction(self.test_size):
            raise TableError(f"must be a number between 0 and 1, got {quote(self.test_size)}.", "test_size")
        check_n_jobs(self.n_jobs)
        check_seed(self.random_state)
        if self.cv is not None and self.test_size is not None:
            raise TableError(
                f"is a number of folds, and cannot be given with test_size={self.test_size}, the part of a split.", "cv"
            )

        self._check_splits()
        is_some = self.sample is not None and not is_choice(self.sample, [ALL_ROWS])
        if is_some and not is_count(self.sample, FEWEST_ROWS):
            raise TableError(
                f"must be a number of rows from {FEWEST_ROWS} up, or 'all', got {quote(self.sample)}.", "sample"
            )

    def _check_splits(self) -> None:
        """Refuse what the model cannot do with splits and leaves."""
        if self.max_features is not None:
            if not self.is_forest:
                raise TableError(f"is for {' and '.join(FORESTS)}, got model={quote(self.model)}.", "max_features")
            given = self.max_features
            if not (is_fraction(given, or_one=True) or is_count(given, 1) or is_choice(given, ("sqrt", "log2"))):
                raise TableError(
                    "must be 'sqrt', 'log2', a number of columns, or a part of them between 0 and 1, got "
                    f"{quote(self.max_features)}.",
                    "max_features",
                )
        if self.min_samples_leaf is not None and self.model in _WITHOUT_LEAF_SIZE:
            raise TableError(
                f"{self.model} has no smallest number of rows in a leaf; pass max_depth=3.", "min_samples_leaf"
            )

    @property
    def is_forest(self) -> bool:
        """Whether the model has out-of-bag rows."""
        return self.model in FORESTS

    def count_folds(self) -> int | None:
        """Number of folds, where rows are held out; None for a split."""
        return None if self.test_size is not None else self.cv or FOLDS

    def count_trees(self) -> int:
        """The number of trees to grow."""
        return self.n_estimators or (FOREST_TREES if self.is_forest else BOOSTING_TREES)

    def choose_max_features(self, task: str) -> str | int | float:
        """What a forest takes for `max_features`."""
        return self.max_features or (1.0 if task == "regression" else "sqrt")

    def count_candidates(self, task: str, n_columns: int) -> int:
        """Number of columns that a split of a forest chooses from."""
        chosen = self.choose_max_features(task)
        if isinstance(chosen, str):
            chosen = int(math.sqrt(n_columns) if chosen == "sqrt" else math.log2(n_columns))
        return max(1, min(n_columns, int(chosen * n_columns) if isinstance(chosen, float) else chosen))

    def choose_leaf_size(self, task: str, n_rows: int) -> int:
        """Smallest number of rows in the leaf of a forest."""
        return self.min_samples_leaf or _LEAF_SIZE[task] * -(-n_rows // _ROWS_OF_LEAF_SIZE)

    def check_installed(self) -> None:
        """Refuse a model whose library is not there."""
        if self.model in ("xgboost", "lightgbm", "catboost") and find_spec(self.model) is None:
            raise TableError(
                f"{self.model} is not installed: pip install 'truewood[{self.model}]', or take one of "
                f"{', '.join(FORESTS)}.",
                "model",
            )
