"""The target: rows that have one, classes or numbers, and the weights of the rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from helpers.messages import find_lacking
from helpers.mixed_table import N_ROWS, TABLE, find_significant, find_values, score
from truewood.tabular import TableError, describe_table
from truewood.tabular._columns.target_column import WHY_NO_TARGET

pytestmark = pytest.mark.any_engine

SMALL = TABLE[["x", "city", "y"]]


def test_a_number_is_regression():
    scored = score(TABLE, "amount", drop=["y"])
    assert scored.result.task == "regression"
    assert any(text.startswith("target amount: regression") for text in scored.messages)
    assert scored.performance.name == "R2"
    assert scored.performance.value > 0.3
    assert {"x", "member", "city"} <= find_significant(scored)


def test_rows_without_a_target_are_left_out_with_a_message():
    table = SMALL.copy()
    table.loc[:9, "y"] = ["", "?", "NA", "nan", "null", " ", "N/A", "NaN", "NULL", "#N/A"]
    scored = score(table, "y", n_estimators=5)
    assert any(not find_lacking(text, "10 of 300 rows", "y") for text in scored.messages)
    assert scored.result.n_rows == 290


@pytest.mark.parametrize("dtype", ["category", "string", object])
def test_missing_targets_of_any_type(dtype):
    assert (
        score(SMALL.assign(y=SMALL["y"].where(SMALL.index > 9).astype(dtype)), "y", n_estimators=5).result.n_rows == 290
    )


def test_a_dash_is_a_label():
    table = TABLE[["x", "city"]].assign(edit=np.where(TABLE["y"] == "stays", "+", "-"))
    assert score(table, "edit", n_estimators=5).result.n_rows == N_ROWS


@pytest.mark.parametrize(("task", "found"), [(None, "classification"), ("regression", "regression")])
def test_few_whole_numbers_are_classes_unless_the_task_is_given(task, found):
    table = TABLE[["x", "city"]].assign(grade=pd.cut(TABLE["amount"], 5, labels=False))
    scored = score(table, "grade", task=task, n_estimators=10)
    assert scored.result.task == found
    assert any("task='regression'" in text for text in scored.messages) == (task is None)


def test_two_numbers_are_two_classes_without_more_words():
    table = TABLE[["x", "city"]].assign(stays=(TABLE["y"] == "stays").astype(int))
    assert not any("task='regression'" in text for text in score(table, "stays", n_estimators=2).messages)


TARGETS = {
    "yes in other letters": (["Yes", "yes", "yes", "no", "No ", "no"], None, "2 classes (no: 50.0%, yes: 50.0%)"),
    "two numbers": (["0.5", "1.5", "1.50"], None, "2 classes (1.5: 66.7%, 0.5: 33.3%)"),
    "decimals as classes": (["0.5", "1", "1.0"], "classification", "2 classes (1: 66.7%, 0.5: 33.3%)"),
    "numbers beyond integers": (["1e20", "3e20", "3e20"], None, "2 classes (3e+20: 66.7%, 1e+20: 33.3%)"),
    "numbers and a word": (["0", "1"] * 30 + ["unknown"], None, "3 classes (0: 49.2%, 1: 49.2%, unknown: 1.6%)"),
}


@pytest.mark.parametrize("case", TARGETS)
def test_labels(case):
    values, task, words = TARGETS[case]
    n_rows = 120 // len(values) * len(values)
    table = pd.DataFrame({"x": np.random.default_rng(0).normal(size=n_rows), "t": values * (n_rows // len(values))})
    scored = score(table, "t", task=task, n_estimators=5)
    message = next(text for text in scored.messages if text.startswith("target t: "))
    assert message.startswith(f"target t: classification, {words}")
    assert message.endswith(words) or case == "two numbers"
    assert scored.result.task == "classification"


def test_sample_weight_is_no_feature_and_is_used():
    table = SMALL.assign(w=np.where(TABLE["city"] == "Rome", 1, 3))
    plain, weighted = score(table, "y", drop=["w"]), score(table, "y", sample_weight="w")
    assert set(find_values(weighted)) == {"x", "city"}
    assert find_values(weighted)["x"] != find_values(plain)["x"]


BAD_TARGETS = {
    "missing in every row": (SMALL.assign(y=None), "'y'.*empty"),
    "constant": (SMALL.assign(y="no"), "'y'.*(same value|constant)"),
    "all labels differ": (SMALL.assign(y=[f"label{k}" for k in range(N_ROWS)]), r"\b300\b.*\b300 rows"),
    "dates": (SMALL.assign(y=TABLE["when"]), "dates.*classes.*numbers"),
    "lists": (SMALL.assign(y=[[k] for k in range(N_ROWS)]), "neither numbers nor text"),
    "infinite": (SMALL.assign(y=np.where(TABLE["x"] > 0, np.inf, TABLE["x"])), "'y'.*infinite"),
}


def test_a_target_that_numbers_the_rows_is_refused_unless_the_task_is_given():
    table = SMALL.assign(y=np.random.default_rng(0).permutation(N_ROWS))
    with pytest.raises(TableError, match=r"'y'.*\b300\b.*task='regression'") as caught:
        score(table, "y")
    assert caught.value.argument == "target"
    assert score(table, "y", task="regression").result.task == "regression"
    unique = table.assign(y=97 * table["y"])  # distinct, but with wide gaps, as amounts may be
    assert score(unique, "y", n_estimators=5).result.task == "regression"


IDENTIFIERS = {
    "Individual ID": ([f"p{k // 3:03d}" for k in range(N_ROWS)], r"group identifier.*task='classification'$"),
    "patient": ([k % 60 for k in range(N_ROWS)], r"group identifier.*task='classification'$"),
    "order_id": ([70_000 + 411 * k for k in range(N_ROWS)], r"row identifier.*task='regression'$"),
    "code": ([f"code {k}" for k in range(N_ROWS)], r"row identifier.*choose another target\.$"),
    "comment": ([f"Rain came late in week {k // 2} of that year." for k in range(N_ROWS)], r"free text"),
}


@pytest.mark.parametrize("name", IDENTIFIERS)
def test_identifiers_are_no_target_in_all_front_ends(name):
    values, words = IDENTIFIERS[name]
    table = SMALL.assign(**{name: values})
    for call in (score, lambda table, target: describe_table(table, target=target)):
        with pytest.raises(TableError, match=rf"'{name}'.*\b{N_ROWS} rows.*{words}") as caught:
            call(table, name)
        assert caught.value.argument == "target"
    # The browser page refuses by the inferred type.
    (dtype,) = [column.dtype for column in describe_table(table) if column.name == name]
    assert WHY_NO_TARGET[dtype] in str(caught.value)


def test_an_identifier_can_be_predicted_if_the_task_is_given():
    table = SMALL.assign(patient=IDENTIFIERS["patient"][0])
    assert score(table, "patient", task="classification", n_estimators=5).result.task == "classification"
    assert score(table, "patient", dtypes={"patient": "number"}, n_estimators=5).result.task == "regression"


@pytest.mark.parametrize("case", BAD_TARGETS)
def test_targets_that_cannot_be_used(case):
    table, words = BAD_TARGETS[case]
    with pytest.raises(TableError, match=words) as caught:
        score(table, "y")
    assert caught.value.argument == "target"


def test_a_word_among_the_numbers_of_the_target():
    table = SMALL.assign(y=[*(str(k + 0.5) for k in range(N_ROWS - 1)), "broken"])
    with pytest.raises(TableError, match=r"'broken'.*\b1 of 300 rows.*Remove.*task='classification'"):
        score(table, "y")


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf, "heavy"])
def test_weights_that_cannot_be_used(weight):
    with pytest.raises(TableError, match=r"'w'.*\b0\b") as caught:
        score(SMALL.assign(w=[weight, *[1.0] * (N_ROWS - 1)]), "y", sample_weight="w")
    assert caught.value.argument == "sample_weight"
