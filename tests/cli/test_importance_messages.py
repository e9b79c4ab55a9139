"""What `truewood importance` writes to standard error, and how it ends."""

from __future__ import annotations

import html
import io
import pickle
import re
import shlex
import subprocess
import sys
from dataclasses import fields
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from truewood import tabular
from truewood._arguments import get_keywords
from truewood._cli import main, make_parser
from truewood._cli.message_text import describe_error, name_option, render, translate
from truewood._formatting import in_one_line
from truewood._message import Message
from truewood.tabular import TableError

pytestmark = pytest.mark.any_engine

SUGGESTIONS = {
    "--task regression": {"task": "regression"},
    "--drop x": {"drop": ["x"]},
    "--drop 'a b' --drop c": {"drop": ["a b", "c"]},
    """--drop 'it'"'"'s [x]'""": {"drop": ["it's [x]"]},
    "--drop=-x": {"drop": ["-x"]},
    "--max-depth 3": {"max_depth": 3},
    "--trust-pickle": {"trust_pickle": True},
    "--different-rows": {"same_rows": False},
    "--dtype height=number": {"dtypes": {"height": "number"}},
    """--dtype 'it'"'"'s 5=number'""": {"dtypes": {"it's 5": "number"}},
    "--model-file m.ubj": {"saved_model": "m.ubj"},
}


@pytest.mark.parametrize("option", SUGGESTIONS)
def test_suggested_arguments_become_options(option):
    (argument,) = SUGGESTIONS[option]
    message = Message("column 'task=1' is odd.", f"Pass {{{argument}}}", **SUGGESTIONS[option])
    assert render(message) == f"column 'task=1' is odd. Pass {option}"
    assert message.text == "column 'task=1' is odd."
    without_period = Message("left out: id (constant)", "Pass {drop}", drop=["x"])
    assert render(without_period) == "left out: id (constant). Pass --drop x"


def test_every_argument_is_an_option():
    (commands,) = [action.choices for action in make_parser()._subparsers._group_actions]
    options = {option for name in ("importance", "compare") for option in commands[name]._option_string_actions}
    arguments = {field.name for field in fields(tabular.FitSettings)} | {"names", "same_rows", "saved_model"}
    for function in (tabular.score_table, tabular.score_saved_model, tabular.describe_table):
        arguments |= {*get_keywords(function)}
    arguments -= {"settings", "messages", "progress"}
    for argument in arguments:
        assert {*name_option(argument).split(" or ")} <= options, argument


def test_a_suggestion_can_be_pasted_into_a_shell():
    names = ["it's", "a b", "-c", "$d", "e\\f"]
    line = render(Message("odd.", "{drop}", drop=names)).removeprefix("odd. ")
    parsed = make_parser().parse_args(["importance", "a.csv", *shlex.split(line)])
    assert parsed.drop == names


def test_messages_survive_other_processes():
    message = Message("odd.", "Pass {drop}", drop=["x"])
    copy = pickle.loads(pickle.dumps(message))
    assert (copy, copy.text, copy.suggestion) == ("odd. Pass drop=['x']", "odd.", {"drop": ["x"]})


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (TableError("is not there.", "target"), "--target: is not there."),
        (TableError("is not there.", "sample_weight"), "--sample-weight: is not there."),
        (TableError("m.pkl is a pickle.", "saved_model"), "--model-file: m.pkl is a pickle."),
        (TableError("a.csv is empty.", "table"), "a.csv is empty."),
        (TableError(Message("x is odd.", "Pass {drop}.", drop=["x"]), "table"), "x is odd. Pass --drop x."),
        (ValueError(Message("odd.", "Pass {same_rows}.", same_rows=False)), "odd. Pass --different-rows."),
        (ValueError("two\n lines"), "two lines"),
        (OSError(2, "No such file"), "[Errno 2] No such file"),
    ],
)
def test_errors_are_one_line(error, words):
    assert describe_error(error) == words


def test_characters_that_move_the_cursor_are_written_out():
    assert in_one_line("a\x1b[31m\nb") == r"a\x1b[31m\nb"


