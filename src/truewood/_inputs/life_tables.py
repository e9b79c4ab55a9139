"""Life tables: a survival time as event and time at risk in each interval, numbers that can be summed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Enough for hazards of any shape, and few enough to sum at every node.
N_INTERVALS = 16
# Relative difference up to which sums of weights count as equal.
_ROUNDING = 1e-9


def make_life_table(time: Floats, event: NDArray[np.bool_], weight: Floats) -> Floats:
    """Event and exposure of each row in each interval, shape (n_rows, 2 * N_INTERVALS).

    Intervals end at quantiles of the event times. The first half of the columns is 1 for the interval of the row's
    event, the second half the share of each interval for which it was at risk: 1 if it survived the interval or had
    its event in it, 0 after that. A censored row was at risk for the events up to its time, as a share of those in the
    interval (the actuarial method), so that the event rate does not depend on the censoring times.

    Parameters
    ----------
    time : ndarray of shape (n_rows,)
        Time of the event, or of the censoring.
    event : ndarray of bool, shape (n_rows,)
        Whether it was an event.
    weight : ndarray of shape (n_rows,)
        Weight of each row in the quantiles.
    """
    times, place = np.unique(time[event], return_inverse=True)
    until = np.append(0.0, np.cumsum(np.bincount(place, weights=weight[event], minlength=len(times))))
    # Weight of the events up to each interval's end, those at the same time included; some intervals may hold none.
    wanted = np.arange(1, N_INTERVALS + 1) / N_INTERVALS * until[-1]
    end = until[np.minimum(np.searchsorted(until, wanted * (1.0 - _ROUNDING)), len(times))]
    start = np.append(0.0, end[:-1])
    before = until[np.searchsorted(times, time, side="right")][:, np.newaxis]
    has_event = event[:, np.newaxis] & (start < before) & (before <= end)
    share = np.clip((before - start) / np.where(end > start, end - start, 1.0), 0.0, 1.0)
    share = np.where(end > start, share, before > start)
    return np.hstack([has_event, np.where(has_event, 1.0, share)]).astype(np.float64)
