"""Life tables: a survival time as what happened to the row in each interval of time, numbers that can be summed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Enough for hazards of any shape, and few enough to be summed at every node.
N_INTERVALS = 16


def make_life_table(time: Floats, event: NDArray[np.bool_]) -> Floats:
    """What happened to each row in each interval, shape (n_rows, 2 * N_INTERVALS).

    Intervals end at quantiles of the times of events. The first half of the columns is 1 for the interval in which the
    row had its event, the second half the part of each interval for which it was at risk: 1 where it came through or
    had its event, 0 after that. A row that was censored was at risk for the events up to its time, as a share of those
    in the interval (the actuarial way), so that the rate of events is free of when rows are censored.

    Parameters
    ----------
    time : ndarray of shape (n_rows,)
        Time of the event, or of the censoring.
    event : ndarray of bool, shape (n_rows,)
        Whether it was an event.
    """
    times = np.sort(time[event])
    last = np.arange(1, N_INTERVALS + 1) * len(times) // N_INTERVALS
    # Events up to each interval's end, those at the same time included; some intervals may hold none.
    n_end = np.searchsorted(times, times[np.maximum(last, 1) - 1], side="right") if len(times) else last
    n_end = np.where(last > 0, n_end, 0)
    n_start = np.append(0, n_end[:-1])
    n_before = np.searchsorted(times, time, side="right")[:, np.newaxis]
    has_event = event[:, np.newaxis] & (n_start < n_before) & (n_before <= n_end)
    share = np.clip((n_before - n_start) / np.maximum(n_end - n_start, 1), 0.0, 1.0)
    return np.hstack([has_event, np.where(has_event, 1.0, share)]).astype(np.float64)
