"""Every entry point of the kernel rejects invalid arguments.

Each case is a valid call. Its arguments are changed one at a time; the kernel must then raise a TypeError or a
ValueError, or return the same results as the valid call. Sanitizers detect reads and writes outside arrays.
"""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

pytestmark = [pytest.mark.tsan, pytest.mark.asan, pytest.mark.kernel]

N_ROWS, N_FEATURES, N_TREES, N_NODES = 40, 3, 2, 8
TYPES = ("bool", "uint8", "int32", "uint32", "int64", "uint64", "float32", "float64", "complex128", "object", "S8")
NO_ARRAYS = (None, "text", 7, 1.5, object(), (), [], {}, [0, 1], b"12345678", np.float64(1.0))
# Arguments for which other numbers, or other negative numbers, are valid as well.
FREE, FREE_IF_NEGATIVE = ("bits", "factors", "first", "seeds", "n_draws"), ("group_of", "node_set")


@dataclass
class Part:
    """A kernel object; its arguments are changed like all others."""

    name: str
    arguments: dict[str, Any]


@dataclass
class Case:
    """A valid call. A path leads to an argument, or to an item within it."""

    name: str
    arguments: dict[str, Any]
    outputs: tuple[str, ...]
    returned: Any = None


def make(given):
    from truewood._engines import _kernel

    if isinstance(given, Part):
        function = _kernel
        for name in given.name.split("."):
            function = getattr(function, name)
        return function(**{name: make(value) for name, value in given.arguments.items()})
    if isinstance(given, list | tuple) and not isinstance(given, str):
        return type(given)(make(value) for value in given)
    return given


def call(case):
    """Make the call, and return the contents of all arrays after it, by path."""
    from truewood._engines import _kernel

    arguments = {name: make(value) for name, value in case.arguments.items()}
    case.returned = getattr(_kernel, case.name)(**arguments)
    return {path: np.array(value) for path, value in list_leaves(case.arguments) if isinstance(value, np.ndarray)}


def list_leaves(given, path=()):
    if isinstance(given, Part):
        given = given.arguments
    if isinstance(given, dict):
        inner = given.items()
    elif isinstance(given, list | tuple):
        inner = enumerate(given)
    else:
        yield path, given
        return
    for name, value in inner:
        yield from list_leaves(value, (*path, name))


def put(given, path, value):
    """Return the arguments with another value at a path."""
    if not path:
        return value
    if isinstance(given, Part):
        return Part(given.name, put(given.arguments, path, value))
    if isinstance(given, dict):
        return {name: put(old, path[1:], value) if name == path[0] else old for name, old in given.items()}
    return type(given)(put(old, path[1:], value) if k == path[0] else old for k, old in enumerate(given))


def random():
    return np.random.default_rng(0)


def draw_values():
    return random().integers(0, 6, (N_ROWS, N_FEATURES)).astype(np.float32)


def lay_sparse():
    values = draw_values()
    rows, columns = np.nonzero(values)
    indptr = np.searchsorted(rows, np.arange(N_ROWS + 1)).astype(np.int64)
    return values[rows, columns].astype(np.float64), columns.astype(np.int32), indptr, 0.0


def forest(n_columns=5, *, with_sets=False, column=None):
    nodes = Part(
        "NodeArrays",
        {
            "feature": np.array([0, -1, -1, 1, -1, 2, -1, -1], dtype=np.int32),
            "threshold": np.array([2.0, 0, 0, 1.5, 0, 3.0, 0, 0]),
            "left": np.array([1, -1, -1, 4, -1, 6, -1, -1], dtype=np.int32),
            "right": np.array([2, -1, -1, 5, -1, 7, -1, -1], dtype=np.int32),
            "missing_left": np.array([1, 0, 0, 0, 0, 1, 0, 0], dtype=bool),
            "weight": np.array([10.0, 4, 6, 10, 3, 7, 2, 5]),
            "value": random().random((N_NODES, n_columns)),
        },
    )
    sets = Part(
        "CategorySets",
        {
            "node_set": np.array([0, -1, -1, -1, -1, 1, -1, -1], dtype=np.int32),
            "offset": np.array([0, 1, 2], dtype=np.int64),
            "bits": np.array([0b010110, 0b101001], dtype=np.uint32),
        },
    )
    arguments = {"nodes": nodes, "offset": np.array([0, 3, 8], dtype=np.int64)}
    return Part("Forest.of_ensemble", {**arguments, "categories": sets if with_sets else None, "column": column})


