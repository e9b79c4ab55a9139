"""The experiments: data, methods and settings; one cell per setting, with many repetitions each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from truewood._paper.data import Problem, draw_adult, draw_boston, draw_five, draw_rna, draw_ten
from truewood._paper.methods import BY_Z_SCORE, PEERS, score_in_python, score_in_r

TASKS = ("classification", "regression")
RHOS = tuple(k / 10 for k in range(11))


@dataclass(frozen=True)
class Cell:
    """One setting of an experiment.

    Parameters
    ----------
    labels : dict
        What identifies this cell in tables: task, depth, rho, encoding.
    draw : callable
        ``draw(rng)`` returns the data of a repetition.
    methods : tuple of str
        Methods to run.
    trees : int
        Trees per forest.
    depth : int or None
        Maximum depth.
    mincriterion : float
        Limit on the depth of cforest.
    """

    labels: dict[str, Any]
    draw: Callable[[np.random.Generator], Problem] = field(compare=False)
    methods: tuple[str, ...]
    trees: int
    depth: int | None
    mincriterion: float = 1.28

    def key(self, seed: int, repetition: int, method: str) -> str:
        """Return the key of one result in the checkpoint."""
        labels = ",".join(f"{name}={value}" for name, value in self.labels.items())
        return f"{labels};trees={self.trees};seed={seed};repetition={repetition};{method}"

    def run(self, methods: list[str], seed: int, repetitions: list[int]) -> list[tuple[str, list[float]]]:
        """Run methods on some repetitions; results depend only on cell, seed and repetition."""
        names = ";".join(f"{name}={value}" for name, value in self.labels.items())
        generators = [np.random.default_rng([seed, repetition, *names.encode()]) for repetition in repetitions]
        problems = [self.draw(rng) for rng in generators]
        seeds = [int(rng.integers(2**31 - 1)) for rng in generators]
        results = []
        ours = [method for method in methods if method not in PEERS]
        if ours:
            for repetition, problem, own_seed in zip(repetitions, problems, seeds, strict=True):
                scores = score_in_python(problem, methods=ours, trees=self.trees, depth=self.depth, seed=own_seed)
                results += [(self.key(seed, repetition, method), scores[method]) for method in ours]
        for peer in [method for method in methods if method in PEERS]:
            listed = score_in_r(
                peer, problems, seeds=seeds, trees=self.trees, depth=self.depth, mincriterion=self.mincriterion
            )
            results += [(self.key(seed, r, peer), scores) for r, scores in zip(repetitions, listed, strict=True)]
        return results


OURS = ("SI", "UFI", "UFI centered", "MDI-oob", "permutation")


def make_cells(name: str, *, tasks: tuple[str, ...], encoding: str, trees: int | None) -> list[Cell]:
    """List the cells of an experiment, as in the paper.

    Parameters
    ----------
    name : {"bias", "ranking", "table1", "rna", "adult", "boston"}
        The experiment.
    tasks : tuple of str
        Tasks of the simulations.
    encoding : {"dummy", "ordinal"}
        Encoding of categorical features in `bias` and `ranking`.
    trees : int or None
        Trees per forest; None for the paper's number.
    """
    if name in ("bias", "ranking"):
        rhos = RHOS if name == "ranking" else (0.0,)
        return [
            Cell(
                {"task": task, "encoding": encoding, "rho": rho},
                partial(draw_five, task=task, encoding=encoding, rho=rho),
                ("SI", "UFI", "UFI centered"),
                trees or 100,
                5,
            )
            for task in tasks
            for rho in rhos
        ]
    if name == "table1":
        return [
            Cell(
                {"task": task, "depth": depth},
                partial(draw_ten, task=task),
                (*OURS, BY_Z_SCORE, *PEERS),
                trees or 100,
                depth,
                2.33 if depth == 3 else 1.28,
            )
            for depth in (3, 10)
            for task in tasks
        ]
    draw, task, n_trees = {
        "rna": (draw_rna, "classification", 100),
        "adult": (draw_adult, "classification", 20),
        "boston": (draw_boston, "regression", 100),
    }[name]
    return [Cell({"task": task}, draw, (*OURS, *PEERS), trees or n_trees, None)]
