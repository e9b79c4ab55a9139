"""`truewood describe`, and the list of columns of those who name no target."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from helpers.mixed_table import TABLE
from truewood._cli import main
from truewood.tabular import describe_table

pytestmark = pytest.mark.any_engine


def test_describe_shows_what_columns_are_taken_for(data, capsys):
    assert main(["describe", str(data), "--dtype", "x=category"]) == 0
    printed = capsys.readouterr()
    lines = {line.split()[0]: " ".join(line.split()) for line in printed.out.splitlines() if line.split()}
    assert re.match("id identifier.* 0 300 ", lines["id"])
    assert re.match("x high-cardinality category.* 0 300 ", lines["x"])
    assert re.match("country constant.* 0 1 ", lines["country"])
    assert re.search(r"comment \(free text.*--keep comment", printed.err)


def test_describe_with_a_target_warns_of_leaks(tmp_path, capsys):
    table = TABLE.assign(
        log=np.exp(TABLE["amount"] / TABLE["amount"].max()), amount=TABLE["amount"].where(TABLE.index > 9)
    )
    table.to_csv(tmp_path / "a.csv", index=False)
    assert main(["describe", str(tmp_path / "a.csv"), "--target", "amount", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert re.match(r".*\blog\b.*100%.*\bamount\b", shown["warnings"][0])
    assert any(text.startswith("target amount: regression") for text in shown["messages"])
    columns = {column["name"]: column for column in shown["columns"]}
    assert (columns["amount"]["used"], columns["amount"]["n_missing"]) == (False, 10)
    assert columns["city"]["n_distinct"] == TABLE["city"].nunique()
    assert columns["city"]["examples"][0] == TABLE["city"][0]


def test_without_a_target_columns_are_listed(data, capsys):
    assert main(["importance", str(data)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert all(name in printed.err for name in TABLE)
    assert printed.err.splitlines()[-1].startswith("truewood: error: --target: ")


def test_columns_of_a_folder_are_not_listed(tmp_path, capsys):
    assert main(["importance", str(tmp_path)]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("truewood: error: --target: ")
    assert "above" not in printed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"target": "z"}, r"^target: .*'z'"),
        ({"drop": "z"}, r"^drop: .*'z'"),
        ({"keep": "z"}, r"^keep: .*'z'"),
        ({"dtypes": {"z": "text"}}, r"^dtypes: .*'z'"),
    ],
)
def test_columns_that_are_not_there(arguments, words):
    with pytest.raises(ValueError, match=words):
        describe_table(TABLE, **arguments)
