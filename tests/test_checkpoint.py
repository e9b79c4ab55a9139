"""The file of finished work: what is appended is read again, whatever a stopped run left at its end."""

from __future__ import annotations

import pytest

from truewood._checkpoint import append_to, read_entries, read_first_entry

pytestmark = pytest.mark.any_engine


def read(path, **options):
    return read_entries(path, keys={"key"}, label="the file", **options)


def write(path, *entries):
    with append_to(path) as append:
        append(*entries)


def test_what_is_appended_is_read(tmp_path):
    path = tmp_path / "checkpoint.jsonl"
    write(path, {"key": "a", "scores": [0.1, 1e-300]}, {"key": "ü"})
    write(path, {"key": "c"})
    assert read(path) == [{"key": "a", "scores": [0.1, 1e-300]}, {"key": "ü"}, {"key": "c"}]
    assert read(path, after=1) == [{"key": "ü"}, {"key": "c"}]
    assert read_first_entry(path) == {"key": "a", "scores": [0.1, 1e-300]}


def test_entries_are_in_the_file_at_once(tmp_path):
    path = tmp_path / "checkpoint.jsonl"
    with append_to(path) as append:
        append({"key": 1})
        assert read(path) == [{"key": 1}]


def test_without_a_file_nothing_is_kept(tmp_path):
    write(None, {"key": 1})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", [None, ""])
def test_new_and_empty_files_hold_nothing(text, tmp_path):
    path = tmp_path / "checkpoint.jsonl"
    if text is not None:
        path.write_text(text)
    assert read(path) == []
    assert read_first_entry(path) is None


@pytest.mark.parametrize("rest", ['{"key": 2', '{"key": 2}'])
def test_a_line_that_was_cut_off_does_not_count_and_goes_with_the_next_entry(rest, tmp_path):
    path = tmp_path / "checkpoint.jsonl"
    path.write_text('{"key": 1}\n' + rest)
    assert read(path) == [{"key": 1}]
    assert path.read_text() == '{"key": 1}\n' + rest  # reading changes nothing
    write(path, {"key": 3})
    assert path.read_text() == '{"key": 1}\n{"key": 3}\n'


@pytest.mark.parametrize("text", ["a,b\n", "[]\n", '{"key": 1}', '"key"\n'])
def test_a_first_line_that_is_no_entry_is_ignored(text, tmp_path):
    (tmp_path / "other").write_text(text)
    assert read_first_entry(tmp_path / "other") == {}


@pytest.mark.parametrize("line", ['{"key": ', '["key"]', '{"other": 1}', "", "3"])
def test_a_damaged_line_is_named(line, tmp_path):
    path = tmp_path / "checkpoint.jsonl"
    path.write_text('{"key": 1}\n' + line + '\n{"key": 2}\n')
    with pytest.raises(ValueError, match=r"the file, line 2\b.*damaged"):
        read(path)
