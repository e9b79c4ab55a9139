"""The progress bar: on stderr, in a terminal, where it is wanted."""

from __future__ import annotations

import pytest

from truewood._progress import show_progress


def run(**options):
    with show_progress("fitting", total=7, **options) as update:
        for done in (3, 7):
            update(done)


def test_it_is_silent_without_a_terminal(capfd):
    run()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("is_wanted", "unit"), [(True, ""), (True, "trees"), (False, "trees")])
def test_it_shows_what_is_done_in_a_terminal(is_wanted, unit, monkeypatch, capfd):
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes any output for a terminal
    run(done=2, unit=unit, is_wanted=is_wanted)
    out, err = capfd.readouterr()
    assert out == ""
    assert all((text in err) is is_wanted for text in ("fitting", "7/7"))
    assert ("trees" in err) is (is_wanted and unit == "trees")


def test_an_error_goes_through(monkeypatch, capfd):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with pytest.raises(RuntimeError, match="stopped"), show_progress("fitting", total=2):
        raise RuntimeError("stopped")
    assert "0/2" in capfd.readouterr().err
