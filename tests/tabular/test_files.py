"""Files with tables."""

from __future__ import annotations

import gzip
import json
import random

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from helpers.messages import find_lacking
from helpers.mixed_table import TABLE, add_types, find_values, score
from truewood.tabular import FileContent, Messages, TableError, score_table
from truewood.tabular._errors import UnknownFormatError
from truewood.tabular._files.reading import parse_file, read_file

pytestmark = pytest.mark.any_engine

SMALL = pd.DataFrame({"x": np.arange(40) % 7 / 7, "color": ["red", "blue"] * 20, "y": ["no", "no", "yes", "yes"] * 10})
CSV = SMALL.to_csv(index=False)
FORMATS = ("data.csv", "a.tsv", "b.csv", "a.csv.gz", "a.parquet", "a.feather", "a.jsonl", "a.ndjson.gz", "a.xlsx")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The table in all formats; Parquet and Feather with types of their own."""
    pytest.importorskip("pyarrow")
    pytest.importorskip("openpyxl")
    folder = tmp_path_factory.mktemp("formats")
    TABLE.to_csv(folder / "data.csv", index=False)
    TABLE.to_csv(folder / "a.tsv", index=False, sep="\t")
    TABLE.to_csv(folder / "b.csv", index=False, sep=";", encoding="utf-16")
    (folder / "a.csv.gz").write_bytes(gzip.compress((folder / "data.csv").read_bytes()))
    typed = add_types(TABLE)
    typed.to_parquet(folder / "a.parquet")
    typed.assign(when=typed["when"].dt.date).to_feather(folder / "a.feather")
    typed.to_excel(folder / "a.xlsx", index=False)
    records = "".join(json.dumps(record) + "\n\n" for record in TABLE.to_dict("records"))
    (folder / "a.jsonl").write_text(records)
    (folder / "a.ndjson.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf" + records.encode()))
    return folder


@pytest.fixture(scope="module")
def expected():
    """Scores of the table itself."""
    return score(TABLE, "y", n_estimators=20)


def assert_same(scored, expected):
    assert [(column.name, column.dtype) for column in scored.columns] == [
        (column.name, column.dtype) for column in expected.columns
    ]
    assert_array_equal(scored.result.values, expected.result.values)
    assert_array_equal(scored.result.p_value, expected.result.p_value)


@pytest.mark.parametrize("name", FORMATS)
def test_formats_give_the_same_numbers(name, folder, expected):
    scored = score(folder / name, "y", n_estimators=20)
    assert_same(scored, expected)
    assert scored.messages[0] == f"read {name}: 300 rows, 10 columns"


@pytest.mark.parametrize("name", ["data.csv", "a.csv.gz", "a.parquet", "a.feather", "a.tsv", "a.jsonl", "a.xlsx"])
def test_the_content_determines_the_format_too(name, folder, expected):
    assert_same(score(FileContent("standard input", (folder / name).read_bytes()), "y", n_estimators=20), expected)


def test_letters_of_windows(tmp_path):
    text = TABLE[["x", "city", "y"]].replace("Rome", "Málaga").to_csv(index=False)
    (tmp_path / "a.csv").write_bytes(text.encode("cp1252"))
    assert "Windows-1252" in score(tmp_path / "a.csv", "y", n_estimators=5).messages[0]


def test_names_in_quotes_may_break_lines(tmp_path):
    text = TABLE[["x", "amount", "y"]].to_csv(index=False, header=False)
    (tmp_path / "a.csv").write_text('"a;\nb","c;d;e",y\n' + text)
    assert set(find_values(score(tmp_path / "a.csv", "y", n_estimators=5))) == {"a;\nb", "c;d;e"}


def test_commas_are_decimal_between_semicolons(tmp_path):
    def read():
        return parse_file(read_file(tmp_path / "a.csv"), Messages())

    numbers = [f"{1 + k % 7},{100 + 3 * k}" for k in range(100)]
    table = pd.DataFrame({"x": numbers, "g": ["a, b", "c"] * 50, "y": ["u", "v"] * 50})
    table.to_csv(tmp_path / "a.csv", index=False, sep=";")
    assert read()["x"][:2].tolist() == ["1.100", "2.103"]
    assert read()["g"][0] == "a, b"
    table.to_csv(tmp_path / "a.csv", index=False)
    assert read()["x"][0] == "1,100"


HEADER_ONLY = "x,color,y\n"
GARBAGE = bytes(range(256)) * 20
NO_TEXT = bytes(k for k in GARBAGE if k != 0)

BAD_FILES = {
    "empty file": ("a.csv", "", ["a.csv", "empty"]),
    "blank lines only": ("a.csv", "\n\n\n", ["a.csv", "empty"]),
    "header only": ("a.csv", HEADER_ONLY, ["a.csv", "no rows"]),
    "one column": ("a.csv", "y\n" + "1\n2\n" * 20, ["single column", "'y'"]),
    "one row": ("a.csv", HEADER_ONLY + "1,red,yes\n", ["20 rows", "1"]),
    "too few rows": ("a.csv", HEADER_ONLY + "1,red,yes\n2,blue,no\n" * 9, ["20 rows", "18"]),
    "target missing in every row": ("a.csv", HEADER_ONLY + "1,red,\n2,blue,NA\n" * 20, ["'y'", "empty"]),
    "constant target": ("a.csv", HEADER_ONLY + "1,red,no\n2,blue,no\n" * 20, ["'y'", "constant"]),
    "a name twice": ("a.csv", "x,x,y\n" + "1,2,a\n3,4,b\n" * 20, ["columns", "'x'"]),
    "a row too long": (
        "a.csv",
        HEADER_ONLY + "1,red,no\n1,red,no,2\n" * 20,
        ["line 3", "4 fields", "3"],
    ),
    "a row too short": ("a.csv", HEADER_ONLY + "1,red,no\n1,red\n" * 20, ["line 3", "2 fields", "3"]),
    "a quote without end": ("a.csv", HEADER_ONLY + "1,red,no\n" * 20 + '1,"red,no\n', ["a.csv", "EOF inside string"]),
    "zero bytes": ("a.csv", GARBAGE, ["a.csv", "null bytes"]),
    "no encoding": ("a.csv", NO_TEXT, ["UTF-8", "Windows-1252"]),
    "UTF-16 without a mark": ("a.csv", CSV.encode("utf-16-le"), ["UTF-8"]),
    "unknown ending": ("a.docx", CSV, ["a.docx", ".csv"]),
    "no Excel file": ("a.xlsx", CSV, ["a.xlsx", "Excel", "File is not a zip file"]),
    "broken Excel file": ("a.xlsx", b"PK\x03\x04" + GARBAGE, ["a.xlsx", "Excel"]),
    "no JSON": ("a.jsonl", '{"x": 1}\n{"x": 2', ["a.jsonl", "JSON", "line 2 ", "column 8"]),
    "JSON but no objects": ("a.jsonl", "[1, 2]\n", ["line 1", "object", "list"]),
    "no ending": ("table", CSV, ["table", ".csv"]),
    "broken gzip": ("a.csv.gz", gzip.compress(CSV.encode())[:-30], ["a.csv.gz", "gzip"]),
    "no gzip": ("a.csv.gz", CSV, ["a.csv.gz", "gzip"]),
    "broken parquet": ("a.parquet", b"PAR1" + GARBAGE + b"PAR1", ["a.parquet", "Parquet"]),
    "cut parquet": ("a.parquet", GARBAGE, ["a.parquet", "Parquet", "Save the file again"]),
    "broken feather": ("a.feather", GARBAGE, ["a.feather", "Feather"]),
    "all labels differ": (
        "a.csv",
        HEADER_ONLY + "".join(f"{k % 3},red,label{k}\n" for k in range(40)),
        ["'y'", "40", "40 rows"],
    ),
    "target of dates": (
        "a.csv",
        HEADER_ONLY + "".join(f"{k % 3},red,2020-01-{1 + k % 28:02d}\n" for k in range(40)),
        ["'y'", "classes", "dates"],
    ),
    "infinite values": (
        "a.csv",
        HEADER_ONLY + "1,red,no\ninf,blue,yes\n" * 20,
        ["'x'", "infinite", "20 rows", "drop=['x']"],
    ),
    "too large values": (
        "a.csv",
        HEADER_ONLY + "1,red,no\n1e200,blue,yes\n" * 20,
        ["'x'", "infinite", "20 rows"],
    ),
    "infinite target": (
        "a.csv",
        HEADER_ONLY + "1,red,1.5\n2,blue,inf\n" * 20,
        ["'y'", "infinite", "20 rows"],
    ),
    "a word among the numbers of the target": (
        "a.csv",
        HEADER_ONLY + "".join(f"{k % 3},red,{k + 0.5}\n" for k in range(40)) + "1,red,broken\n",
        ["'y'", "'broken'", "1 of 41 rows", "task='classification'"],
    ),
    "no column to use": (
        "a.csv",
        HEADER_ONLY + "".join(f"{k},red,{k % 2}\n" for k in range(40)),
        ["no column"],
    ),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_files_that_cannot_be_used(case, tmp_path):
    name, content, words = BAD_FILES[case]
    if name.endswith((".parquet", ".feather", ".xlsx")):
        pytest.importorskip("openpyxl" if name.endswith(".xlsx") else "pyarrow")
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(TableError) as caught:
        score_table(tmp_path / name, "y")
    assert not find_lacking(str(caught.value), *words)
    assert caught.value.argument == ("target" if "target" in case or case == "all labels differ" else "table")


def test_an_unknown_format_is_an_error_of_its_own(tmp_path):
    (tmp_path / "a.docx").write_text(CSV)
    with pytest.raises(UnknownFormatError):
        score_table(tmp_path / "a.docx", "y")


@pytest.mark.parametrize(("path", "words"), [("none.csv", r"none\.csv"), ("", "folder")])
def test_paths_that_lead_nowhere(path, words, tmp_path):
    with pytest.raises(TableError, match=words):
        score_table(str(tmp_path / path), "y")


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setattr("truewood._extras.find_spec", {}.get)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(TableError, match=r"Parquet.*pyarrow.*'truewood\[cli\]'"):
        score_table(tmp_path / "a.parquet", "y")


def test_excel_without_openpyxl(tmp_path, monkeypatch):
    monkeypatch.setattr("truewood._extras.find_spec", {}.get)
    (tmp_path / "a.xlsx").write_bytes(b"PK")
    with pytest.raises(TableError, match=r"a\.xlsx.*openpyxl.*'truewood\[excel\]'"):
        score_table(tmp_path / "a.xlsx", "y")


def test_the_first_sheet_is_read_and_the_others_are_reported(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["x", None, "y"], [1, "=1+1"], [2.5, "b", True]):
        book.active.append(row)
    book.create_sheet("more")
    book.save(tmp_path / "a.xlsx")
    messages = Messages()
    table = parse_file(read_file(tmp_path / "a.xlsx"), messages)
    assert list(table) == ["x", "unnamed 2", "y"]
    assert table.to_numpy().tolist() == [[1, None, None], [2.5, "b", True]]
    assert not find_lacking(*messages.messages, "a.xlsx", "2 sheets", "Sheet")


def test_an_excel_file_that_would_fill_the_memory(tmp_path, monkeypatch):
    pytest.importorskip("openpyxl")
    monkeypatch.setattr("truewood.tabular._files.reading.LARGEST_EXPANSION", 1000)
    monkeypatch.setattr("truewood.tabular._files.reading.LARGEST_RATIO", 2)
    pd.DataFrame({"x": ["a"] * 5000}).to_excel(tmp_path / "a.xlsx")
    with pytest.raises(TableError, match="GiB"):
        parse_file(read_file(tmp_path / "a.xlsx"), Messages())


def test_a_long_field_is_a_field(tmp_path):
    """Python's own reader, which looks for rows that are too short, stops at fields of 131,072 characters."""
    text = "x,note,y\n" + f"1,{'a' * 200_000},no\n2,b,yes\n3,c,\n" * 20
    (tmp_path / "a.csv").write_text(text)
    assert parse_file(read_file(tmp_path / "a.csv"), Messages()).shape == (60, 3)


