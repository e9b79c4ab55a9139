"""The paper's data sets, for tests that need the files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from truewood import datasets

FILES = ["rna_editing_arabidopsis.txt", "adult.data", "boston_house_prices.csv"]
DATA = Path(os.environ.get(datasets.DATA_VARIABLE, "."))
needs_files = pytest.mark.skipif(
    not all((DATA / name).is_file() for name in FILES), reason="TRUEWOOD_DATA names no folder with the three data sets"
)
