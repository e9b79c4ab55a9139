"""Rows that belong together must be on one side of each tree: in its bag, or outside of it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from truewood.adapters import ModelView
from truewood.rows.choice import RowChoice


def check_group_bags(row_groups: NDArray[np.int64], choice: RowChoice, view: ModelView) -> None:
    """Refuse groups of which some rows grew a tree that others score, as far as bags are known."""
    n_rows, n_groups = len(row_groups), int(row_groups.max()) + 1
    if view.training is None or not choice.are_training or n_groups == n_rows:
        return
    for tree in range(view.n_trees):
        is_in_bag = np.zeros(n_groups, dtype=np.bool_)
        is_in_bag[row_groups[view.training.list_bag(tree, n_rows)]] = True
        if is_in_bag[row_groups[choice.unseen(tree)]].any():
            raise ValueError(
                f"row_groups must be on one side of each tree, but tree {tree} has rows of a group both in its bag and "
                "among those that score it; use cross_importance with cv=GroupKFold(), held-out groups with "
                "rows='heldout', or a forest whose bags were drawn by group."
            )
