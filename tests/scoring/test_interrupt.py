"""Ctrl-C ends long work at once, in Python and in the kernel."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="processes of Windows get no SIGINT"),
]
# It takes some hundredths of a second; other work on the machine may delay it, and the work itself takes much longer.
SOON = 5.0

PROLOGUE = """
import numpy as np
import truewood as tw
from truewood._inputs.tables import FeatureMatrix
from truewood._inputs.target import NumberTarget
from truewood._engines.selection import get_engine
from truewood._engines.records import RowLists
from truewood._trees.node_sums import NumberTerms

def balanced(depth, n_trees):
    n_inner = 2**depth - 1
    n_nodes = 2 * n_inner + 1
    rng = np.random.default_rng(0)
    node, inner = np.arange(n_nodes), np.arange(n_nodes) < n_inner
    start = np.repeat(np.arange(n_trees) * n_nodes, n_nodes)
    is_inner, node = np.tile(inner, n_trees), np.tile(node, n_trees)
    depth_of = np.floor(np.log2(node + 1))
    return tw.TreeEnsemble(
        feature=rng.integers(0, 4, len(node)), threshold=rng.standard_normal(len(node)),
        left=np.where(is_inner, start + 2 * node + 1, -1), right=np.where(is_inner, start + 2 * node + 2, -1),
        missing_left=np.zeros(len(node), dtype=bool), weight=0.5**depth_of, value=rng.standard_normal((len(node), 1)),
        offset=np.arange(n_trees + 1) * n_nodes, root_impurity=np.ones(n_trees), n_features=4, kind=tw.TargetKind(),
    )

def chain(n_splits):
    n_nodes, node = 2 * n_splits + 1, np.arange(2 * n_splits + 1)
    is_inner = (node % 2 == 0) & (node < 2 * n_splits)
    return tw.TreeEnsemble(
        feature=np.zeros(n_nodes, dtype=int), threshold=np.zeros(n_nodes), left=np.where(is_inner, node + 1, -1),
        right=np.where(is_inner, node + 2, -1), missing_left=np.zeros(n_nodes, dtype=bool), weight=np.ones(n_nodes),
        value=np.zeros((n_nodes, 1)), offset=[0, n_nodes], root_impurity=[1.0], n_features=4, kind=tw.TargetKind(),
    )

rng = np.random.default_rng(0)
X = np.abs(rng.standard_normal((1_000_000, 4), dtype=np.float32))
y = rng.standard_normal(len(X))
matrix, every = FeatureMatrix(X, np.array(list("abcd")), False), RowLists.join([np.arange(len(X))])
"""
EPILOGUE = """
print("begins", flush=True)
try:
    work()
    print("came to its end")
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
ONE_CALL = {
    "find_leaves": "get_engine().find_leaves(deep, matrix, every)",
    "find_swapped_leaves": "get_engine().find_swapped_leaves(deep, matrix, every.index, every.index)",
    "add_path_influence": "get_engine().add_path_influence(deep, np.full(len(X), deep.offset[-1] - 1, dtype=np.int32), "
    "every, y, NumberTarget.of_numbers(y[:, np.newaxis]), terms, np.zeros(X.shape))",
}


def interrupt(work, setting, engine):
    """Send SIGINT to a working process: it must report that soon, and then end normally."""
    script = PROLOGUE + setting + f"\nwork = lambda: {work}\n" + EPILOGUE
    environment = {**os.environ, "TRUEWOOD_ENGINE": engine}
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment) as child:
        try:
            assert child.stdout.readline() == "begins\n"
            time.sleep(0.5)
            start = time.perf_counter()
            child.send_signal(signal.SIGINT)
            assert child.stdout.readline() == "interrupted\n"
            assert time.perf_counter() - start < SOON
            assert child.wait(30) == 0  # threads of the kernel that are still at work must not break the end
        finally:
            child.kill()


@pytest.mark.kernel
@pytest.mark.parametrize("call", ONE_CALL)
def test_one_call_of_the_kernel_is_interrupted(call):
    # A million rows and thirty thousand steps each: minutes of work.
    setting = "deep = chain(30_000)\nones = np.ones(60_001)\nterms = NumberTerms(ones[:, np.newaxis], ones, ones)"
    interrupt(ONE_CALL[call], setting, "native")


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_importance_is_interrupted(n_jobs, engine):
    interrupt(f"tw.importance(trees, X, y, rows='heldout', n_jobs={n_jobs})", "trees = balanced(14, 60)", engine)