@pytest.fixture
def arrow_table():
    pa = pytest.importorskip("pyarrow")
    return pa.table({"x": np.arange(40.0), "color": ["red", "blue"] * 20, "y": ["no", "yes"] * 20})


def write_arrow(table, path):
    from pyarrow import feather, parquet

    if path.suffix == ".parquet":
        parquet.write_table(table, path, compression="none", use_dictionary=False)
    else:
        feather.write_feather(table, path, compression="uncompressed")


@pytest.mark.parametrize("name", ["a.parquet", "a.feather"])
def test_letters_that_are_none_in_a_column(name, arrow_table, tmp_path):
    write_arrow(arrow_table, tmp_path / name)
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content.replace(b"blue", b"bl\xff\xfe"))
    with pytest.raises(TableError, match=rf"{name}.*\w+ file.*UTF"):
        score_table(tmp_path / name, "y")


@pytest.mark.parametrize("name", ["a.parquet", "a.feather"])
@pytest.mark.parametrize("metadata", [{"index_columns": ["none"], "columns": [], "column_indexes": []}, {}, [], 1])
def test_what_pandas_adds_to_a_file_is_wrong(name, metadata, arrow_table, tmp_path):
    """It is an error in words, or does not matter."""
    marked = arrow_table.replace_schema_metadata({"pandas": json.dumps(metadata)})
    write_arrow(marked, tmp_path / name)
    with pytest.raises(TableError, match=rf"{name}.*read"):
        score_table(tmp_path / name, "y")