def forest_in_place(n_columns=5):
    whole, trees = forest(n_columns).arguments["nodes"].arguments, []
    for first, end in ((0, 3), (3, 8)):
        parts = {name: array[first:end].copy() for name, array in whole.items()}
        for name in ("left", "right"):
            parts[name] = np.where(parts[name] < 0, -1, parts[name] - first).astype(np.int64)
        trees.append(tuple(parts.values()))
    return Part("Forest.of_trees", {"trees": trees})


def one_tree():
    whole = forest().arguments
    arrays = {name: array[3:] for name, array in whole["nodes"].arguments.items()}
    children = {name: np.where(arrays[name] < 0, -1, arrays[name] - 3).astype(np.int32) for name in ("left", "right")}
    nodes = Part("NodeArrays", {**arrays, **children})
    return Part("Forest.of_ensemble", {**whole, "nodes": nodes, "offset": np.array([0, 5], dtype=np.int64)})


def classes():
    """Make a target of two outputs with two and three classes."""
    codes = np.column_stack([random().integers(0, n, N_ROWS) for n in (2, 3)]).astype(np.int32)
    return Part(
        "Target",
        {
            "codes": codes,
            "numbers": None,
            "columns": np.array([0, 2, 5], dtype=np.int64),
            "row_weight": random().random(N_ROWS),
            "origin": np.zeros(5),
            "largest": np.ones(5),
        },
    )


def numbers(n_columns=1):
    """Make a target of three numbers per row; trees predict `n_columns` of them."""
    return Part(
        "Target",
        {
            "codes": None,
            "numbers": random().standard_normal((N_ROWS, 3)),
            "columns": np.arange(n_columns + 1, dtype=np.int64),
            "row_weight": random().random(N_ROWS),
            "origin": np.zeros(n_columns),
            "largest": np.ones(n_columns),
        },
    )


def table(X=None, *, has_missing=False):
    X = draw_values() if X is None else X
    return Part("Table", {"X": X, "has_missing": has_missing, "n_features": N_FEATURES})


def terms(target, n_columns):
    with_squares = target.arguments["codes"] is None
    return Part(
        "RowTerms",
        {
            "linear": random().random((N_NODES, n_columns)),
            "square": random().random(N_NODES) if with_squares else None,
            "constant": random().random(N_NODES) if with_squares else None,
        },
    )


def list_rows():
    index = np.concatenate([random().permutation(N_ROWS)[:n] for n in (25, 30)])
    return Part("RowLists", {"index": index, "offset": np.array([0, 25, 55], dtype=np.int64)})


def find_leaves_of():
    from truewood._engines import _kernel

    leaves = np.zeros(55, dtype=np.int32)
    _kernel.find_leaves(make(forest()), make(table()), make(list_rows()), 1, leaves)
    return leaves


def find_leaves(X, *, with_sets):
    arguments = {
        "forest": forest(with_sets=with_sets),
        "table": table(X),
        "rows": list_rows(),
        "n_threads": 2,
        "leaves": np.zeros(55, dtype=np.int32),
    }
    return Case("find_leaves", arguments, ("leaves",))


def find_swapped_leaves():
    arguments = {
        "forest": one_tree(),
        "table": table(has_missing=True),
        "index": random().permutation(N_ROWS),
        "donors": random().permutation(N_ROWS)[::-1].copy(),
        "leaves": np.zeros((N_ROWS, N_FEATURES), dtype=np.int32),
    }
    return Case("find_swapped_leaves", arguments, ("leaves",))


def add_sobol_projection(target, n_columns):
    every = {
        "index": np.concatenate([np.arange(N_ROWS)] * 2),
        "offset": np.array([0, N_ROWS, 2 * N_ROWS], dtype=np.int64),
    }
    arguments = {
        "forest": forest(n_columns),
        "table": table(),
        "target": target,
        "rows": Part(
            "ProjectionRows",
            {
                "in_bag": list_rows(),
                "in_bag_weight": 1.0 + random().random(55),
                "evaluation": Part("RowLists", every),
                "prediction": random().random((2 * N_ROWS, n_columns)),
            },
        ),
        "tree_weight": np.array([1.0, 2.0]),
        "group_of": np.array([0, 1, 0], dtype=np.int32),
        "n_threads": 2,
        "out": np.zeros((N_ROWS, 2, n_columns)),
    }
    return Case("add_sobol_projection", arguments, ("out",))


