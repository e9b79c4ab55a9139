"""Numbers as terminal, plots and report write them."""

from __future__ import annotations

import numpy as np
import pytest

from truewood._formatting import (
    align,
    find_unit,
    format_p_value,
    format_percent,
    format_percents,
    format_range,
    state_p_value,
)


def test_percentages_have_two_or_three_digits():
    assert [format_percent(p) for p in (100.2, 63.4, 9.96, 3.44, 0.26, 0.0012, 0)] == [
        "100%", "63%", "10%", "3.4%", "0.26%", "<0.01%", "0%",
    ]  # fmt: skip
    assert format_percents([63.44, 9.96, 3.44, 0.996, 0.26, 0.004, 0.0, -0.0, -3.44, -0.004]) == [
        "63.4", "10.0", "3.4", "1.0", "0.26", "<0.01", "0", "0", "-3.4", ">-0.01",
    ]  # fmt: skip


def test_both_ends_of_a_range_have_commas_or_neither_has():
    assert format_range(7900.0, 214_200.0) == ("7,900", "214,200")
    assert format_range(1990.0, 2010.0) == ("1990", "2010")
    assert format_range(0.5, 12_000.0) == ("0.5", "12,000")


def test_p_values_of_a_column_have_the_same_decimals():
    assert [format_p_value(p) for p in (0.3, 0.31, 0.04321, 1e-20, 1.0, np.nan)] == [
        "0.300", "0.310", "0.043", "<0.001", "1.000", "-",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("numbers", "texts", "title"),
    [
        ([0.2431, -0.0312, 0.0, -1e-9], ["0.243", "-0.031", "0", "0"], "score"),
        ([351.0, 18790.0], ["351", "18,790"], "score"),
        ([4.2e17, 3.51e15], ["420", "4"], "score (in 1e15)"),
        ([2.5e-7, 1e-9], ["250", "1"], "score (in 1e-9)"),
        ([0.0, 0.0], ["0", "0"], "score"),
        ([np.nan, 2.0], ["-", "2.00"], "score"),
    ],
)
def test_the_numbers_of_a_column_share_a_unit(numbers, texts, title):
    unit = find_unit(numbers)
    assert [unit.write(number) for number in numbers] == texts
    assert unit.name("score") == title


def test_decimal_points_are_below_each_other():
    assert align(["63.4", "0.26", "<0.01", "0", "100"]) == [" 63.4 ", "  0.26", " <0.01", "  0   ", "100   "]


def test_p_values_in_sentences():
    assert [state_p_value(p) for p in (0.053, 1e-20)] == ["p = 0.053", "p < 0.001"]
