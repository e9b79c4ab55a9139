"""Scores that are sums of what rows lose, as shares of what there is to lose, and how far they may be off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from truewood._inference.rounding import drop_rounding

Floats = NDArray[np.float64]

# Scores are differences of squared errors, which are of the order of the variance that they are shares of.
_MAGNITUDE = 512.0


@dataclass(frozen=True, eq=False)
class LossScores:
    """Scores of some groups.

    Parameters
    ----------
    per_output : ndarray of shape (n_outputs, n_groups)
        Sum of what rows lose, as a share of the sum of squared deviations of the target.
    phi : ndarray of shape (n_rows, n_groups), or None
        What each row adds to the mean over outputs; None where it is not kept.
    error : ndarray of shape (n_groups,)
        Spread of a score, as far as it comes from the rows that score.
    """

    per_output: Floats
    phi: Floats | None
    error: Floats

    @property
    def values(self) -> Floats:
        """Means over outputs, shape (n_groups,)."""
        mean: Floats = self.per_output.mean(axis=0)
        return mean

    @classmethod
    def join(cls, parts: Sequence[LossScores]) -> LossScores:
        """Put the scores of several blocks of groups beside each other."""
        phi = [part.phi for part in parts if part.phi is not None]
        return cls(
            per_output=np.hstack([part.per_output for part in parts]),
            phi=np.hstack(phi) if phi else None,
            error=np.concatenate([part.error for part in parts]),
        )


def score_losses(increase: Floats, deviation: Floats, row_weight: Floats, *, with_rows: bool = False) -> LossScores:
    """Scores of some groups from what rows lose without them.

    Rows are taken as independent: errors do not count that they grew trees, too, nor that the variance is estimated.

    Parameters
    ----------
    increase : ndarray of shape (n_rows, n_groups, n_outputs)
        What each row loses.
    deviation : ndarray of shape (n_rows, n_outputs)
        Squared distance of each target to the mean.
    row_weight : ndarray of shape (n_rows,)
        How much each row counts, 0 for rows that do not score.
    with_rows : bool
        Whether to keep what each row adds.
    """
    share = row_weight / row_weight.sum()
    variance = (share[:, np.newaxis] * deviation).sum(axis=0)
    added = increase * (share[:, np.newaxis] / variance)[:, np.newaxis, :]
    per_output, phi = added.sum(axis=0).T, added.mean(axis=2)
    squares = ((phi - share[:, np.newaxis] * per_output.mean(axis=0)) ** 2).sum(axis=0)
    magnitude = np.full(len(squares), _MAGNITUDE)
    return LossScores(per_output, phi if with_rows else None, np.sqrt(drop_rounding(squares, magnitude)))
