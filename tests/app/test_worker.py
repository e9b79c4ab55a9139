"""Jobs of the worker: how it describes errors."""

from __future__ import annotations

import pytest

from truewood._app.worker import describe_error
from truewood._message import Message
from truewood.tabular import TableError

pytestmark = pytest.mark.any_engine


def test_errors_suggest_what_the_page_offers():
    reason = Message("too many classes.", "To predict numbers, use {task}", task="regression")
    assert describe_error(TableError(reason, "target")) == "too many classes. To predict numbers, use Task: regression"
    hidden = Message("too many rows.", "Limit the trees with {max_depth}", max_depth=3)
    assert describe_error(TableError(hidden, "n_estimators")) == "too many rows."
