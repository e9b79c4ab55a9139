"""Files that `truewood importance` writes."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.ensemble import RandomForestRegressor

import truewood as tw
from helpers.messages import find_lacking
from helpers.mixed_table import TABLE, wrap_result
from truewood._cli import main
from truewood._cli.output import format_markdown, write_output

pytestmark = pytest.mark.any_engine


def test_outputs(data, tmp_path, call):
    paths = [tmp_path / f"out.{ending}" for ending in ("csv", "json", "png", "svg", "pdf")]
    asked = [part for path in paths for part in ("--output", path)]
    shown, stderr = call(data, "--target", "y", *asked)
    assert shown["files"] == [str(path) for path in paths]
    table = pd.read_csv(paths[0])
    assert table["feature"].tolist() == [row["feature"] for row in shown["features"]]
    assert_allclose(table["adjusted_p_value"], [row["adjusted_p_value"] for row in shown["features"]])
    assert_allclose(np.sort(tw.load(paths[1]).values), np.sort(table["importance"]))
    assert paths[2].read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in paths[3].read_bytes()
    assert paths[4].read_bytes().startswith(b"%PDF")
    assert f"wrote {paths[0]}" in stderr


def test_letters_that_no_font_has_are_reported_in_one_line(tmp_path, capsys):
    TABLE[["x", "city", "y"]].rename(columns={"city": "都市"}).to_csv(tmp_path / "a.csv", index=False)
    paths = [str(tmp_path / f"out.{ending}") for ending in ("png", "svg", "pdf")]
    options = [
        "--target",
        "y",
        "--n-estimators",
        "5",
        "--quiet",
        *[part for path in paths for part in ("--output", path)],
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert main(["importance", str(tmp_path / "a.csv"), *options]) == 0
    stderr = capsys.readouterr().err.splitlines()
    if stderr:  # a font that has them may be installed
        assert stderr[0].startswith(f"truewood: warning: {paths[0]}: ")
        assert not find_lacking(stderr[0], "font", "市都", "boxes")
        assert len(stderr) == 3


def test_alpha_is_that_of_the_files_too(data, tmp_path, call):
    """Points of what is found are filled, x, member and city unless alpha is next to nothing."""
    drawn = []
    for alpha in ("0.05", "1e-300"):
        call(data, "--target", "amount", "--drop", "y", "--alpha", alpha, "--output", tmp_path / "a.svg")
        drawn.append((tmp_path / "a.svg").read_text())
    n_filled = [text.count("fill: #0072b2") for text in drawn]
    assert n_filled[0] >= n_filled[1] + 3


def test_report(data, tmp_path, call):
    pytest.importorskip("altair")
    call(data, "--target", "y", "--alpha", "0.01", "--output", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert re.search(r"What \w.*\by\?", page)
    assert "</dt><dd>AUC 0." in page
    assert re.search("1 ?% false discovery rate", page)
    assert '"text":"rising"' in page
    assert re.search(rf'id="about">{re.escape(data.name)} · [\d,]+ rows · ', page)
    assert "variation in y" in page
    # There are no warnings, and notes have no options.
    assert not re.search(r"--\w|task=|drop=", re.sub(r"<(script|style).*?</\1>", "", page, flags=re.DOTALL))


def link_symbolically(path, other):
    other.symlink_to(path)
    return other


def link_hard(path, other):
    other.hardlink_to(path)
    return other


def go_around(path, other):
    (other.parent / "folder").mkdir()
    return other.parent / "folder" / ".." / path.name


WAYS = {"itself": lambda path, _other: path, "link": link_symbolically, "hard link": link_hard, "detour": go_around}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("read", ["data.csv", "m.json"])
@pytest.mark.parametrize("ending", ["csv", "json", "html", "svg"])
def test_what_is_read_is_not_overwritten(way, read, ending, data, tmp_path, refuse):
    pytest.importorskip("altair")
    (tmp_path / "m.json").write_text("{}")
    path = tmp_path / read
    before = path.read_bytes()
    has_ending = path.suffix == f".{ending}"  # by itself or on a detour it is an output only with such an ending
    output = WAYS[way if has_ending else way.replace("itself", "link").replace("detour", "hard link")](
        path, tmp_path / f"other.{ending}"
    )
    arguments = [str(data), "--target", "y", "--model-file", str(tmp_path / "m.json"), "--output", str(output)]
    refuse(arguments, [f"--output: {output}"])
    assert path.read_bytes() == before


def test_standard_input_is_not_overwritten(data, tmp_path):
    before = data.read_bytes()
    with data.open("rb") as file:
        ended = run("importance", "-", "--target", "y", "--n-estimators", "5", "--output", data, stdin=file)
    assert ended.returncode == 2
    assert "--output: " in ended.stderr
    assert data.read_bytes() == before


def run(*arguments, prelude="", **options):
    """Run the command line in a process of its own."""
    program = f"import sys\nfrom truewood._cli import main\n{prelude}\nsys.exit(main())"
    command = [sys.executable, "-c", program, *map(str, arguments)]
    # Coverage could not write its file here either, and would report that.
    variables = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    return subprocess.run(command, capture_output="stdout" not in options, text=True, env=variables, **options)


SMALL_FILES = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))
"""


