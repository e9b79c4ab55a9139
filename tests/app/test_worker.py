"""Jobs of the worker: how it describes errors."""

from __future__ import annotations

import pytest

from truewood._app.worker import describe_columns, describe_error
from truewood._message import Message
from truewood.tabular import TableError

pytestmark = pytest.mark.any_engine


def test_errors_suggest_what_the_page_offers():
    reason = Message("too many classes.", "To predict numbers, use {task}", task="regression")
    assert describe_error(TableError(reason, "target")) == "too many classes. To predict numbers, use Task: regression"
    hidden = Message("too many rows.", "Limit the trees with {max_depth}", max_depth=3)
    assert describe_error(TableError(hidden, "n_estimators")) == "too many rows."


def test_long_examples_are_cut_visibly(tmp_path):
    texts = ["word " * 20 + str(k) for k in range(30)]
    (tmp_path / "table.csv").write_text("\n".join(["text,x", *(f"{text},{k}" for k, text in enumerate(texts))]))
    (text, x) = describe_columns(lambda **_: None, file=str(tmp_path / "table.csv"))["columns"]
    assert all(len(example) == 40 and example.endswith("…") for example in text["examples"])
    assert "…" not in "".join(x["examples"])
