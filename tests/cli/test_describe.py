"""`truewood describe`, and the list of columns of those who name no target."""

from __future__ import annotations

import json

import numpy as np
import pytest

from helpers.mixed_table import TABLE
from truewood._cli import main
from truewood.tabular import describe_table


def test_describe_shows_what_columns_are_taken_for(data, capsys):
    assert main(["describe", str(data), "--dtype", "x=category"]) == 0
    printed = capsys.readouterr()
    lines = {line.split()[0]: " ".join(line.split()) for line in printed.out.splitlines() if line.split()}
    assert lines["id"].startswith("id identifier, left out 0 300 ")
    assert lines["x"].startswith("x high-cardinality category 0 300 ")
    assert lines["country"].startswith("country constant, left out 0 1 ")
    assert "left out: comment (free text; --keep COLUMN uses it as a category)" in printed.err


def test_describe_with_a_target_warns_of_leaks(tmp_path, capsys):
    table = TABLE.assign(
        log=np.exp(TABLE["amount"] / TABLE["amount"].max()), amount=TABLE["amount"].where(TABLE.index > 9)
    )
    table.to_csv(tmp_path / "a.csv", index=False)
    assert main(["describe", str(tmp_path / "a.csv"), "--target", "amount", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["warnings"][0].startswith("log alone explains 100% of amount: ")
    assert any(text.startswith("target amount: regression, numbers from") for text in shown["messages"])
    columns = {column["name"]: column for column in shown["columns"]}
    assert (columns["amount"]["used"], columns["amount"]["n_missing"]) == (False, 10)
    assert columns["city"]["n_distinct"] == TABLE["city"].nunique()
    assert columns["city"]["examples"][0] == TABLE["city"][0]


def test_without_a_target_columns_are_listed(data, capsys):
    assert main(["importance", str(data)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert all(name in printed.err for name in TABLE)
    assert printed.err.endswith("truewood: error: --target: give the column to predict, one of these.\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"target": "z"}, "target: the table has no column 'z'"),
        ({"drop": "z"}, "drop: the table has no column 'z'"),
        ({"keep": "z"}, "keep: the table has no column 'z'"),
        ({"dtypes": {"z": "text"}}, "dtypes: the table has no column 'z'"),
    ],
)
def test_columns_that_are_not_there(arguments, words):
    with pytest.raises(ValueError, match=words):
        describe_table(TABLE, **arguments)