def test_a_warning_is_shown_once_even_when_quiet(tmp_path, capsys):
    rng = np.random.default_rng(1)
    noise = pd.DataFrame({"a": rng.normal(size=200), "b": rng.integers(0, 5, 200), "y": rng.choice(["u", "v"], 200)})
    noise.to_csv(tmp_path / "a.csv", index=False)
    assert main(["importance", str(tmp_path / "a.csv"), "--target", "y", "--n-estimators", "50", "--quiet"]) == 0
    stderr = capsys.readouterr().err
    assert re.match(r"truewood: warning: .*chance.*\(AUC 0\.", stderr)
    assert stderr.count("\n") == 1


def test_hints_are_options(tmp_path, call):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=600), **{f"z{k}": rng.normal(size=600) for k in range(2)}})
    table.assign(y=0.25 * table["x"] + rng.normal(size=600)).to_csv(tmp_path / "a.csv", index=False)
    shown, stderr = call(tmp_path / "a.csv", "--target", "y")
    assert "--max-depth 3" in shown["warnings"][0]
    assert f"truewood: warning: {shown['warnings'][0]}\n" in stderr


def test_a_leak_is_reported_in_terminal_json_and_report(tmp_path, call):
    pytest.importorskip("altair")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"wage": rng.lognormal(2, 0.5, 200), "school": rng.integers(8, 18, 200)})
    table.assign(**{"wage incl. tax": np.log(table["wage"])}).to_csv(tmp_path / "a.csv", index=False)
    outputs = ["--output", tmp_path / "a.html", "--output", tmp_path / "a.md"]
    shown, stderr = call(tmp_path / "a.csv", "--target", "wage", *outputs, trees=10)
    warning = shown["warnings"][0]
    assert re.match(r".*\bwage incl. tax\b.*100%.*\bwage\b.*--keep 'wage incl. tax'$", warning)
    assert f"truewood: warning: {warning}\n" in stderr
    assert [feature["feature"] for feature in shown["features"]] == ["school"]
    # The option works when it is pasted.
    options = shlex.split(warning[warning.index("--keep") :])
    kept, _ = call(tmp_path / "a.csv", "--target", "wage", *options, trees=10)
    assert kept["features"][0]["feature"] == "wage incl. tax"
    page = (tmp_path / "a.html").read_text()
    caveat = re.search(r'<div class="caveat severe"><p>([A-Z].*\bwage incl. tax\b.*?)</p></div>', page)
    assert html.unescape(caveat[1]) == f"{warning[0].upper()}{warning[1:]}."
    assert "--keep 'wage incl. tax'" in (tmp_path / "a.md").read_text()
    assert caveat.start() < page.index('id="summary"')


def test_an_identifier_of_groups_is_left_out_and_its_option_works(tmp_path, call):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"Individual ID": np.repeat(np.arange(40), 5), "x": rng.normal(size=200)})
    table.assign(y=table["x"] + rng.normal(size=200)).to_csv(tmp_path / "a.csv", index=False)
    shown, _ = call(tmp_path / "a.csv", "--target", "y", trees=10)
    warning = shown["warnings"][0]
    options = shlex.split(warning[warning.index("--groups") :])
    assert options == ["--groups", "Individual ID"]
    assert [feature["feature"] for feature in shown["features"]] == ["x"]
    grouped, _ = call(tmp_path / "a.csv", "--target", "y", *options, trees=10)
    assert grouped["n_groups"] == 40


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--measure", "loss_oob", "--model", "hist-gradient-boosting"], ["--measure loss_oob", "boosted"]),
        (["--measure", "sobol_mda", "--groups", "shop"], ["--measure: sobol_mda", "leave out --groups shop"]),
        (["--measure", "mdi", "--contributions"], ["--measure mdi", "--contributions"]),
    ],
)
def test_errors_of_the_library_name_options(options, words, tmp_path, refuse):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=100), "shop": np.arange(100) % 10, "y": rng.normal(size=100)})
    table.to_csv(tmp_path / "a.csv", index=False)
    refuse(["./a.csv", "--target", "y", "--n-estimators", "5", *options], words)