def list_oob_rows(dtype):
    arguments = {"bag": random().integers(0, 9, 12).astype(dtype), "oob_rows": np.zeros(9, dtype=np.int64)}
    return Case("list_oob_rows", arguments, ("oob_rows",))


def sum_leaves(target, n_columns, n_sums, column=None):
    arguments = {
        "forest": forest(n_columns, column=column),
        "leaves": find_leaves_of(),
        "rows": list_rows(),
        "target": target,
        "sums": np.zeros((N_NODES, n_sums)),
    }
    return Case("sum_leaves", arguments, ("sums",))


def add_path_influence(target, n_columns, column=None):
    arguments = {
        "forest": forest(column=column),
        "parent": np.array([0, 0, 0, 3, 3, 3, 5, 5], dtype=np.int64),
        "leaves": find_leaves_of(),
        "rows": list_rows(),
        "weight": random().random(55),
        "target": target,
        "terms": terms(target, n_columns),
        "out": np.zeros((N_ROWS, N_FEATURES)),
    }
    return Case("add_path_influence", arguments, ("out",))


BY_TREE = ("split_weight", "skipped_weight", "evaluation_weight", "evaluation_impurity")
RESULTS = ("scores", "mdi", "counted_mdi", "magnitude", *BY_TREE)


def make_scores(n_outputs):
    shapes = [(N_TREES, N_FEATURES, n_outputs)] * 3 + [(N_TREES, N_FEATURES)] + [(N_TREES,)] * 4
    return Part("Scores", {name: np.zeros(shape) for name, shape in zip(RESULTS, shapes, strict=True)})


def criterion(formula, *, skips=True, scale=2.0, is_additive=False):
    return Part("SplitCriterion", {"formula": formula, "skips": skips, "scale": scale, "is_additive": is_additive})


def score_trees(trees, target, rows, *, with_inbag, X=None, n_outputs=2, formula="ufi", n_asked=N_ROWS):
    influence = {
        "eval_influence": np.zeros((n_asked, N_FEATURES)),
        "inbag_influence": np.zeros((n_asked, N_FEATURES)) if with_inbag else None,
        "bags": np.zeros((1, n_asked), dtype=np.float32) if with_inbag else None,
        "first": N_ROWS - n_asked,
        "tree_weight": np.array([1.0, 2.0]),
    }
    arguments = {
        "forest": trees,
        "table": table(X),
        "target": target,
        "rows": rows,
        "criterion": criterion(formula, is_additive=trees.arguments.get("column") is not None),
        "n_threads": 2,
        "scores": make_scores(n_outputs),
        "influence": Part("Influence", influence),
    }
    return Case("score_trees_with_influence", arguments, (*RESULTS, "eval_influence", "inbag_influence", "bags"))


def add_residuals(trees, target, rows, n_columns):
    arguments = {
        "forest": trees,
        "table": table(),
        "target": target,
        "rows": rows,
        "criterion": criterion("ufi_centered", is_additive=False),
        "residual": random().random((N_ROWS, n_columns, N_FEATURES)),
        "tree_weight": np.array([1.0, 2.0]),
        "n_threads": 2,
        "by_row": np.zeros((N_ROWS, N_FEATURES)),
        "by_tree": np.zeros((N_TREES, N_FEATURES)),
    }
    return Case("add_residuals", arguments, ("by_row", "by_tree"))


def without_influence(case):
    arguments = {name: value for name, value in case.arguments.items() if name != "influence"}
    return Case("score_trees", arguments, RESULTS)


def every_row():
    return Part("TreeRows.every_row", {})


def draw_bags():
    return [random().integers(0, N_ROWS, 30) for _ in range(N_TREES)]


def make_bags():
    return Part("TreeRows.of_bags", {"bags": draw_bags()})


def make_lists(*, with_weights=True, with_inbag=True):
    weights = [np.bincount(bag, minlength=N_ROWS).astype(np.float64) for bag in draw_bags()]
    lists = {
        "rows": [np.flatnonzero(weight == 0) for weight in weights],
        "evaluation_weight": [(weight == 0).astype(np.float64) for weight in weights] if with_weights else None,
        "inbag_weight": weights if with_weights and with_inbag else None,
    }
    return Part("TreeRows.of_lists", lists)


