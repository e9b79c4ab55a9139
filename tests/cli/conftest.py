"""Tables in files, and runs of the command line on them."""

from __future__ import annotations

import json

import pytest

from helpers.messages import find_lacking
from helpers.mixed_table import TABLE
from truewood._cli import main


@pytest.fixture
def data(tmp_path):
    """The table as a CSV file."""
    TABLE.to_csv(tmp_path / "data.csv", index=False)
    return tmp_path / "data.csv"


@pytest.fixture
def call(capsys):
    """Run `truewood importance --json`; gives the JSON object and the text on standard error."""

    def run(*arguments, trees=60):
        is_fit = "--model-file" not in arguments
        extra = ["--n-estimators", str(trees)] if is_fit else []
        assert main(["importance", *map(str, arguments), *extra, "--n-jobs", "1", "--json"]) == 0
        printed = capsys.readouterr()
        return json.loads(printed.out), printed.err

    return run


@pytest.fixture
def refuse(tmp_path, capsys):
    """Run `truewood importance` on files of a folder; returns the line that explains the error."""

    def run(arguments, words):
        listed = [str(tmp_path / part[2:]) if part.startswith("./") else part for part in arguments]
        is_fit = not {"--n-estimators", "--model-file"} & set(listed)
        try:
            code = main(["importance", *listed, *["--n-estimators", "5"] * is_fit])
        except SystemExit as stopped:
            code = stopped.code
        printed = capsys.readouterr()
        last = printed.err.splitlines()[-1]
        assert code == 2
        assert printed.out == ""
        assert last.startswith(("truewood: error: ", "truewood importance: error: "))
        assert printed.err.count("error: ") == 1
        assert "Traceback" not in printed.err
        assert not find_lacking(last, *words), last
        return last

    return run
