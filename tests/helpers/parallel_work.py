"""Work for other processes, which have to import it."""

from __future__ import annotations

import joblib

import truewood as tw


def score(work):
    """Scores by tree, with threads in this process."""
    model, X, y, n_jobs = work
    return tw.importance(model, X, y, n_jobs=n_jobs).per_tree


def score_in_parallel(work):
    """The same twice, by joblib inside joblib."""
    return joblib.Parallel(n_jobs=2)(joblib.delayed(score)(work) for _ in range(2))
