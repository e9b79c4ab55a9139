"""What scikit-learn's forests record about their training rows: the bootstrap bag of each tree, and weights."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_sample_weight

from truewood._engines.selection import get_engine
from truewood._inputs.target import ClassTarget, Target
from truewood._sklearn_compat import (
    WEIGHTS_ARE_DRAWN,
    count_draws,
    count_training_rows,
    draw_bag,
    find_draw_weights,
)
from truewood.adapters._training_record import BagSeeds, InBagRows, TrainingRecord, WeightedDraws

# Rows of cached bags.
_ROWS_KEPT = 1 << 21


def record_forest(model: Any) -> TrainingRecord:
    """What a forest records about its training data."""
    # The bags of a batch of trees are read twice, for evaluation rows and for in-bag rows.
    n_kept = 2 + _ROWS_KEPT // count_training_rows(model)
    bag = lru_cache(maxsize=n_kept)(partial(draw_bag, model))

    def training_rows(tree: int, target: Target, sample_weight: NDArray[np.float64] | None) -> InBagRows:
        if not model.bootstrap:
            return list_every_row(_overall_class_weight(model), target, sample_weight)
        weight = weigh_bag(model, bag(tree), target, sample_weight)
        return InBagRows(np.flatnonzero(weight != 0), weight)

    return TrainingRecord(
        n_rows=count_training_rows(model),
        node_counts=lambda tree: model.estimators_[tree].tree_.n_node_samples,
        training_rows=training_rows,
        bag=bag if model.bootstrap else None,
        draws=describe_draws(model) if model.bootstrap else None,
        bag_seeds=_find_seeds(model) if model.bootstrap else None,
        weighs_by_count=partial(_weighs_by_count, model),
    )


def _find_seeds(model: Any) -> BagSeeds | None:
    """Seeds of the bags, unless rows were drawn by weight."""
    seeds = np.array([tree.random_state for tree in model.estimators_])
    if seeds.dtype.kind not in "iu" or find_draw_weights(model) is not None:
        return None
    return BagSeeds(seeds.astype(np.uint32), count_draws(model))


def _weighs_by_count(model: Any, has_weight: bool) -> bool:
    """Whether a row's weight in the fit is its number of draws."""
    class_weight = getattr(model, "class_weight", None)
    if WEIGHTS_ARE_DRAWN:
        return bool(model.bootstrap) and class_weight != "balanced_subsample"
    return bool(model.bootstrap) and class_weight is None and not has_weight


def describe_draws(model: Any) -> WeightedDraws | None:
    """How a forest or Bagging drew rows into bags, if by weights that differ."""
    weight = find_draw_weights(model)
    if weight is None or np.ptp(weight) == 0:
        return None
    return WeightedDraws(weight, count_draws(model), with_replacement=model.bootstrap)


def weigh_bag(
    forest: Any, bag: NDArray[Any], target: Target, sample_weight: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """Weight of every row in the fit of the tree with this bag."""
    weight = get_engine().count_rows(bag, target.n_rows)
    is_balanced = forest.bootstrap and getattr(forest, "class_weight", None) == "balanced_subsample"
    if is_balanced and isinstance(target, ClassTarget):
        weight *= compute_sample_weight("balanced", target.labels, indices=bag)
    if forest.bootstrap and WEIGHTS_ARE_DRAWN:
        return weight
    of_rows = _weigh_every_row(_overall_class_weight(forest), target, sample_weight)
    return weight if of_rows is None else weight * of_rows


def _overall_class_weight(forest: Any) -> Any:
    """Class weights that do not depend on the bag."""
    class_weight = getattr(forest, "class_weight", None)
    if class_weight == "balanced_subsample":
        return None if forest.bootstrap else "balanced"
    return class_weight


def list_every_row(class_weight: Any, target: Target, sample_weight: NDArray[np.float64] | None) -> InBagRows:
    """Training rows of a tree that was fit on all rows, with class weights and sample weights."""
    weight = _weigh_every_row(class_weight, target, sample_weight)
    if weight is None:
        return InBagRows(np.arange(target.n_rows), np.ones(target.n_rows))
    return InBagRows(np.flatnonzero(weight != 0), weight)


def _weigh_every_row(
    class_weight: Any, target: Target, sample_weight: NDArray[np.float64] | None
) -> NDArray[np.float64] | None:
    """Weights of all rows, from class weights and sample weights; None if every row counts once."""
    if class_weight is None or not isinstance(target, ClassTarget):
        return sample_weight
    by_class: NDArray[np.float64] = compute_sample_weight(class_weight, target.labels)
    return by_class if sample_weight is None else sample_weight * by_class
