"""Time several callables in alternating rounds, by medians; slow ones run once, on part of the work."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Timer = Callable[[], float]


def clock(call: Callable[[], object], timer: Timer = time.perf_counter) -> float:
    """Return the seconds of one call."""
    start = timer()
    call()
    return timer() - start


@dataclass(frozen=True)
class Peer:
    """Something to time.

    `run(n)` does n units of the work and returns the seconds to count. `size` is all of the work in units. A peer that
    can do part of the work names its units (rows or trees), starts with `first` units, and does at most `limit`.
    """

    name: str
    run: Callable[[int], float]
    size: int = 1
    first: int = 1
    units: str = ""
    limit: int | None = None


def whole(name: str, call: Callable[[], object], timer: Timer = time.perf_counter) -> Peer:
    """Make a peer that always does all of the work."""
    return Peer(name, lambda _: clock(call, timer))


@dataclass(frozen=True)
class Timing:
    """Seconds for all of the work: median and best of the rounds; and the part of the work that was done."""

    peer: str
    seconds: float
    best: float
    rounds: int
    part: float = 1.0
    units: str = ""

    @property
    def how(self) -> str:
        """Description of how it was measured."""
        times = "once" if self.rounds == 1 else f"median of {self.rounds}"
        return times if self.part == 1 else f"{times}, on {self.part:.2g} of the {self.units}, scaled"


Measure = Callable[[list[Peer]], list[Timing]]
Report = Callable[[str, list[Timing]], None]


@dataclass(frozen=True)
class _Probe:
    amount: int
    seconds: float
    wall: float


def _find_part(peer: Peer, cap: float) -> list[_Probe]:
    """Run growing parts of the work, up to all of it or to the largest within the cap; at least two."""
    most = peer.limit or peer.size
    amount = min(peer.first, most)
    probes: list[_Probe] = []
    while True:
        start = time.perf_counter()
        seconds = peer.run(amount)
        wall = time.perf_counter() - start
        if not probes and wall < cap / 10:  # the first call warms up
            seconds = peer.run(amount)
        probes.append(_Probe(amount, seconds, wall))
        if amount == most or (2 * wall > cap and len(probes) > 1):
            return probes
        amount = min(most, int(amount * max(2.0, min(10.0, 0.9 * cap / wall))))


def _scale(probes: list[_Probe], size: int) -> float:
    """Extrapolate to all of the work, linearly from the last two parts, so that fixed costs are not scaled."""
    last = probes[-1]
    if last.amount == size:
        return last.seconds
    if len(probes) > 1 and last.seconds > probes[-2].seconds:
        slope = (last.seconds - probes[-2].seconds) / (last.amount - probes[-2].amount)
        return last.seconds + slope * (size - last.amount)
    return last.seconds * size / last.amount


def measure(peers: list[Peer], *, rounds: int, cap: float) -> list[Timing]:
    """Time all peers in alternating rounds; a peer that would exceed `cap` seconds runs once, on part of the work."""
    taken: dict[str, list[float]] = {}
    parts: dict[str, float] = {}
    for peer in peers:
        probes = _find_part(peer, cap)
        last = probes[-1]
        parts[peer.name] = last.amount / peer.size
        # The probe of a fast peer only warms up and is discarded.
        is_fast = last.amount == peer.size and rounds * last.wall <= cap
        taken[peer.name] = [] if is_fast else [_scale(probes, peer.size)]
    fast = [peer for peer in peers if not taken[peer.name]]
    for _ in range(rounds):
        for peer in fast:
            taken[peer.name].append(peer.run(peer.size))
    return [
        Timing(
            peer.name,
            float(np.median(taken[peer.name])),
            min(taken[peer.name]),
            len(taken[peer.name]),
            parts[peer.name],
            peer.units,
        )
        for peer in peers
    ]
