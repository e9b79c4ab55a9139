"""Use of scikit-learn beyond its public API: warning filters that its threads damage."""

from __future__ import annotations

import threading
import warnings

import pytest

from truewood._sklearn_compat import keep_warning_filters

NOISE = "`sklearn.utils.parallel.delayed` should be used with `sklearn.utils.parallel.Parallel`"


def damage():
    """What threads of scikit-learn do by chance."""
    warnings.filters.clear()
    warnings.warn(NOISE, UserWarning, stacklevel=1)
    warnings.warn("of the user", UserWarning, stacklevel=1)


def test_filters_are_kept_and_only_the_noise_is_dropped():
    before = list(warnings.filters)
    with pytest.warns(UserWarning, match="of the user") as caught, keep_warning_filters():
        damage()
    assert [str(warning.message) for warning in caught] == ["of the user"]
    assert caught[0].filename == __file__
    assert warnings.filters == before


def fail():
    with keep_warning_filters():
        warnings.filters.clear()
        raise ValueError("no fit")


def test_an_error_passes_and_filters_are_kept():
    before = list(warnings.filters)
    with pytest.raises(ValueError, match="no fit"):
        fail()
    assert warnings.filters == before


def test_other_threads_do_not_touch_the_filters():
    filters = []

    def run():
        with keep_warning_filters():
            filters.append(warnings.filters)

    before = warnings.filters
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert filters[0] is before