def lay_out():
    arguments = {"forest": forest(with_sets=True), "n_features": N_FEATURES, "n_threads": 2}
    outputs = {"nodes": np.zeros((N_NODES, 16), dtype=np.uint8), "place": np.zeros(N_NODES, dtype=np.int32)}
    return Case("lay_out", {**arguments, **outputs}, tuple(outputs))


def score_sums(target, n_columns, n_outputs, n_terms, formula="ufi_centered", *, is_additive=False):
    arguments = {
        "forest": forest(n_columns),
        "n_features": N_FEATURES,
        "target": target,
        "criterion": criterion(formula, skips=False, scale=1.0, is_additive=is_additive),
        "n_threads": 2,
        "leaf_sums": random().random((N_NODES, 1 + n_columns * (1 if target.arguments["numbers"] is None else 2))),
        "scores": make_scores(n_outputs),
        "terms": np.zeros((N_NODES, 2 * n_terms)),
    }
    return Case("score_sums", arguments, (*RESULTS, "terms"))


def sum_nodes(target, n_columns, n_sums, column=None):
    arguments = {
        "forest": forest(n_columns, column=column),
        "table": table(lay_sparse()),
        "target": target,
        "n_threads": 2,
        "sums": np.zeros((N_NODES, n_sums)),
    }
    return Case("sum_nodes", arguments, ("sums",))


def add_influence(target, n_columns, column=None):
    arguments = {
        "forest": forest(n_columns, column=column),
        "table": table(),
        "target": target,
        "terms": terms(target, n_columns),
        "tree_weight": np.array([1.0, 2.0]),
        "n_threads": 2,
        "eval_influence": np.zeros((N_ROWS, N_FEATURES)),
    }
    return Case("add_influence", arguments, ("eval_influence",))


def sum_row_products(*, with_bags):
    n_bags = 2 if with_bags else 0
    influence = {
        "eval_influence": random().random((N_ROWS, N_FEATURES)),
        "inbag_influence": random().random((N_ROWS, N_FEATURES)) if with_bags else None,
        "is_scoring": random().random(N_ROWS) < 0.7,
        "total_weight": 2.0,
        "mean": random().random(N_FEATURES),
        "bags": random().integers(0, 3, (n_bags, N_ROWS)).astype(np.float32) if with_bags else None,
    }
    arguments = {
        "influence": Part("InfluenceRows", influence),
        "n_threads": 2,
        "products": np.zeros((4, N_FEATURES)),
        "totals": np.zeros(3),
        "K": np.zeros((n_bags, N_FEATURES)),
        "L": np.zeros((n_bags, N_FEATURES)),
        "d_d": np.zeros(n_bags),
    }
    return Case("sum_row_products", arguments, ("products", "totals", "K", "L", "d_d"))


def count_rows(dtype):
    arguments = {"listed": random().integers(0, N_ROWS, 60).astype(dtype), "counts": np.zeros(N_ROWS)}
    return Case("count_rows", arguments, ("counts",))


def hash_rows(X):
    factors = random().integers(0, 1 << 64, (N_FEATURES, 2), dtype=np.uint64)
    arguments = {"table": table(X), "factors": factors, "n_threads": 2, "hashes": np.zeros(N_ROWS, dtype=np.uint64)}
    return Case("hash_rows", arguments, ("hashes",))


def find_neighbors():
    arguments = {
        "table": table(),
        "columns": np.array([2, 0]),
        "labels": random().integers(0, 2, N_ROWS).astype(float),
        "tested": np.array([0, 5, 39]),
        "n_threads": 2,
        "nearest": np.zeros((3, 4), dtype=np.int64),
        "n_found": np.zeros(3, dtype=np.int64),
        "spread": np.zeros((3, 2)),
        "largest": np.zeros(3),
    }
    return Case("find_neighbors", arguments, ("nearest", "n_found", "spread", "largest"))


def columns():
    return np.array([2, 1], dtype=np.int32)


def seeds():
    return Part("TreeRows.of_seeds", {"seeds": np.array([5, 6], dtype=np.uint32), "n_draws": 30})


