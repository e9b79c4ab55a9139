"""Data sets of Zhou & Hooker's paper: from $TRUEWOOD_DATA or the user's cache, or downloaded; always validated."""

from __future__ import annotations

import http.client
import io
import os
import sys
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.progress import wrap_file

__all__ = ["load_adult", "load_boston", "load_rna"]

DATA_VARIABLE = "TRUEWOOD_DATA"

_ADDRESSES = {
    "rna_editing_arabidopsis.txt": "https://static-content.springer.com/esm/art%3A10.1186%2F1471-2105-5-132/"
    "MediaObjects/12859_2004_248_MOESM1_ESM.txt",
    "adult.data": "https://archive.ics.uci.edu/static/public/2/adult.zip",
    "boston_house_prices.csv": "https://lib.stat.cmu.edu/datasets/boston",
}
_ADULT_COLUMNS = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
]
_BOSTON_COLUMNS = [
    "CRIM",
    "ZN",
    "INDUS",
    "CHAS",
    "NOX",
    "RM",
    "AGE",
    "DIS",
    "RAD",
    "TAX",
    "PTRATIO",
    "B",
    "LSTAT",
    "MEDV",
]


def load_rna() -> tuple[pd.DataFrame, pd.Series]:
    """Load C-to-U RNA editing sites of Arabidopsis thaliana (Cummings & Myers 2004, CC BY).

    Returns
    -------
    X : DataFrame of shape (876, 44)
        Nucleotides at positions -20 to 20, codon position `cp`, folding energies `fe` and `dfe`; rows with missing
        values are dropped.
    y : Series
        Whether the site is edited.
    """
    table = _load("rna_editing_arabidopsis.txt", _read_rna)
    return table.drop(columns="edit"), table["edit"] == "+"


def load_adult() -> tuple[pd.DataFrame, pd.Series]:
    """Load the training part of UCI Adult (CC BY 4.0): people from the United States, without missing values.

    Returns
    -------
    X : DataFrame of shape (27504, 13)
        Census data.
    y : Series
        Whether the income exceeds 50,000 dollars.
    """
    table = _load("adult.data", _read_adult)
    return table.drop(columns=["native-country", "income"]), table["income"] == ">50K"


def load_boston() -> tuple[pd.DataFrame, pd.Series]:
    """Load Boston housing (Harrison & Rubinfeld 1978).

    The column B encodes a racist assumption about house prices. The data set is included only because the paper uses
    it; do not use it for anything else.

    Returns
    -------
    X : DataFrame of shape (506, 13)
        Features of the census tracts.
    y : Series
        Median value of homes, in 1,000 dollars.
    """
    table = _load("boston_house_prices.csv", _read_boston)
    return table.drop(columns="MEDV"), table["MEDV"]


def _read_rna(text: str) -> pd.DataFrame:
    table = pd.read_csv(io.StringIO(text), sep=r"\s+", na_values="X").drop(columns="loc").dropna(ignore_index=True)
    _require(table.shape == (876, 45) and (table["edit"] == "+").sum() == 437)
    return table


def _read_adult(text: str) -> pd.DataFrame:
    table = pd.read_csv(io.StringIO(text), names=_ADULT_COLUMNS, skipinitialspace=True, na_values="?")
    _require(table.shape == (32561, 15))
    table = table.dropna()
    table = table[table["native-country"] == "United-States"].reset_index(drop=True)
    _require(len(table) == 27504)
    return table


def _read_boston(text: str) -> pd.DataFrame:
    lines = text.splitlines()
    if lines[0].startswith("506,"):
        table = pd.read_csv(io.StringIO("\n".join(lines[1:])))
    else:
        # The original file: a description, then two lines per tract.
        start = next(k for k, line in enumerate(lines) if line.split()[:1] == ["0.00632"])
        numbers = [float(number) for line in lines[start:] for number in line.split()]
        _require(len(numbers) == 506 * 14)
        table = pd.DataFrame([numbers[k : k + 14] for k in range(0, len(numbers), 14)], columns=_BOSTON_COLUMNS)
    _require(table.shape == (506, 14) and list(table) == _BOSTON_COLUMNS)
    return table


def _require(is_right: bool) -> None:
    if not is_right:
        raise ValueError("its size or counts do not match the data set")


def cache_folder() -> Path:
    """Return the folder for downloaded files."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", str(Path.home()))
    else:
        base = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    return Path(base) / "truewood"


def _load(name: str, read: Callable[[str], pd.DataFrame]) -> pd.DataFrame:
    """Read a file from $TRUEWOOD_DATA or the cache, or else download and cache it."""
    given = os.environ.get(DATA_VARIABLE)
    for folder in [*([Path(given)] if given else []), cache_folder()]:
        if (folder / name).is_file():
            return _read_checked((folder / name).read_bytes(), read, str(folder / name))
    content = _download(name)
    table = _read_checked(content, read, _ADDRESSES[name])
    cache_folder().mkdir(parents=True, exist_ok=True)
    # Written to a temporary file first, so that no other process sees half a file.
    with tempfile.NamedTemporaryFile(dir=cache_folder(), delete=False) as file:
        file.write(content)
    Path(file.name).replace(cache_folder() / name)
    return table


def _read_checked(content: bytes, read: Callable[[str], pd.DataFrame], source: str) -> pd.DataFrame:
    try:
        return read(content.decode())
    except (ValueError, LookupError, StopIteration) as error:
        raise ValueError(
            f"{source} does not have the expected content ({error}); save a correct copy in {cache_folder()} or in the "
            f"folder set by {DATA_VARIABLE}."
        ) from error


def _download(name: str) -> bytes:
    address = _ADDRESSES[name]
    try:
        with urllib.request.urlopen(address, timeout=60) as response:
            size = int(response.headers.get("Content-Length") or 0)
            with wrap_file(response, size, description=name, console=Console(stderr=True)) as file:
                content: bytes = file.read()
        if size and len(content) != size:
            raise urllib.error.URLError(f"got {len(content)} of {size} bytes")
        if address.endswith(".zip"):
            content = zipfile.ZipFile(io.BytesIO(content)).read(name)
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, zipfile.BadZipFile, KeyError) as error:
        reason = getattr(error, "reason", error)
        remedy = f"download it from {address} and save it as {name}"
        if address.endswith(".zip"):
            remedy = f"download {address}, extract {name} from it, and save {name}"
        raise OSError(
            f"{name} was not found and could not be downloaded ({reason}); {remedy} in {cache_folder()} or in the "
            f"folder set by {DATA_VARIABLE}."
        ) from error
    return content


def __dir__() -> list[str]:
    return list(__all__)
