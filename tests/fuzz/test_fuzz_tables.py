"""X, y and weights in every container, type and order of memory: the bits of a plain array, or an error of one line."""

from __future__ import annotations

import re
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeRegressor
from threadpoolctl import threadpool_limits

from helpers.fuzz_checks import FIELDS, score_everywhere
from helpers.fuzz_profiles import share

pytestmark = pytest.mark.asan

N_ROWS = 40
COLUMNS = ["a", "b", "c"]
MODELS = {
    "classes": lambda: RandomForestClassifier(3, max_depth=4, random_state=0),
    "several classes": lambda: ExtraTreesClassifier(3, max_depth=4, random_state=0),
    "number": lambda: DecisionTreeRegressor(max_depth=4, random_state=0),
    "numbers": lambda: RandomForestRegressor(3, max_depth=4, random_state=0),
    "boosted classes": lambda: HistGradientBoostingClassifier(max_iter=3, max_depth=3),
    "boosted": lambda: HistGradientBoostingRegressor(max_iter=3, max_depth=3),
}


@cache
def fit(name):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 3)).round(2)
    X[::9, 1] = np.nan
    with threadpool_limits(1):
        return MODELS[name]().fit(X, draw_y(rng, name, np.nan_to_num(X)))


def draw_y(rng, name, X):
    score = X[:, 0] + rng.standard_normal(len(X))
    codes = np.digitize(score, [-0.5, 0.5])
    codes[:3] = range(3)
    return {
        "classes": codes,
        "several classes": np.column_stack([codes, codes[::-1]]),
        "number": score,
        "numbers": np.column_stack([score, X[:, 2]]),
        "boosted classes": codes,
        "boosted": score,
    }[name]


# Each column of numbers, by what it holds; missing values come on top.
KINDS = {
    "normal": lambda rng: rng.standard_normal(N_ROWS),
    "whole": lambda rng: rng.integers(-3, 4, N_ROWS).astype(float),
    "flags": lambda rng: rng.integers(0, 2, N_ROWS).astype(float),
    "constant": lambda _rng: np.full(N_ROWS, 0.25),
    "tiny": lambda rng: rng.choice([0.0, -0.0, 1e-40, -1e-45, 5e-324], N_ROWS),
    "huge": lambda rng: rng.choice([3e38, -3e38, 1e30, 1.0], N_ROWS),
    "too large": lambda rng: rng.choice([1e300, 1.0], N_ROWS),
    "infinite": lambda rng: rng.choice([np.inf, 1.0], N_ROWS),
    "many": lambda rng: rng.permutation(N_ROWS) / 7.0,
}


def write_memmap(values):
    path = Path(tempfile.mkdtemp()) / "X"
    np.asarray(values).tofile(path)
    return np.memmap(path, dtype=values.dtype, mode="r", shape=values.shape)


def between(values):
    larger = np.zeros((2 * values.shape[0], 2 * values.shape[1]), dtype=values.dtype)
    larger[::2, ::2] = values
    return larger[::2, ::2]


def lock(values):
    locked = values.copy()
    locked.flags.writeable = False
    return locked


def nullable(values, backend):
    return pd.DataFrame(values, columns=COLUMNS).convert_dtypes(dtype_backend=backend)


