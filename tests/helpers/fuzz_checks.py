"""What every case has to keep: the oracle's numbers, the same bits from both engines and any number of threads, or an
error that truewood raises itself, in one line.
"""

from __future__ import annotations

import os
import traceback
import warnings
from contextlib import contextmanager

import numpy as np

import truewood as tw
from helpers.installed import has_kernel
from truewood._engines.selection import ENGINE_VARIABLE

ENGINES = ("numpy", "native") if has_kernel() else ("numpy",)
FIELDS = ("values", "per_tree", "per_output", "mdi", "share", "std_error", "p_value", "contributions")


def score_everywhere(model, X, y, **options):
    """The result, which has to be the same, bit by bit, for each engine and for one and two threads.

    Where it is an error, its type and message: the same everywhere, raised by truewood itself, in one line.
    """
    outcomes = [score(engine, n_jobs, model, X, y, options) for engine in ENGINES for n_jobs in (1, 2)]
    for outcome in outcomes[1:]:
        assert type(outcome) is type(outcomes[0]), outcomes
        if isinstance(outcome, str):
            assert outcome == outcomes[0]
            continue
        for name in FIELDS:
            np.testing.assert_array_equal(getattr(outcome, name), getattr(outcomes[0], name), err_msg=name)
    return outcomes[0]


def score(engine, n_jobs, model, X, y, options):
    with use_engine(engine), warnings.catch_warnings():
        warnings.filterwarnings("ignore", r".*max_samples=|.* of \d+ (trees|rows)", UserWarning)
        try:
            return tw.importance(model, X, y, n_jobs=n_jobs, **options)
        except (ValueError, TypeError) as error:
            problem = error
    raised_in = traceback.extract_tb(problem.__traceback__)[-1].filename
    assert f"{os.sep}truewood{os.sep}" in raised_in, problem
    assert len(str(problem).splitlines()) == 1, problem
    return f"{type(problem).__name__}: {problem}"


@contextmanager
def use_engine(name):
    before = os.environ.get(ENGINE_VARIABLE)
    os.environ[ENGINE_VARIABLE] = name
    try:
        yield
    finally:
        if before is None:
            del os.environ[ENGINE_VARIABLE]
        else:
            os.environ[ENGINE_VARIABLE] = before


def check_sizes(result, expected, sizes):
    """Scores are those of exact arithmetic but for rounding errors of what they add up, feature by feature."""
    error, allowed = np.abs(result.values - expected), 2.0**-48 * np.sqrt(result.n_rows) * sizes
    assert (error <= allowed).all(), (error, allowed, result.values, expected)
    if result.contributions is not None:
        assert (np.abs(result.contributions.sum(axis=0) - result.values) <= allowed).all()


def check_scores(result, expected, y=None):
    """Scores are the oracle's up to rounding, and contributions of rows add up to them.

    Node values of a library are no more exact than sums of numbers of the size of y, or of ones for classes; means of
    the oracle are exact.
    """
    scale = max(float(np.abs(result.mdi).max()), float(np.abs(expected).max()))
    stored = 1e-15 if y is None else 1e-13 * float((np.abs(y).max(axis=0) * np.ptp(y, axis=0)).sum())
    if result.measure == "sobol_mda":
        scale, stored = 1.0, stored / result.impurity
    np.testing.assert_allclose(result.values, expected, rtol=1e-9, atol=1e-11 * scale + stored)
    if result.contributions is not None:
        summed = result.contributions.sum(axis=0)
        np.testing.assert_allclose(summed, result.values, rtol=1e-8, atol=1e-10 * scale + stored)
