"""Model files with wrong bytes in them: a result or one line, never the end of the process."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

from truewood._cli import main
from truewood.tabular._models import sandboxed_load

pytestmark = pytest.mark.any_engine

FORMATS = ["xgboost.json", "xgboost.ubj", "lightgbm.txt", "catboost.cbm", "catboost.json", "skops.skops", "pickle.pkl"]


def make_table(seed):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"a": rng.normal(size=120), "b": rng.integers(0, 5, 120), "c": rng.choice(list("xyz"), 120)})
    return table.assign(y=(table["a"] + (table["c"] == "x") > 0).astype(int))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    make_table(1).to_csv(folder / "test.csv", index=False)
    return folder


def save_model(path):
    library = pytest.importorskip(path.stem)
    table = make_table(0)
    X, y = table[["a", "b", "c"]].astype({"c": "category"}), table["y"]
    if path.stem == "xgboost":
        library.XGBClassifier(n_estimators=3, max_depth=3, n_jobs=1, enable_categorical=True).fit(X, y).save_model(path)
    elif path.stem == "lightgbm":
        library.LGBMClassifier(n_estimators=3, num_leaves=5, n_jobs=1, verbose=-1).fit(X, y).booster_.save_model(path)
    elif path.stem == "catboost":
        pool = library.Pool(X.astype({"c": str}), y, cat_features=["c"])
        options = {"iterations": 3, "depth": 3, "verbose": False, "thread_count": 1, "allow_writing_files": False}
        model = library.CatBoostClassifier(**options).fit(pool)
        model.save_model(str(path), format=path.suffix[1:], pool=pool)
    else:
        forest = RandomForestClassifier(3, max_depth=3, random_state=0).fit(X[["a", "b"]], y)
        if path.suffix == ".skops":
            from skops.io import dump

            dump(forest, path)
        else:
            path.write_bytes(library.dumps(forest))
    return path.read_bytes()


def damage(content, rng):
    """Cut it off, or change a few bits, or digits, or leave a piece out."""
    changed = bytearray(content)
    kind = rng.choice(["cut", "bits", "digits", "gap"])
    if kind == "cut":
        del changed[rng.randrange(1, len(changed)) :]
    elif kind == "gap":
        start = rng.randrange(len(changed))
        del changed[start : start + rng.randrange(1, 100)]
    for _ in range(rng.choice([1, 3, 10])):
        if kind == "bits":
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        elif kind == "digits":
            digits = [place for place, byte in enumerate(changed) if byte in b"0123456789"]
            changed[rng.choice(digits)] = rng.choice(b"0123456789")
    return bytes(changed)


def score(path, table, capsys):
    """Run the command line in this process, which must survive it; gives the exit code and the last line."""
    arguments = ["importance", str(table), "--target", "y", "--model-file", str(path), "--quiet"]
    code = main([*arguments, *["--trust-pickle"] * (path.suffix == ".pkl")])
    printed = capsys.readouterr()
    errors = [line for line in printed.err.splitlines() if "warning" not in line]
    assert code == (2 if errors else 0)
    assert len(errors) <= 1, printed.err
    return code, "".join(errors)


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_a_damaged_model_is_scored_or_refused(name, folder, tmp_path, capsys):
    content = save_model(folder / name)
    assert score(folder / name, folder / "test.csv", capsys) == (0, "")
    rng, n_refused = random.Random(name), 0
    for _ in range(3):
        (tmp_path / name).write_bytes(damage(content, rng))
        code, line = score(tmp_path / name, folder / "test.csv", capsys)
        assert code == 0 or line.startswith("truewood: error: --model-file: ") or "--target" in line, line
        n_refused += code == 2
    assert n_refused > 0


CRASHES = {
    "left_child": r"left_child=\S+",
    "split_feature": r"split_feature=\d+",
}


@pytest.mark.slow
@pytest.mark.parametrize("entry", CRASHES)
def test_what_ends_the_process_of_a_loader_is_one_line(entry, folder, tmp_path, capsys):
    """Each of these kills a process that loads it."""
    text = save_model(folder / "lightgbm.txt").decode()
    (tmp_path / "m.txt").write_text(re.sub(CRASHES[entry], f"{entry}=90000000", text, count=1))
    program = "import lightgbm, sys; lightgbm.Booster(model_file=sys.argv[1]).model_to_string()"
    killed = subprocess.run([sys.executable, "-c", program, tmp_path / "m.txt"], capture_output=True)
    assert killed.returncode not in (0, 1)
    code, line = score(tmp_path / "m.txt", folder / "test.csv", capsys)
    assert code == 2
    assert re.match(r"truewood: error: --model-file: m\.txt .*LightGBM", line)


def test_a_cut_model_of_lightgbm_is_not_scored_without_its_last_trees(folder, tmp_path, capsys):
    content = save_model(folder / "lightgbm.txt")
    (tmp_path / "m.txt").write_bytes(content[: content.index(b"Tree=2")])
    code, line = score(tmp_path / "m.txt", folder / "test.csv", capsys)
    assert re.match(r"truewood: error: --model-file: m\.txt .*trees", line)
    assert code == 2


def test_a_loader_that_does_not_come_back(folder, monkeypatch):
    save_model(folder / "lightgbm.txt")
    monkeypatch.setattr(sandboxed_load, "_SECONDS", 0.01)
    monkeypatch.setattr(sandboxed_load, "_SECONDS_PER_MB", 0.0)
    start = time.monotonic()
    assert "LightGBM within 0 seconds" in sandboxed_load.find_damage(folder / "lightgbm.txt", "LightGBM")
    assert time.monotonic() - start < 30


def test_modules_beside_the_model_are_not_run(folder, tmp_path, monkeypatch):
    """Whoever sends a model may send a module of Python, too."""
    save_model(folder / "lightgbm.txt")
    for name in ("json.py", "numpy.py", "truewood.py"):
        (tmp_path / name).write_text(f"open({str(tmp_path / 'run')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    assert sandboxed_load.find_damage(folder / "lightgbm.txt", "LightGBM") is None
    assert not (tmp_path / "run").exists()