CASES = {
    "find_leaves": lambda: find_leaves(draw_values(), with_sets=True),
    "find_leaves, sparse": lambda: find_leaves(lay_sparse(), with_sets=False),
    "find_swapped_leaves": find_swapped_leaves,
    "add_sobol_projection, classes": lambda: add_sobol_projection(classes(), 5),
    "add_sobol_projection, numbers": lambda: add_sobol_projection(numbers(2), 2),
    "add_residuals, seeds": lambda: add_residuals(forest(), classes(), seeds(), 5),
    "add_residuals, lists": lambda: add_residuals(forest(3), numbers(3), make_lists(with_inbag=False), 3),
    "list_oob_rows, int32": lambda: list_oob_rows(np.int32),
    "list_oob_rows, int64": lambda: list_oob_rows(np.int64),
    "sum_leaves, classes": lambda: sum_leaves(classes(), 5, 6),
    "sum_leaves, numbers": lambda: sum_leaves(numbers(), 1, 3, columns()),
    "add_path_influence, classes": lambda: add_path_influence(classes(), 5),
    "add_path_influence, numbers": lambda: add_path_influence(numbers(), 1, columns()),
    "score_trees, every row": lambda: score_trees(
        forest(1, column=columns()), numbers(), every_row(), with_inbag=False, n_outputs=1, formula="ufi_centered"
    ),
    "score_trees, seeds": lambda: score_trees(forest(), classes(), seeds(), with_inbag=True),
    "score_trees, bags": lambda: score_trees(
        forest_in_place(), classes(), make_bags(), with_inbag=True, formula="ufi_centered"
    ),
    "score_trees, some rows": lambda: score_trees(forest(), classes(), make_bags(), with_inbag=True, n_asked=20),
    "score_trees, lists": lambda: score_trees(
        forest(3), numbers(3), make_lists(), with_inbag=True, X=lay_sparse(), n_outputs=3
    ),
    "score_trees, no influence": lambda: without_influence(
        score_trees(forest(), classes(), make_lists(with_weights=False), with_inbag=True)
    ),
    "count_rows, int32": lambda: count_rows(np.int32),
    "count_rows, int64": lambda: count_rows(np.int64),
    "find_neighbors": find_neighbors,
    "hash_rows": lambda: hash_rows(draw_values()),
    "hash_rows, sparse": lambda: hash_rows(lay_sparse()),
    "lay_out": lay_out,
    "score_sums, classes": lambda: score_sums(classes(), 5, 2, 5),
    "score_sums, numbers": lambda: score_sums(numbers(), 1, 1, 3),
    "sum_nodes, classes": lambda: sum_nodes(classes(), 5, 6),
    "sum_nodes, numbers": lambda: sum_nodes(numbers(), 1, 3, columns()),
    "sum_nodes, no squares": lambda: sum_nodes(numbers(), 1, 2, columns()),
    "add_influence, classes": lambda: add_influence(classes(), 5),
    "add_influence, numbers": lambda: add_influence(numbers(), 1, columns()),
    "sum_row_products": lambda: sum_row_products(with_bags=False),
    "sum_row_products, bags": lambda: sum_row_products(with_bags=True),
}


