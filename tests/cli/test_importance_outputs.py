"""Files that `truewood importance` writes."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import truewood as tw
from mixed_table import TABLE
from truewood.cli import main


def test_outputs(data, tmp_path, call):
    paths = [tmp_path / f"out.{ending}" for ending in ("csv", "json", "png", "svg", "pdf")]
    asked = [part for path in paths for part in ("--output", path)]
    shown, said = call(data, "--target", "y", *asked)
    assert shown["files"] == [str(path) for path in paths]
    table = pd.read_csv(paths[0])
    assert table["feature"].tolist() == [row["feature"] for row in shown["features"]]
    assert_allclose(table["adjusted_p_value"], [row["adjusted_p_value"] for row in shown["features"]])
    assert_allclose(np.sort(tw.load(paths[1]).values), np.sort(table["importance"]))
    assert paths[2].read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in paths[3].read_bytes()
    assert paths[4].read_bytes().startswith(b"%PDF")
    assert f"wrote {paths[0]}" in said


def test_letters_that_a_font_lacks_make_no_noise(tmp_path):
    TABLE[["x", "city", "y"]].rename(columns={"city": "都市"}).to_csv(tmp_path / "a.csv", index=False)
    paths = [str(tmp_path / f"out.{ending}") for ending in ("png", "svg", "pdf")]
    options = ["--target", "y", "--trees", "5", "--quiet", *[part for path in paths for part in ("--output", path)]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert main(["importance", str(tmp_path / "a.csv"), *options]) == 0


def test_alpha_is_that_of_the_files_too(data, tmp_path, call):
    """Bars of what is significant are filled, x, member and city unless alpha is next to nothing."""
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
    assert "What tells about y?" in page
    assert "out-of-bag rows with AUC" in page
    assert "Significant: at a 1 % false discovery rate" in page