ZEROS = "x,y\n" + "0,0\n" * 100_000


def write_bomb(path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import feather, parquet

    zeros = pa.table({name: np.zeros(200_000) for name in "xy"})
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(ZEROS.encode()))
    elif path.suffix == ".parquet":
        parquet.write_table(zeros, path)
    else:
        feather.write_feather(zeros, path, compression="zstd")


@pytest.mark.parametrize("name", ["a.csv.gz", "a.parquet", "a.feather"])
def test_small_files_do_not_become_large_tables(name, tmp_path, monkeypatch):
    monkeypatch.setattr("truewood.tabular._files.reading.LARGEST_EXPANSION", 100_000)
    write_bomb(tmp_path / name)
    words = rf"{name}.*[\d,]+ bytes.*0\.0 GiB"
    with pytest.raises(TableError, match=words):
        score_table(tmp_path / name, "y")
    monkeypatch.setattr("truewood.tabular._files.reading.LARGEST_RATIO", 10_000)
    with pytest.raises(TableError, match=r"same value|constant"):
        score_table(tmp_path / name, "y")


def test_long_text_that_repeats_does_not_become_a_large_table(tmp_path, monkeypatch):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("truewood.tabular._files.reading.LARGEST_EXPANSION", 1_000_000)
    text = pa.array(["x" * 100_000] * 600).dictionary_encode()
    table = pa.table({"text": text.cast(pa.string()), "y": [0.0, 1.0] * 300})
    pq.write_table(table, tmp_path / "bomb.parquet", store_schema=False)
    assert (tmp_path / "bomb.parquet").stat().st_size < 10_000
    with pytest.raises(TableError, match=r"bomb.parquet.*[\d,]+ bytes.*0\.0 GiB"):
        score_table(tmp_path / "bomb.parquet", "y")


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_tables_are_read_or_refused(name, folder, tmp_path):
    rng = random.Random(name)
    for _ in range(40):
        content = bytearray((folder / name).read_bytes())
        if rng.random() < 0.3:
            del content[rng.randrange(len(content)) :]
        if rng.random() < 0.3:
            start = rng.randrange(len(content))
            del content[start : start + rng.randrange(60)]
        for _ in range(rng.choice([1, 3, 10])):
            content[rng.randrange(len(content))] = rng.randrange(256)
        (tmp_path / name).write_bytes(content)
        reason = ""
        try:
            parse_file(read_file(tmp_path / name), Messages())
        except TableError as error:
            reason = error.reason
        assert not reason or name in reason
        assert "\n" not in reason
        assert len(reason) < 400