def vary_array(array):
    """Iterate over the same numbers in other arrays, arrays of other lengths, and values that are not arrays."""
    for dtype in TYPES:
        if array.dtype != dtype:
            yield f"of {dtype}", array.astype(dtype)
    swapped = array.dtype.newbyteorder()
    if swapped != array.dtype:
        yield "of the other byte order", array.astype(swapped)
        yield "of the other byte order, without a swap", array.copy().view(swapped)
    yield "in Fortran order", np.array(array, order="F")
    for axis, n in enumerate(array.shape):
        yield f"every second along axis {axis}", np.repeat(array, 2, axis).swapaxes(0, axis)[::2].swapaxes(0, axis)
        yield f"backwards along axis {axis}", np.flip(np.flip(array, axis).copy(), axis)
        for other in {0, n // 2, n - 1, n + 1, 2 * n} - {n, -1}:
            yield f"{other} along axis {axis}", np.take(array, np.arange(other if n else 0) % max(n, 1), axis)
    unaligned = np.zeros(array.nbytes + 1, dtype=np.uint8)[1:].view(array.dtype).reshape(array.shape)
    unaligned[...] = array
    yield "unaligned", unaligned
    yield "with an axis before", array[np.newaxis].copy()
    yield "with an axis behind", array[..., np.newaxis].copy()
    yield "with other axes", array.flatten() if array.ndim > 1 else array[:1].copy().reshape(-1)[:1].squeeze()
    yield "of a subclass", array.copy().view(np.matrix if array.ndim == 2 else np.recarray)
    yield "as a list", array.tolist()
    yield "as a buffer", memoryview(array.copy())
    if array.dtype == bool:
        yield "with another byte for True", (array * np.uint8(2)).view(bool)
    for other in NO_ARRAYS:
        yield f"{other!r}", other


def vary_numbers(name, array):
    """Iterate over arrays with rows, nodes, columns, classes or sets that do not exist."""
    limits = np.iinfo(array.dtype)
    for number in (limits.max, limits.max // 2, *((-1, limits.min, limits.min // 2) if limits.min < 0 else ())):
        if name in FREE or (name in FREE_IF_NEGATIVE and number < 0):
            continue
        for place in sorted({0, array.size // 2, array.size - 1}):
            changed = array.copy()
            changed.flat[place] = number
            yield f"with {number} at {place}", changed


def vary_scalar(name, value):
    yield from ((repr(other), other) for other in ("text", None, object(), [1], np.zeros(2)))
    if isinstance(value, int):
        others = (-1, 2**64) if name in FREE else (-1, 0, value - 1, value + 1, 2 * value, 2**31, 2**62, 2**64, 1.5)
        yield from ((repr(other), other) for other in others)
    if isinstance(value, str):
        yield from ((repr(other), other) for other in ("", "loss_oob"))


def vary(name, value, *, is_output):
    if isinstance(value, np.ndarray):
        yield from vary_array(value)
        if value.dtype.kind in "iu" and value.size and not is_output:
            yield from vary_numbers(name, value)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield from vary_scalar(name, value)
    elif value is None:
        yield from ((repr(other), other) for other in ("text", 7, np.zeros(3), np.zeros((3, 3), dtype=np.int32)))


# Axes of any length, because no other argument determines it.
FREE_AXES = {
    ("count_rows", "counts"): 0,
    ("count_rows", "listed"): 0,
    ("find_neighbors", "nearest"): 1,
    ("list_oob_rows", "bag"): 0,
    ("list_oob_rows", "oob_rows"): 0,
    ("add_sobol_projection", "out"): 1,
    ("add_path_influence", "out"): 1,
    ("sum_nodes", "sums"): 1,
    ("score_sums", "terms"): 1,
    ("score_trees", "rows"): 0,
    ("add_residuals", "rows"): 0,
    ("score_trees_with_influence", "eval_influence"): 0,
    ("score_trees_with_influence", "bags"): 0,
    ("score_trees_with_influence", "rows"): 0,
}
OPTIONS = ("row_weight", "tree_weight", "column", "categories", "bags")


def find_name(path):
    """Return the name of the argument that a path leads to; items of a list have the name of the list."""
    return next(part for part in reversed(path) if isinstance(part, str))


def asks_for_something_else(case, path, old, new):
    """Whether a call with this value is valid as well: without an option, or with another number of rows or results."""
    if new is None:
        return path[-1] in OPTIONS
    if not isinstance(old, np.ndarray) or not isinstance(new, np.ndarray) or old.dtype != new.dtype:
        return False
    axis = FREE_AXES.get((case.name, find_name(path)))
    if axis is None or old.ndim != new.ndim:
        return False
    return np.delete(old.shape, axis).tolist() == np.delete(new.shape, axis).tolist() and old.shape != new.shape


def compare(case, expected, path, value):
    """Return the problem of a call with another value at a path; None if it is rejected or has the same results."""
    returned, outputs = case.returned, case.outputs
    case.arguments = put(case.arguments, path, value)
    try:
        found = call(case)
    except (TypeError, ValueError):
        return None
    is_input = path[-1] not in outputs
    different = [
        "/".join(map(str, other))
        for other, array in expected.items()
        if not (is_input and other == path) and not np.array_equal(found.get(other), array, equal_nan=True)
    ]
    return f"{different or case.returned} differs" if different or case.returned != returned else None


@pytest.mark.parametrize("name", CASES)
def test_invalid_arguments_are_rejected(name):
    expected, problems = call(valid := CASES[name]()), []
    assert any(array.any() for path, array in expected.items() if path[-1] in valid.outputs)
    for path, value in list_leaves(CASES[name]().arguments):
        for what, other in vary(find_name(path), value, is_output=path[-1] in valid.outputs):
            case = CASES[name]()
            case.returned = valid.returned
            problem = compare(case, expected, path, other)
            if problem is not None and not asks_for_something_else(case, path, value, other):
                problems.append(f"{path} {what}: {problem}")
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("name", CASES)
def test_read_only_arrays_are_read_and_not_written(name):
    expected, valid = call(CASES[name]()), CASES[name]()
    for path, value in list_leaves(valid.arguments):
        if not isinstance(value, np.ndarray):
            continue
        case, frozen = CASES[name](), value.copy()
        frozen.setflags(write=False)
        case.arguments = put(case.arguments, path, frozen)
        if path[-1] in valid.outputs:
            with pytest.raises(ValueError, match=rf"{path[-1]}.*read-only"):
                call(case)
            continue
        for other, array in call(case).items():
            assert_array_equal(array, expected[other], err_msg=f"{path}: {other}")


def list_other_parts(part):
    """Iterate over other trees and targets, each valid by itself."""
    if part.name == "Target":
        yield from (classes(), *map(numbers, (1, 2, 3)), forest())
        for n in (0, 1, 39, 41, 80):
            arguments = {name: resize(given, n) for name, given in part.arguments.items()}
            yield Part(part.name, arguments)
        return
    if not part.name.startswith("Forest"):
        yield from (forest(), classes(), None)
        for n in (0, 1, 39, 41, 80):
            yield Part(part.name, {name: resize(given, n) for name, given in part.arguments.items()})
        return
    for n_columns in (1, 2, 3, 5):
        yield from (forest(n_columns), forest(n_columns, with_sets=True), forest_in_place(n_columns))
    yield from (one_tree(), Part("Forest.of_trees", {"trees": forest_in_place().arguments["trees"][1:]}))
    yield from (Part("Forest.of_trees", {"trees": []}), classes(), None)


def resize(given, n):
    return (
        given if not isinstance(given, np.ndarray) or len(given) != N_ROWS else np.resize(given, (n, *given.shape[1:]))
    )


@pytest.mark.parametrize("name", CASES)
def test_trees_and_targets_of_another_size_are_safe(name):
    for argument, part in CASES[name]().arguments.items():
        for other in list_other_parts(part) if isinstance(part, Part) else ():
            case = CASES[name]()
            case.arguments[argument] = other
            before = {
                path: np.array(value) for path, value in list_leaves(case.arguments) if path[-1] not in case.outputs
            }
            with suppress(TypeError, ValueError):
                call(case)
            for path, value in list_leaves(case.arguments):
                if path in before:
                    assert_array_equal(value, before[path], err_msg=f"{path}")


def refused(name, **changed):
    """Return the error message of a call with changed arguments."""
    case = CASES[name]()
    for path, _ in list(list_leaves(case.arguments)):
        if path[-1] in changed:
            case.arguments = put(case.arguments, path, changed[path[-1]])
    case.arguments |= {argument: value for argument, value in changed.items() if argument in case.arguments}
    with pytest.raises((TypeError, ValueError)) as raised:
        call(case)
    return str(raised.value)


def test_messages_have_argument_expectation_and_value():
    def has(message, *facts):
        return all(fact in message for fact in facts)

    bag, oob_rows = np.zeros(3, dtype=np.int64), np.zeros(9, dtype=np.int64)
    of_bags = "list_oob_rows, int64"
    assert has(refused(of_bags, bag=bag.astype(float)), "bag", "int64", "(n,)", "float64")
    assert has(refused(of_bags, bag=bag.astype(">i8")), "bag", "int64", ">i8")
    assert has(refused(of_bags, bag=None), "bag", "NoneType")
    assert has(refused(of_bags, bag=bag[::2]), "bag", "C-contiguous")
    assert has(refused(of_bags, oob_rows=oob_rows[:, np.newaxis]), "oob_rows", "(n,)", "(9, 1)")
    assert has(refused("find_leaves", leaves=np.zeros(7, dtype=np.int32)), "leaves", "(55,)", "(7,)")
    assert has(refused("find_leaves", X=draw_values()[:, :2].copy()), "X", "(n, 3)", "(40, 2)")
    assert has(refused("find_leaves", X=draw_values().astype(int)), "X", "float32 or float64", "int64")
    index = list_rows().arguments["index"]
    index[4] = N_ROWS
    assert has(refused("find_leaves", index=index), "index", "40 at 4")
    assert has(
        refused("find_leaves", rows=Part("RowLists", {"index": index, "offset": np.array([0, 60, 55])})),
        "offset",
        "from 0 to 55",
        "60 at 1",
    )
    target = classes()
    target.arguments["codes"][5, 1] = 3
    assert has(refused("add_path_influence, classes", target=target), "codes", "3 at 5")


@pytest.mark.parametrize(("n_draws", "n_rows"), [(1, 0), (5, 2**32 + 1), (5, 2**40), (-1, 5), (2**63, 5), (1, -1)])
def test_bags_of_too_few_or_too_many_rows_are_refused(n_draws, n_rows):
    from truewood._engines import _kernel

    with pytest.raises((TypeError, ValueError)):
        _kernel.draw_bag(0, n_draws, n_rows)


def test_rows_beyond_31_bits_are_drawn_as_numpy_does():
    from truewood._engines import _kernel

    for n_rows in (2**31, 2**31 + 5, 3 * 2**30, 2**32 - 1, 2**32):
        expected = np.random.RandomState(3).randint(0, n_rows, 50, dtype=np.int64)
        assert_array_equal(_kernel.draw_bag(3, 50, n_rows), expected)
    assert expected.max() > 2**31


def test_a_formula_of_squares_is_refused_for_trees_that_have_none():
    assert "ufi_centered" in refused("score_trees, every row", formula="ufi")
    assert "ufi_centered" in refused("score_sums, numbers", formula="ufi", is_additive=True)


def test_a_table_without_columns_has_nothing_to_score():
    case = CASES["score_trees, every row"]()
    leaf = tuple(part[:1] for part in forest_in_place(1).arguments["trees"][0])
    leaf = (*leaf[:2], np.array([-1]), np.array([-1]), *leaf[4:])
    arguments = case.arguments
    arguments["forest"] = Part("Forest.of_trees", {"trees": [leaf] * N_TREES})
    arguments["table"].arguments |= {"X": np.zeros((N_ROWS, 0), dtype=np.float32), "n_features": 0}
    arguments["influence"].arguments["eval_influence"] = np.zeros((N_ROWS, 0))
    scores = arguments["scores"].arguments
    scores |= {name: np.zeros((N_TREES, 0, 1)) for name in RESULTS[:3]} | {"magnitude": np.zeros((N_TREES, 0))}
    call(case)
    weight = arguments["target"].arguments["row_weight"]
    np.testing.assert_allclose(scores["evaluation_weight"], weight.sum(), rtol=1e-12)


def test_more_nodes_than_32_bits_can_number_are_refused():
    tree = [np.broadcast_to(part[-1:], (2**31, *part.shape[1:])) for part in forest_in_place().arguments["trees"][0]]
    with pytest.raises(ValueError, match=r"2\^31"):
        make(Part("Forest.of_trees", {"trees": [tuple(tree)]}))


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs an interval timer")
def test_arrays_are_held_until_the_call_is_over():
    from truewood._engines import _kernel

    n_rows, n_times = 100_000, 50
    X = random().random((n_rows, N_FEATURES), dtype=np.float32) * 6
    target = random().standard_normal((n_rows, 1))
    trees = Part("Forest.of_trees", {"trees": forest_in_place(1).arguments["trees"] * n_times})
    rows = [random().permutation(n_rows) for _ in range(2 * n_times)]

    def score_lists(rows):
        shapes = [(2 * n_times, N_FEATURES, 1)] * 3 + [(2 * n_times, N_FEATURES)] + [(2 * n_times,)] * 4
        found = [np.zeros(shape) for shape in shapes]
        _kernel.score_trees(
            forest=make(trees),
            table=_kernel.Table(X, False, N_FEATURES),
            target=_kernel.Target(None, target, np.array([0, 1]), None, np.zeros(1), np.ones(1)),
            rows=_kernel.TreeRows.of_lists(rows, None, None),
            criterion=_kernel.SplitCriterion("ufi", True, 1.0, False),
            n_threads=1,
            scores=_kernel.Scores(*found),
        )
        return found

    expected, n_holders = score_lists(rows), sys.getrefcount(rows[-1])

    def empty_list(_signal, _frame):
        if rows and sys.getrefcount(rows[-1]) > n_holders:  # the call has begun
            rows.clear()

    before = signal.signal(signal.SIGALRM, empty_list)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        found = score_lists(rows)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert not rows
    for part, other in zip(found, expected, strict=True):
        assert_array_equal(part, other)
