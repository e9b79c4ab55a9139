"""Life tables against counts by hand."""

from __future__ import annotations

import numpy as np
import pytest

from truewood._inputs.life_tables import N_INTERVALS, make_life_table


def split(time, event):
    table = make_life_table(np.asarray(time, dtype=float), np.asarray(event, dtype=bool), np.ones(len(time)))
    assert table.shape == (len(time), 2 * N_INTERVALS)
    return np.hsplit(table, 2)


def test_with_an_event_in_each_interval_the_hazard_is_that_of_nelson_and_aalen():
    rng = np.random.default_rng(0)
    time, event = rng.permutation(40).astype(float), np.zeros(40, dtype=bool)
    event[rng.choice(40, N_INTERVALS, replace=False)] = True
    events, at_risk = split(time, event)
    expected = [1 / (time >= t).sum() for t in np.sort(time[event])]
    np.testing.assert_allclose(events.sum(axis=0) / at_risk.sum(axis=0), expected)


def test_a_censored_row_is_at_risk_for_the_events_up_to_its_time():
    time = [*range(1, 33), 2.0, 2.5, 0.5, 99.0, 3.0]  # two events an interval: 1 and 2, 3 and 4, ...
    events, at_risk = split(time, [*[True] * 32, *[False] * 5])
    assert (events.sum(axis=0) == 2).all()
    assert (events[:32].sum(axis=1) == 1).all()
    assert (events[32:] == 0).all()
    np.testing.assert_array_equal(at_risk[32:, :3], [[1, 0, 0], [1, 0, 0], [0, 0, 0], [1, 1, 1], [1, 0.5, 0]])
    np.testing.assert_array_equal(at_risk[3, :3], [1, 1, 0])


@pytest.mark.parametrize("n_events", [0, 1, 3, 15, 17, 50])
def test_every_event_is_in_one_interval(n_events):
    rng = np.random.default_rng(n_events)
    time, event = rng.integers(0, 20, 60).astype(float), np.arange(60) < n_events  # with ties
    events, at_risk = split(time, event)
    np.testing.assert_array_equal(events.sum(axis=1), event)
    assert ((at_risk >= events) & (at_risk <= 1)).all()
    order = np.argsort(time[event], kind="stable")
    assert (np.diff(events[event][order].argmax(axis=1)) >= 0).all()


def test_the_order_of_rows_does_not_matter():
    rng = np.random.default_rng(0)
    time, event, order = rng.exponential(size=50), rng.random(50) < 0.6, rng.permutation(50)
    weight = rng.integers(0, 4, 50).astype(float)
    expected = make_life_table(time, event, weight)[order]
    np.testing.assert_array_equal(make_life_table(time[order], event[order], weight[order]), expected)


@pytest.mark.parametrize("scale", [1.0, 0.1])
def test_a_weight_counts_as_rows_that_are_repeated(scale):
    rng = np.random.default_rng(1)
    time, event = rng.integers(0, 30, 60).astype(float), rng.random(60) < 0.6
    times = rng.integers(0, 4, 60)
    weighted = make_life_table(time, event, scale * times)
    repeated = make_life_table(np.repeat(time, times), np.repeat(event, times), np.ones(times.sum()))
    np.testing.assert_allclose(np.repeat(weighted, times, axis=0), repeated, rtol=1e-12, atol=1e-12)