def test_a_feather_file_that_claims_a_huge_size_is_refused(tmp_path):
    """The bytes of a buffer's size are changed, so that Arrow asks for more memory than there is."""
    feather = pytest.importorskip("pyarrow.feather")
    feather.write_feather(pd.DataFrame({"x": np.zeros(1000), "y": np.arange(1000.0)}), tmp_path / "a.feather")
    content = (tmp_path / "a.feather").read_bytes()
    size = (8000).to_bytes(8, "little")  # of a column before it was compressed
    assert size in content
    (tmp_path / "a.feather").write_bytes(content.replace(size, (2**61).to_bytes(8, "little")))
    with pytest.raises(TableError, match=r"a\.feather.*Feather.*2305843009213693952"):
        score_table(tmp_path / "a.feather", "y")


def test_a_zip_that_python_cannot_open_is_no_excel_file(tmp_path):
    pytest.importorskip("openpyxl")
    pd.DataFrame({"x": [1, 2], "y": [3, 4]}).to_excel(tmp_path / "a.xlsx")
    content = bytearray((tmp_path / "a.xlsx").read_bytes())
    content[content.index(b"PK\x01\x02") + 6] = 145  # the version of zip that it needs
    (tmp_path / "a.xlsx").write_bytes(content)
    with pytest.raises(TableError, match=r"a\.xlsx.*Excel.*zip file version 14\.5"):
        score_table(tmp_path / "a.xlsx", "y")


def test_the_first_version_of_feather_is_refused(tmp_path):
    (tmp_path / "a.feather").write_bytes(b"FEA1" + b"\0" * 100 + b"FEA1")
    with pytest.raises(TableError, match=r"a\.feather.*Feather.*version 1\b"):
        score_table(tmp_path / "a.feather", "y")