@pytest.mark.skipif(os.name != "posix", reason="limits of POSIX")
@pytest.mark.parametrize(
    "ending", ["csv", *(pytest.param(other, marks=pytest.mark.slow) for other in ("json", "png", "svg", "pdf", "html"))]
)
def test_a_full_disk_leaves_the_old_file_and_the_table_is_shown(ending, data, tmp_path):
    pytest.importorskip("altair")
    (tmp_path / f"out.{ending}").write_text("old")
    before = sorted(tmp_path.iterdir())
    options = ["--target", "y", "--n-estimators", "5", "--output", tmp_path / f"out.{ending}"]
    ended = run("importance", data, *options, prelude=SMALL_FILES)
    assert ended.returncode == 2
    assert ended.stderr.endswith(f"truewood: error: {tmp_path / f'out.{ending}'}: File too large\n")
    assert re.match(r"What \w.*\by\?", ended.stdout)
    assert (tmp_path / f"out.{ending}").read_text() == "old"
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_files_are_written_where_the_table_cannot_be_shown(data, tmp_path):
    options = ["--target", "y", "--n-estimators", "5", "--quiet", "--output", tmp_path / "out.csv"]
    with Path("/dev/full").open("w") as full:
        ended = run("importance", data, *options, stdout=full, stderr=subprocess.PIPE)
    assert ended.stderr == "truewood: error: [Errno 28] No space left on device\n"
    assert ended.returncode == 2
    assert len(pd.read_csv(tmp_path / "out.csv")) > 3


@pytest.mark.skipif(os.name != "posix", reason="users of POSIX")
def test_a_protected_folder_is_noticed_before_anything_is_read(data):
    """Root may write everywhere, so another user tries."""
    drop = "import os\nif os.getuid() == 0: os.setgid(65534), os.setuid(65534)\n"
    with tempfile.TemporaryDirectory() as folder:  # of pytest's own folders others see nothing
        Path(folder).chmod(0o555)
        ended = run("importance", data, "--target", "y", "--output", f"{folder}/out.csv", prelude=drop)
    assert ended.stderr == f"truewood: error: {folder}/out.csv: Permission denied\n"
    assert ended.returncode == 2
    assert ended.stdout == ""


def test_a_second_file_that_fails_does_not_take_the_first_and_the_table(data, tmp_path, monkeypatch, capsys):
    def fail(*given, **options):
        raise OSError(28, "No space left on device", "b.svg")

    monkeypatch.setattr("truewood._cli.output.write_figure", fail)
    outputs = ["--output", str(tmp_path / "a.csv"), "--output", str(tmp_path / "b.svg")]
    assert main(["importance", str(data), "--target", "y", "--n-estimators", "5", *outputs]) == 2
    printed = capsys.readouterr()
    assert re.match(r"What \w.*\by\?", printed.out)
    assert printed.err.endswith("truewood: error: b.svg: No space left on device\n")
    assert (tmp_path / "a.csv").exists()


ODD_NAMES = ["a\x00b", "a\x1b[31m", "a\x0bb", "\ufeffa", "a\ufffe", "a\nb", "=1+1", "+a", "-a", "@a", "\ta", "＝a"]


