"""What a user may choose of the model that is fit to a table."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

from truewood.tabular.errors import TableError

FORESTS = ("random-forest", "extra-trees")
BOOSTERS = ("xgboost", "lightgbm")
MODELS = (*FORESTS, *BOOSTERS)
# Forests only get steadier with more trees; boosting overfits.
FOREST_TREES, BOOSTING_TREES = 500, 200
FOLDS = 5


@dataclass(frozen=True)
class FitSettings:
    """The model to fit: which one, its size and its seed.

    Parameters
    ----------
    model : {"random-forest", "extra-trees", "xgboost", "lightgbm"}, default="random-forest"
        Forests are scored on the rows that each tree left out; boosted trees, and forests where rows belong together,
        on folds that they do not see.
    n_trees : int, default=None
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

    Examples
    --------
    >>> from truewood.tabular import FitSettings
    >>> FitSettings(model="extra-trees").count_trees()
    500
    """

    model: str = MODELS[0]
    n_trees: int | None = None
    max_depth: int | None = None
    test_size: float | None = None
    random_state: int = 0
    n_jobs: int | None = None
    cv: int | None = None

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise TableError(f"must be one of {', '.join(MODELS)}, got {self.model!r}.", "model")
        if self.n_trees is not None and self.n_trees < 1:
            raise TableError(f"must be a whole number from 1 up, got {self.n_trees}.", "n_trees")
        if self.max_depth is not None and self.max_depth < 1:
            raise TableError(f"must be a whole number from 1 up, got {self.max_depth}.", "max_depth")
        if self.cv is not None and self.cv < 2:
            raise TableError(f"must be a whole number from 2 up, got {self.cv}.", "cv")
        if self.test_size is not None and not 0 < self.test_size < 1:
            raise TableError(f"must be a number between 0 and 1, got {self.test_size}.", "test_size")
        if self.cv is not None and self.test_size is not None:
            raise TableError(
                f"is a number of folds, and cannot be given with test_size={self.test_size}, the part of a split.", "cv"
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
        return self.n_trees or (FOREST_TREES if self.is_forest else BOOSTING_TREES)

    def check_installed(self) -> None:
        """Refuse a model whose library is not there."""
        if not self.is_forest and find_spec(self.model) is None:
            raise TableError(
                f"{self.model} is not installed: pip install 'truewood[{self.model}]', or take one of "
                f"{', '.join(FORESTS)}.",
                "model",
            )
