"""Every code block of README and docs is run, or compared with the real thing."""

from __future__ import annotations

import os
import re
import shlex
import sys
import tomllib
from contextlib import nullcontext
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest
from joblib import parallel_config

import truewood as tw
from helpers.docs_names import PREPARE, write_files
from helpers.docs_pages import PAGES, ROOT, list_blocks, name_page
from truewood._cli import main, make_parser
from truewood.adapters import _registry
from truewood.datasets import DATA_VARIABLE

pytestmark = [pytest.mark.any_engine, pytest.mark.usefixtures("one_thread")]

PYTHON = [page for page in PAGES if any(block.language == "python" for block in list_blocks(page))]
DATA = Path(os.environ.get(DATA_VARIABLE, "."))

# Blocks that hold this take a library that the extra "test" does not bring, or may not bring.
NEEDS = {
    ".report(": "altair",
    ".to_shap(": "shap",
    "cupy": "cupy",
    "dask": "dask",
    "econml": "econml",
    "lightgbm": "lightgbm",
    "mlflow.": "mlflow",
    "polars": "polars",
    "report.estimator_": "skore",
    "skore.": "skore",
    "ydf": "ydf",
}
# Blocks that hold this need a cluster: `test_clusters.py` has them.
CLUSTER = ("pyspark", "spark.read", 'Client("tcp://')

# Pages on data that has to be warned about.
WARNS = {"docs/howto/engineering.md": "contributions of neighboring rows"}


def can_run(text):
    libraries = [library for mark, library in NEEDS.items() if mark in text]
    return not any(mark in text for mark in CLUSTER) and all(find_spec(library) for library in libraries)


def run_page(page, module):
    """Run the Python of a page from top to bottom, as one program."""
    module.__dict__.update(PREPARE.get(name_page(page), dict)())
    for block in list_blocks(page):
        if block.language == "python":
            program = compile("\n" * block.line + block.text, name_page(page), "exec")
            if can_run(block.text):
                exec(program, module.__dict__)


@pytest.mark.filterwarnings("ignore:The set_:PendingDeprecationWarning")  # of shap, from matplotlib
@pytest.mark.parametrize("page", PYTHON, ids=name_page)
def test_python(page, tmp_path, monkeypatch, capsys):
    if "datasets.load_" in page.read_text(encoding="utf-8") and not (DATA / "adult.data").is_file():
        pytest.skip(f"{DATA_VARIABLE} names no folder with the paper's data sets")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_registry, "_REGISTRY", dict(_registry._REGISTRY))
    expected = WARNS.get(name_page(page))
    warned = nullcontext() if expected is None else pytest.warns(UserWarning, match=expected)
    with parallel_config(backend="threading"), warned:  # processes take seconds to start
        run_page(page, ModuleType("page"))
    printed = capsys.readouterr().out
    blocks = list_blocks(page)
    for block, after in pairwise(blocks):
        if block.language == "python" and "print(" in block.text and after.language == "text":
            assert after.text in printed


def test_the_adapter_of_the_page_reads_its_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_registry, "_REGISTRY", dict(_registry._REGISTRY))
    module = ModuleType("my_package")
    monkeypatch.setitem(sys.modules, "my_package", module)
    monkeypatch.setitem(sys.modules, "my_package.adapter", module)
    run_page(ROOT / "docs" / "howto" / "own_trees.md", module)
    X, y = module.X, module.y
    result = tw.importance(module.MyModel(module.trees), X, y, rows="heldout")
    assert result.values.tolist() == tw.importance(module.trees, X, y, rows="heldout").values.tolist()
    assert result.values[0] > 0.5
    assert result.values[1] == 0


def test_every_block_names_its_language():
    for page in PAGES:
        for block in list_blocks(page):
            known = ("", "python", "sh", "text")
            assert block.language in known or block.language.startswith("{"), f"{name_page(page)}:{block.line}"


def list_commands():
    """Commands of all pages that are meant for a shell, each once: those of README's lines one by one."""
    commands = {}
    for page in PAGES:
        for block in list_blocks(page):
            if block.language in ("", "sh") and not is_drawing(block.text):
                for line in block.text.splitlines():
                    for command in line.partition(" #")[0].split("&&"):
                        commands.setdefault(command.strip().removeprefix(".venv/bin/"), page)
    return {command: page for command, page in commands.items() if command}


def is_drawing(text):
    """Whether a block shows folders, or the way of the data."""
    return "-->" in text or re.search(r"^cli/ ", text, re.MULTILINE) is not None


COMMANDS = list_commands()
OURS = [command for command in COMMANDS if command.startswith("truewood ")]
REMOTE = ("--scheduler", "--master", "s3a:")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where `truewood ...` lines find their files."""
    place = tmp_path_factory.mktemp("commands")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        write_files()
    return place


@pytest.mark.parametrize("command", OURS)
def test_commands_of_truewood(command, folder, monkeypatch, capsys):
    """All are understood, and those that read tables are run; `.ci/run` runs the demo."""
    monkeypatch.chdir(folder)
    arguments = shlex.split(command)[1:]
    make_parser().parse_args(arguments)
    if arguments[0] in ("importance", "describe", "compare") and not any(mark in command for mark in REMOTE):
        assert main(arguments) == 0, capsys.readouterr().err
        for name in re.findall(r"--output (\S+)", command):
            assert Path(name).stat().st_size > 1000


def test_other_commands_speak_of_what_there_is():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for command, page in COMMANDS.items():
        if command in OURS:
            continue
        words = [word for word in shlex.split(command) if "=" not in word and word != "nice"]
        program, where = words[0].removeprefix(".venv/bin/"), f"{name_page(page)}: {command}"
        for wanted in re.findall(r"(?:\.|truewood)\[([\w,-]+)\]", command):
            assert set(wanted.split(",")) <= set(extras), where
        if "/" in program:
            assert (ROOT / program).exists(), where
        else:
            assert program in ("git", "pip", "pre-commit", "pytest", "python", "python3"), where
        for word in words[1:]:
            if word.endswith((".py", ".sh")) or word.startswith("tests/"):
                assert (ROOT / word).exists(), where


def test_options_in_the_text_exist():
    (commands,) = [action.choices for action in make_parser()._subparsers._group_actions]
    help_texts = "".join(parser.format_help() for parser in commands.values())
    options = set(re.findall(r"--[a-z][a-z-]+", help_texts)) | {"--print-completion"}
    for name in ("command_line", "app", "correlated", "clustered_rows", "report", "compare"):
        text = (ROOT / "docs" / "howto" / f"{name}.md").read_text(encoding="utf-8")
        assert set(re.findall(r"--[a-z][a-z-]+", text)) <= options, name
