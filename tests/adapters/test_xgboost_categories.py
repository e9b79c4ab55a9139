"""Categories, as codes and in data frames, go where XGBoost sends them."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pandas as pd
import pytest

import truewood as tw
from helpers.contract import add_leaf_values, route
from helpers.xgboost_models import BASE, R, build, check_leaves, draw, link
from truewood.adapters import open_model


@pytest.mark.parametrize("name", ["partition", "onehot categories"])
@pytest.mark.parametrize("category", [-1.0, -0.5, 2.7, 8.0, 57.0, 2.0**24, 3e9, 1e38])
def test_odd_categories_go_where_the_library_sends_them(name, category, engine):
    model, rows = build(name), draw(50, seed=3)[0]
    rows[:, 4] = category
    check_leaves(model, rows, model.apply(rows))


def frame(n_rows=200, seed=0, letters="abcdefgh"):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "size": rng.standard_normal(n_rows).astype(np.float32),
            "letter": pd.Categorical(rng.choice(list(letters), n_rows)),
            "number": pd.Categorical(rng.choice([3, 5, 70], n_rows)),
            "count": rng.integers(0, 9, n_rows),
            "flag": rng.random(n_rows) < 0.5,
        }
    )
    y = table["size"] + 2.0 * table["letter"].isin(["b", "e"]) + (table["number"] == 5) + rng.standard_normal(n_rows)
    return table, y


@cache
def frame_model(onehot):
    table, y = frame()
    return R(**BASE, enable_categorical=True, max_cat_to_onehot=onehot).fit(table, y)


@pytest.mark.parametrize("onehot", [1, 100])
def test_categories_of_a_data_frame(onehot, engine):
    model, (table, _) = frame_model(onehot), frame(seed=1)
    table.loc[::7, "letter"] = np.nan
    table.loc[::5, "size"] = np.nan
    check_leaves(model, table, model.apply(table))
    assert open_model(model).table.names.tolist() == table.columns.tolist()
    raw = model.predict(table, output_margin=True)[:, np.newaxis]
    np.testing.assert_allclose(add_leaf_values(model, table) + link(model), raw, rtol=1e-6, atol=2e-6)


@pytest.mark.parametrize("onehot", [1, 100])
def test_categories_are_known_by_their_names(onehot, engine):
    model, (table, _) = frame_model(onehot), frame(seed=1)
    expected = route(model, table)
    other = table.assign(letter=table["letter"].cat.reorder_categories(list("hgfedcba")))
    np.testing.assert_array_equal(route(model, other), expected)
    check_leaves(model, other, model.apply(other))
    some = table[table["letter"].isin(list("ceh")) & (table["number"] != 3)]
    fewer = some.assign(**{name: some[name].cat.remove_unused_categories() for name in ("letter", "number")})
    np.testing.assert_array_equal(route(model, fewer), expected[some.index])
    check_leaves(model, fewer, model.apply(fewer))
    codes = table.assign(letter=table["letter"].cat.codes, number=table["number"].cat.codes).to_numpy(np.float64)
    np.testing.assert_array_equal(route(model, codes), expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"letter": pd.Categorical(["z"] * 200)}, "category not in the training set for the 1th .* column: `z`"),
        ({"letter": np.arange(200.0)}, "the: 1th feature .* should be either numeric or categorical"),
        ({"number": np.full(200, 5)}, "the: 2th feature .* should be either numeric or categorical"),
    ],
)
def test_categories_the_model_does_not_know_are_refused(change, message):
    model, (table, y) = frame_model(1), frame(seed=1)
    with pytest.raises(ValueError, match=message) as caught:
        tw.importance(model, table.assign(**change), y, rows="heldout")
    assert "\n" not in str(caught.value)
    assert re.match(r"X\b", str(caught.value))


@pytest.mark.parametrize(
    ("column", "dtype"), [(["a"] * 200, "String"), (pd.Timestamp("2020-01-01"), "Datetime"), ([()] * 200, "Object")]
)
def test_columns_that_are_neither_numbers_nor_categories_are_refused(column, dtype):
    model, (table, y) = frame_model(1), frame(seed=1)
    with pytest.raises(ValueError, match=f"'letter'.*{dtype}"):
        tw.importance(model, table.assign(letter=column), y, rows="heldout")


def test_a_frame_of_categories_for_a_model_of_codes(engine):
    table, y = frame()
    codes = table.assign(letter=table["letter"].cat.codes, number=table["number"].cat.codes).to_numpy(np.float64)
    model = R(**BASE, enable_categorical=True, feature_types=["q", "c", "c", "q", "q"], max_cat_to_onehot=1)
    model.fit(codes, y)
    np.testing.assert_array_equal(route(model, table), route(model, codes))
    check_leaves(model, table, model.apply(codes))


def test_categories_for_a_model_of_numbers_are_refused():
    table, y = frame()
    model = R(**BASE).fit(table[["size", "count"]], y)
    with pytest.raises(ValueError, match=r"'count'.*Categorical"):
        tw.importance(model, table[["size"]].assign(count=table["letter"]), y, rows="heldout")
