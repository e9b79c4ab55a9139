"""Time several callables side by side: alternated rounds and medians; slow ones once, on a part of the work."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


def clock(call: Callable[[], object]) -> float:
    """Seconds that one call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


@dataclass(frozen=True)
class Peer:
    """Something to time.

    `run` does so many units of the work, and returns the seconds that count. `size` is the whole work; a peer that
    can do a part of it has units (rows, or trees), begins with `first` of them, and does `limit` at most.
    """

    name: str
    run: Callable[[int], float]
    size: int = 1
    first: int = 1
    units: str = ""
    limit: int | None = None


def whole(name: str, call: Callable[[], object]) -> Peer:
    """A peer that always does all of the work."""
    return Peer(name, lambda _: clock(call))


@dataclass(frozen=True)
class Timing:
    """Seconds for the whole work: median and best of the rounds, and the part of the work that was done."""

    peer: str
    seconds: float
    best: float
    rounds: int
    part: float = 1.0
    units: str = ""

    @property
    def how(self) -> str:
        """How it was measured, in words."""
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
    """Growing parts of the work, up to all of it or to the largest that keeps within the cap; two at least."""
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
    """Seconds of the whole work, along the line through the last two parts, which leaves the cost of a call alone."""
    last = probes[-1]
    if last.amount == size:
        return last.seconds
    if len(probes) > 1 and last.seconds > probes[-2].seconds:
        slope = (last.seconds - probes[-2].seconds) / (last.amount - probes[-2].amount)
        return last.seconds + slope * (size - last.amount)
    return last.seconds * size / last.amount


def measure(peers: list[Peer], *, rounds: int, cap: float) -> list[Timing]:
    """Time all peers in alternated rounds; one for which the rounds would pass `cap` seconds once, on a part."""
    taken: dict[str, list[float]] = {}
    parts: dict[str, float] = {}
    for peer in peers:
        probes = _find_part(peer, cap)
        last = probes[-1]
        parts[peer.name] = last.amount / peer.size
        # The probe of a fast peer was its warm-up, and is thrown away.
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
