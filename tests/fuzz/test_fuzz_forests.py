"""Trees and forests of scikit-learn, imbalanced-learn and quantile-forest with random options, against the oracle."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from imblearn.ensemble import BalancedRandomForestClassifier
from quantile_forest import ExtraTreesQuantileRegressor, RandomForestQuantileRegressor
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor

import truewood as tw
from helpers.fuzz_checks import check_scores, score_everywhere
from helpers.fuzz_profiles import share
from helpers.oracle import score_forest
from helpers.sklearn_models import N_ROWS, VERSION, Case, build_case, draw_donors, records_bags

pytestmark = pytest.mark.asan

FORESTS = {
    "classifier": [RandomForestClassifier, ExtraTreesClassifier, BaggingClassifier, BalancedRandomForestClassifier],
    "regressor": [
        RandomForestRegressor,
        ExtraTreesRegressor,
        BaggingRegressor,
        RandomForestQuantileRegressor,
        ExtraTreesQuantileRegressor,
    ],
}
TREES = {
    "classifier": [DecisionTreeClassifier, ExtraTreeClassifier],
    "regressor": [DecisionTreeRegressor, ExtraTreeRegressor],
}
WITHOUT_MISSING = (BaggingClassifier, BaggingRegressor, BalancedRandomForestClassifier)
QUANTILE = (RandomForestQuantileRegressor, ExtraTreesQuantileRegressor)


@st.composite
def cases(draw):
    task = draw(st.sampled_from(["classifier", "regressor"]))
    make = draw(st.sampled_from(FORESTS[task] + TREES[task]))
    is_bagging, is_forest = make in (BaggingClassifier, BaggingRegressor), make in FORESTS[task]
    options = draw_bagging(draw, task) if is_bagging else draw_growth(draw, task, make)
    if is_forest and not is_bagging and make is not BalancedRandomForestClassifier:
        options["bootstrap"] = draw(st.booleans())
        if options["bootstrap"]:
            options["max_samples"] = draw(st.sampled_from([None, 0.3, 0.9, 20, 1]))
    labels = ["binary", "string", "bool", "three"] if task == "classifier" else ["number"]
    if make not in (*QUANTILE, BalancedRandomForestClassifier, BaggingClassifier):
        labels += ["several"] if task == "classifier" else ["numbers"]
    takes_missing = make not in (*WITHOUT_MISSING, *QUANTILE) and VERSION >= (1, 8)
    missing = takes_missing and draw(st.booleans()) and "monotonic_cst" not in options
    takes_weights = make not in (*QUANTILE, BalancedRandomForestClassifier) and is_forest
    return Case(
        make,
        options,
        labels=draw(st.sampled_from(labels)),
        missing=missing and options.get("criterion") != "absolute_error",
        container=draw(st.sampled_from(["float64", "float32"] + ([] if missing else ["csr", "csc"]))),
        # Draws by weight without replacement have no closed form of their probability.
        weighted=takes_weights and draw(st.booleans()) and (options["bootstrap"] or not is_bagging),
        odd=draw(st.booleans()),
        scale=draw(st.sampled_from([1.0, 1e-12, 1e-6, 1e6, 1e12])),
        offset=draw(st.sampled_from([0.0, 1.0, 1e3, 1e6])),
    )


def draw_bagging(draw, task):
    return {
        "max_samples": draw(st.sampled_from([1.0, 0.5, 10])),
        "max_features": draw(st.sampled_from([1.0, 0.5])),
        "bootstrap": draw(st.booleans()),
        "bootstrap_features": draw(st.booleans()),
        "estimator": draw(st.sampled_from(TREES[task]))(max_depth=draw(st.sampled_from([None, 2]))),
    }


def draw_growth(draw, task, make):
    classes = ["gini", "entropy", "log_loss"]
    numbers = ["squared_error", "absolute_error", "poisson"]
    options = {
        "max_depth": draw(st.sampled_from([None, 1, 3])),
        "min_samples_leaf": draw(st.sampled_from([1, 5, 25])),
        "max_leaf_nodes": draw(st.sampled_from([None, 2, 6])),
        "max_features": draw(st.sampled_from([None, 1])),
        "ccp_alpha": draw(st.sampled_from([0.0, 0.02])),
        "criterion": draw(st.sampled_from(classes if task == "classifier" else numbers)),
    }
    if make in QUANTILE:
        options["criterion"] = "squared_error"
    if task == "classifier":
        weights = [None, "balanced"] + (["balanced_subsample"] if make in FORESTS[task] else [])
        options["class_weight"] = draw(st.sampled_from(weights))
    return options


@share(0.3)
@given(case=cases(), measure=st.sampled_from(list(tw.measures())), seed=st.integers(0, 2**31 - 1), own=st.booleans())
def test_forests(case, measure, seed, own):
    # The oracle has no class weights of several outputs, or of weighted rows.
    assume(case.options.get("class_weight") is None or not (case.labels == "several" or case.weighted))
    # Medians at the nodes, and no training rows to take means from; two measures need the rows of the fit.
    needs_bags = measure in ("sobol_mda", "mdi_plus_oob") or case.options.get("criterion") == "absolute_error"
    assume(records_bags(case) or not needs_bags)
    rng = np.random.default_rng(seed)
    built = build_case(case, seed, rng)
    rows, weight = built.rows, built.sample_weight
    first = N_ROWS if rows == "heldout" else 0  # the oracle has the training rows before those that are passed
    if rows == "heldout" and rng.random() < 0.5:
        weight = rng.integers(0, 4, N_ROWS).astype(float)
        for tree in built.trees:
            tree.evaluation = [(row, weight[row - first]) for row, _ in tree.evaluation]
    if own and not (VERSION >= (1, 9) and rows == "oob" and (case.weighted or case.options.get("class_weight"))):
        for tree in built.trees:  # lists with repeated rows, and empty ones
            picked = rng.integers(0, max(1, len(tree.evaluation)), int(rng.integers(0, 30))) if tree.evaluation else []
            tree.evaluation = [tree.evaluation[k] for k in picked]
        rows = [np.array([row - first for row, _ in tree.evaluation], dtype=int) for tree in built.trees]
    result = score_everywhere(
        built.model,
        built.X,
        built.y,
        rows=rows,
        measure=measure,
        sample_weight=weight,
        random_state=seed % 1000,
        contributions=measure in ("auto", "ufi", "ufi_centered", "mdi_oob", "mdi_plus_oob", "sobol_mda"),
    )
    if isinstance(result, str):
        total = sum(weight for tree in built.trees for _, weight in tree.evaluation)
        assert (total <= 0 and measure != "mdi") or re.search(r"\by\b.*(varies|same|constant)", result)
        return
    donors = draw_donors(built, seed % 1000)
    expected = score_forest(
        result.measure, built.trees, built.dense, built.codes, built.n_classes, donors, built.sample_weight
    )
    check_scores(result, expected, None if case.is_classifier else built.codes)


def test_the_cases_hold_both_kinds_of_rows():
    assert records_bags(Case(RandomForestClassifier))
    assert not records_bags(Case(ExtraTreesClassifier))
