"""Seeds for estimators that have none, so that what is fit can be fit again."""

from __future__ import annotations

from typing import Any

import numpy as np

from truewood.arguments import check_seed

# Seeds are smaller than this, which every library takes.
N_SEEDS = np.iinfo(np.int32).max


def set_seeds(estimator: Any, random_state: Any) -> Any:
    """Give an estimator, and its parts, a seed where they have none."""
    parameters = sorted(estimator.get_params().items())
    unseeded = [name for name, value in parameters if name.rpartition("__")[2] == "random_state" and value is None]
    rng = check_seed(random_state)
    return estimator.set_params(**{name: rng.randint(N_SEEDS) for name in unseeded})
