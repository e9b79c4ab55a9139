"""Scores that are increases in loss, as shares of the target's variance, with standard errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from truewood._inference.moments import drop_rounding

Floats = NDArray[np.float64]

# Scores are differences of squared errors, which are of the order of the variance they are divided by.
_MAGNITUDE = 512.0


@dataclass(frozen=True, eq=False)
class LossScores:
    """Scores of some groups.

    Parameters
    ----------
    per_output : ndarray of shape (n_outputs, n_groups)
        Increase in loss as a share of the sum of squared deviations of the target.
    contributions : ndarray of shape (n_rows, n_groups), or None
        Contributions of rows to the mean over outputs; None if they are not kept.
    error : ndarray of shape (n_groups,)
        Standard error of each score, as far as it comes from the evaluation rows.
    """

    per_output: Floats
    contributions: Floats | None
    error: Floats

    @property
    def values(self) -> Floats:
        """Means over outputs, shape (n_groups,)."""
        mean: Floats = self.per_output.mean(axis=0)
        return mean

    @classmethod
    def join(cls, parts: Sequence[LossScores]) -> LossScores:
        """Concatenate the scores of several blocks of groups."""
        contributions = [part.contributions for part in parts if part.contributions is not None]
        return cls(
            per_output=np.hstack([part.per_output for part in parts]),
            contributions=np.hstack(contributions) if contributions else None,
            error=np.concatenate([part.error for part in parts]),
        )


def score_losses(increase: Floats, deviation: Floats, row_weight: Floats, *, with_rows: bool = False) -> LossScores:
    """Score groups by the increase in each row's loss without them.

    Rows are treated as independent: errors ignore that they are in bag for other trees, and that the variance is
    estimated.

    Parameters
    ----------
    increase : ndarray of shape (n_rows, n_groups, n_outputs)
        Increase in the loss of each row.
    deviation : ndarray of shape (n_rows, n_outputs)
        Squared distance of each target from the mean.
    row_weight : ndarray of shape (n_rows,)
        Weight of each row, 0 for rows that are not evaluated.
    with_rows : bool
        Whether to keep the contributions of rows.
    """
    share = row_weight / row_weight.sum()
    variance = (share[:, np.newaxis] * deviation).sum(axis=0)
    added = increase * (share[:, np.newaxis] / variance)[:, np.newaxis, :]
    per_output, contributions = added.sum(axis=0).T, added.mean(axis=2)
    squares = ((contributions - share[:, np.newaxis] * per_output.mean(axis=0)) ** 2).sum(axis=0)
    magnitude = np.full(len(squares), _MAGNITUDE)
    return LossScores(per_output, contributions if with_rows else None, np.sqrt(drop_rounding(squares, magnitude)))