def test_paths_and_names_are_not_translated():
    for text in ("data/groups='a'/x.parquet", "column 'groups=x'", "alpha=0.5x", "ngroups=True"):
        assert translate(text) == text


HEADER = "x,color,y\n"
BAD_FILES = {
    "header only": ("a.csv", HEADER, ["error: a.csv", "rows"]),
    "unknown ending": ("a.docx", HEADER, ["a.docx", ".csv", "- < FILE"]),
    "infinite values": ("a.csv", HEADER + "1,red,no\ninf,blue,yes\n" * 20, ["--drop x"]),
    "infinite target": ("a.csv", HEADER + "1,red,1.5\n2,blue,inf\n" * 20, ["--target: ", "'y'", "infinite", "20 rows"]),
    "a word among the numbers of the target": (
        "a.csv",
        HEADER + "".join(f"{k % 3},red,{k + 0.5}\n" for k in range(40)) + "1,red,broken\n",
        ["--target: ", "'y'", "--task classification"],
    ),
    "too many classes": (
        "a.csv",
        HEADER + "".join(f"{k % 3},red,label{k}\n" for k in range(40)),
        ["--target: ", "'y'", "40", "40 rows"],
    ),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_files_that_cannot_be_used(case, tmp_path, refuse):
    name, content, words = BAD_FILES[case]
    (tmp_path / name).write_text(content)
    refuse([f"./{name}", "--target", "y"], words)


def test_a_class_of_one_row_cannot_be_held_out(tmp_path, refuse):
    pytest.importorskip("lightgbm")
    (tmp_path / "a.csv").write_text(HEADER + "1,red,no\n2,blue,yes\n" * 20 + "0.5,red,perhaps\n")
    words = ["--model: ", "'perhaps'", "--model random-forest"]
    refuse(["./a.csv", "--target", "y", "--model", "lightgbm"], words)


def test_empty_standard_input(refuse, monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO()))
    refuse(["-", "--target", "y"], ["standard input", "empty"])


def test_interrupted(data, capsys, monkeypatch):
    def stop(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("truewood.tabular._score_table.fit_model", stop)
    assert main(["importance", str(data), "--target", "y"]) == 130
    assert capsys.readouterr().err.endswith("truewood: stopped\n")


def test_a_reader_that_stops_reading(data):
    program = "import sys; from truewood._cli import main; sys.exit(main())"
    command = f"{sys.executable} -c '{program}' importance {data} --target y --n-estimators 5 --quiet | head -n 0"
    ended = subprocess.run(["bash", "-c", f"{command}; exit ${{PIPESTATUS[0]}}"], capture_output=True, text=True)
    assert ended.returncode == 0
    assert ended.stderr == ""


def test_progress_is_shown_on_a_terminal(data, monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    options = ["importance", str(data), "--target", "y", "--n-estimators", "5"]
    assert main(options) == 0
    assert "fitting random-forest" in capsys.readouterr().err
    assert main([*options, "--quiet"]) == 0
    assert "fitting" not in capsys.readouterr().err


SMALL_MEMORY = """
import resource, sys
from truewood._cli import main, make_parser
sys.stdin.buffer.read(0)
with open("/proc/self/statm") as file:
    n_bytes = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (n_bytes + 100_000_000, n_bytes + 100_000_000))
sys.exit(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
def test_not_enough_memory_is_one_line(tmp_path):
    with (tmp_path / "a.csv").open("w") as file:
        file.write("x,z,y\n" + "0.123456789,0.123456789,1\n0.5,0.25,0\n" * 3_000_000)
    command = [sys.executable, "-c", SMALL_MEMORY, "importance", tmp_path / "a.csv", "--target", "y"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 2
    assert re.match("truewood: error: .*memory", ended.stderr)
    assert "--drop" in ended.stderr
    assert ended.stderr.count("\n") == 1
