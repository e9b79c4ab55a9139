"""Many threads, processes, and threads inside processes: always the same answers."""

from __future__ import annotations

import multiprocessing
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import joblib
import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import truewood as tw
from helpers.parallel_work import score, score_in_parallel


def make(seed=0, n_rows=300):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, 4)).astype(np.float32)
    y = X[:, 0] + rng.standard_normal(n_rows)
    return RandomForestRegressor(8, max_depth=6, random_state=seed).fit(X, y), X, y


@pytest.mark.asan
@pytest.mark.tsan
def test_64_threads_at_once(engine):
    model, X, y = make()
    expected = tw.importance(model, X, y, contributions=True)
    start = threading.Barrier(64)

    def work(_number):
        start.wait(60)
        return tw.importance(model, X, y, contributions=True, n_jobs=2)

    with ThreadPoolExecutor(64) as pool:
        for result in pool.map(work, range(64)):
            np.testing.assert_array_equal(result.per_tree, expected.per_tree)
            np.testing.assert_array_equal(result.contributions, expected.contributions)


@pytest.mark.asan
@pytest.mark.filterwarnings("ignore:contributions of neighboring rows")
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_numbers_that_another_thread_changes_break_nothing(engine):
    # What is scored is then anybody's guess; that it ends, and stays within its memory, is not.
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 4)).astype(np.float32)
    y = X[:, 0] > 0
    forest = RandomForestClassifier(20, random_state=0).fit(X[:500], y[:500])
    shared, stop = X.copy(), threading.Event()

    def spoil():
        while not stop.is_set():
            shared[...] = np.nan
            shared[...] = X

    spoiler = threading.Thread(target=spoil)
    spoiler.start()
    try:
        for _ in range(20):
            try:
                tw.importance(forest, shared, y, rows="heldout", n_jobs=2)
            except ValueError as error:
                assert str(error).splitlines()  # noqa: PT017
    finally:
        stop.set()
        spoiler.join()


@pytest.mark.asan
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes(method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no {method}")
    model, X, y = make()
    expected = tw.importance(model, X, y, n_jobs=2).per_tree  # threads have been at work before the fork
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method)) as pool:
        for found in pool.map(score, [(model, X, y, 1), (model, X, y, 2)]):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_while_threads_are_at_work():
    model, X, y = make(n_rows=5000)
    expected = tw.importance(model, X, y).per_tree
    stop = threading.Event()

    def work():
        while not stop.is_set():
            tw.importance(model, X, y)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
            for found in pool.map(score, [(model, X, y, 1)] * 4):
                np.testing.assert_array_equal(found, expected)
    finally:
        stop.set()
        worker.join()


@pytest.mark.asan
@pytest.mark.parametrize("backend", ["loky", "threading", "multiprocessing"])
def test_joblib_inside_joblib(backend):
    model, X, y = make()
    expected = tw.importance(model, X, y).per_tree
    with joblib.parallel_config(backend=backend):
        nested = joblib.Parallel(n_jobs=2)(joblib.delayed(score_in_parallel)((model, X, y, 2)) for _ in range(2))
    for found in (found for each in nested for found in each):
        np.testing.assert_array_equal(found, expected)