TABLES = {
    "float64": lambda x: x,
    "float32": lambda x: x.astype(np.float32),
    "float16": lambda x: x.astype(np.float16),
    "longdouble": lambda x: x.astype(np.longdouble),
    "big-endian": lambda x: x.astype(">f8"),
    "int8": lambda x: np.nan_to_num(x, posinf=0, neginf=0).clip(-100, 100).astype(np.int8),
    "uint64": lambda x: np.abs(np.nan_to_num(x, posinf=0, neginf=0)).clip(0, 1e9).astype(np.uint64),
    "bool": lambda x: np.nan_to_num(x) > 0,
    "object": lambda x: x.astype(object),
    "text": lambda x: x.astype(str),
    "complex": lambda x: x.astype(complex),
    "list": lambda x: x.tolist(),
    "fortran": np.asfortranarray,
    "negative strides": lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
    "between": between,
    "read-only": lock,
    "memmap": write_memmap,
    "masked": np.ma.masked_invalid,
    "frame": lambda x: pd.DataFrame(x, columns=COLUMNS),
    "frame, own index": lambda x: pd.DataFrame(x, index=np.arange(len(x))[::-1] * 3),
    "nullable": lambda x: nullable(x, "numpy_nullable"),
    "arrow-backed": lambda x: nullable(x, "pyarrow"),
    "categorical": lambda x: pd.DataFrame(x, columns=COLUMNS).astype({"a": "category"}),
    "dates": lambda x: pd.DataFrame({"a": pd.date_range("2024", periods=len(x)), "b": x[:, 1], "c": x[:, 2]}),
    "polars": lambda x: pl.DataFrame(dict(zip(COLUMNS, x.T, strict=True))),
    "arrow": lambda x: pa.table(dict(zip(COLUMNS, x.T, strict=True))),
    "csr": sparse.csr_matrix,
    "csc": sparse.csc_array,
    "coo": sparse.coo_array,
    "one dimension": lambda x: x[:, 0],
    "narrow": lambda x: x[:, :2],
    "none": lambda x: x[:0],
}
# Numbers that differ from those that were put in, or have a type that represents fewer of them.
REFUSED = ("masked", "dates", "complex", "one dimension", "narrow", "none")
TARGETS = {
    "array": lambda y: y,
    "fortran": np.asfortranarray,
    "list": lambda y: y.tolist(),
    "reversed": lambda y: y[::-1].copy()[::-1],
    "between": lambda y: np.repeat(y, 2, axis=0)[::2],
    "frame": pd.DataFrame,
    "nullable": lambda y: pd.DataFrame(y).convert_dtypes(),
    "arrow-backed": lambda y: pd.DataFrame(y).convert_dtypes(dtype_backend="pyarrow"),
    "polars": lambda y: pl.DataFrame({f"y{k}": column for k, column in enumerate(y.T)}) if y.ndim > 1 else pl.Series(y),
    "object": lambda y: y.astype(object),
    "big-endian": lambda y: y.astype(y.dtype.newbyteorder(">")),
    "read-only": lock,
}
WEIGHTS = {
    "none": lambda _w: None,
    "list": lambda w: w.tolist(),
    "series": pd.Series,
    "float32": lambda w: w.astype(np.float32),
    "between": lambda w: np.repeat(w, 2)[::2],
    "negative": lambda w: -w,
    "nan": lambda w: np.where(w > 1, np.nan, w),
    "huge": lambda w: w * 1e307,
    "tiny": lambda w: w * 1e-307,
    "zeros": lambda w: w * 0.0,
    "two dimensions": lambda w: w[:, np.newaxis],
}


def read_plainly(table):
    """The numbers of a table as a plain array of float64, read without truewood."""
    if sparse.issparse(table):
        return table.toarray()
    if isinstance(table, pa.Table):
        table = table.to_pandas()
    if isinstance(table, pl.DataFrame):
        return table.to_numpy()
    if isinstance(table, pd.DataFrame):
        return np.column_stack([pd.to_numeric(table[name]).to_numpy(np.float64, na_value=np.nan) for name in table])
    with np.errstate(over="ignore"):
        return np.asarray(table).astype(np.float64)


@st.composite
def plans(draw):
    return {
        "model": draw(st.sampled_from(list(MODELS))),
        "table": draw(st.sampled_from(list(TABLES))),
        "columns": [draw(st.sampled_from(list(KINDS))) for _ in COLUMNS],
        "missing": draw(st.booleans()),
        "target": draw(st.sampled_from(list(TARGETS))),
        "weights": draw(st.sampled_from(["none", "none", *WEIGHTS])),
        "seed": draw(st.integers(0, 2**31 - 1)),
    }


@share(0.3)
@given(plan=plans())
def test_tables(plan):
    rng, model = np.random.default_rng(plan["seed"]), fit(plan["model"])
    X = np.column_stack([KINDS[kind](rng) for kind in plan["columns"]])
    if plan["missing"]:
        X[rng.random(X.shape) < 0.1] = np.nan
    y = draw_y(rng, plan["model"], np.nan_to_num(X.clip(-10, 10)))
    weight = rng.integers(1, 4, N_ROWS).astype(float)
    with np.errstate(over="ignore", invalid="ignore"), threadpool_limits(1):
        table, given_y, given_weight = (
            TABLES[plan["table"]](X),
            TARGETS[plan["target"]](y),
            WEIGHTS[plan["weights"]](weight),
        )
        options = {"rows": "heldout", "contributions": True, "sample_weight": given_weight}
        result = score_everywhere(model, table, given_y, **options)
        if isinstance(result, str):
            assert is_documented(plan, result.removeprefix("ValueError: "), table), result
            return
        assert plan["table"] not in REFUSED
        assert plan["weights"] not in ("negative", "nan", "huge", "tiny", "zeros", "two dimensions")
        plain_weight = None if given_weight is None else np.array(given_weight, dtype=float)
        plain = score_everywhere(model, read_plainly(table), y, **{**options, "sample_weight": plain_weight})
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(result, name), getattr(plain, name), err_msg=name)
    assert np.isfinite(result.values).all()


def is_documented(plan, message, table):
    """Whether the error describes what is wrong with this plan."""
    return (
        (plan["table"] in REFUSED and message.startswith("X "))
        or (message.startswith("sample_weight") and plan["weights"] not in ("none", "list", "series", "float32"))
        or (re.match(r"X\b.*NaN", message) and np.isnan(read_plainly(table)).any())
        or (re.match(r"X\b.*infinite", message) and has_large(table))
        or (message.startswith("X ") and plan["table"] in ("text", "object", "categorical"))
    )


def has_large(table):
    values = read_plainly(table)
    return bool((np.abs(values[~np.isnan(values)]) > np.finfo(np.float32).max).any())