@pytest.fixture(scope="module")
def oddly_named():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, len(ODD_NAMES))), columns=ODD_NAMES)
    return tw.importance(RandomForestRegressor(5, random_state=0).fit(X.to_numpy(), X.sum(axis=1)), X, X.sum(axis=1))


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_pictures_of_any_names(ending, oddly_named, tmp_path):
    write_output(wrap_result(oddly_named), tmp_path / f"a.{ending}", alpha=0.05, title="")
    content = (tmp_path / f"a.{ending}").read_bytes()
    assert content.startswith({"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[ending])
    if ending == "svg":
        assert ElementTree.fromstring(content).tag.endswith("svg")


def test_no_cell_is_a_formula(oddly_named, tmp_path):
    write_output(wrap_result(oddly_named), tmp_path / "a.csv", alpha=0.05, title="")
    with open(tmp_path / "a.csv", newline="", encoding="utf-8") as file:
        names = {row["feature"] for row in csv.DictReader(file)}
    assert not [name for name in names if re.match(r"[=+\-@\t\r\n＝]", name)]
    assert set(ODD_NAMES) - names == {name for name in ODD_NAMES if f"'{name}" in names}


def test_no_name_reaches_the_terminal(oddly_named):
    assert "\x1b" not in repr(oddly_named)
    assert r"a\x1b[31m" in repr(oddly_named)


@pytest.mark.skipif(sys.platform != "linux", reason="names of files that are any bytes")
def test_a_file_name_that_is_not_utf_8(data, tmp_path, capsys):
    pytest.importorskip("altair")
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.csv"))
    odd.write_bytes(data.read_bytes())
    outputs = [tmp_path / f"out.{ending}" for ending in ("html", "csv", "json", "svg")]
    outputs.append(Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xe9.csv")))
    asked = [part for path in outputs for part in ("--output", str(path))]
    for shape in ([], ["--json"]):
        assert main(["importance", str(odd), "--target", "y", "--n-estimators", "5", *asked, *shape]) == 0
        assert not find_lacking(capsys.readouterr().err, r"caf\udce9.csv", "300 rows")
    assert r"caf\udce9.csv" in outputs[0].read_text(encoding="utf-8")
    assert all(path.stat().st_size for path in outputs)


def test_correlated_columns_are_scored_together(tmp_path, capsys):
    pytest.importorskip("altair")
    TABLE.assign(x2=TABLE["x"] ** 3).to_csv(tmp_path / "data.csv", index=False)
    command = ["importance", str(tmp_path / "data.csv"), "--target", "y", "--n-estimators", "20", "--drop", "amount"]
    assert main(command) == 0
    assert "--group-correlated" in capsys.readouterr().out
    assert main([*command, "--group-correlated", "--output", str(tmp_path / "out.html")]) == 0
    printed = capsys.readouterr()
    assert "x + x2" in printed.out
    assert "--group-correlated" not in printed.out
    assert not find_lacking(printed.err, "1 group", "0.7")
    assert "x, x2</td><td>" in (tmp_path / "out.html").read_text(encoding="utf-8")
    assert main([*command, "--group-correlated", "0.999", "--json"]) == 0
    groups = json.loads(capsys.readouterr().out)["feature_groups"]
    assert groups["x + x2"] == ["x", "x2"]
    assert groups["city"] == ["city"]


def test_markdown(data, tmp_path, call):
    shown, _ = call(
        data, "--target", "y", "--drop", "amount", "--interactions", "--output", tmp_path / "a.md", trees=20
    )
    lines = (tmp_path / "a.md").read_text().splitlines()
    assert re.fullmatch(r"# What \w.*\by\?", lines[0])
    assert any(re.match(r"\| # \| feature \| share.*\| p-value \|", line) for line in lines)
    assert sum(line.startswith("| ") for line in lines) == 2 + len(shown["features"])
    assert any(not find_lacking(line, "data.csv", "300 rows", "10 columns") for line in lines)
    assert any(re.search(r"\d+ pairs", line) for line in lines)


def test_names_are_no_markdown():
    page = format_markdown("a*b", ["#", "feature"], [["1", "<b>|[x](y)\n _z_ a_b `c`"]], [], ["~now~"])
    assert page == (
        "# a\\*b\n\n> **Warning:** \\~now\\~\n\n| # | feature |\n| --: | --- |\n"
        "| 1 | \\<b\\>\\|\\[x\\](y)\\\\n \\_z\\_ a_b \\`c\\` |\n\n"
    )
