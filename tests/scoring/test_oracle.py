"""Both engines against the oracle, over every model, option and measure."""

from __future__ import annotations

import numpy as np
import pytest

import truewood as tw
from helpers.oracle import score_forest
from helpers.sklearn_models import CASES, build, draw_donors, score_built, supported_cases
from truewood._engines.selection import ENGINE_VARIABLE

OF_THE_FIT = ("mdi_plus_oob", "sobol_mda")
SEEDS = [range(3), pytest.param(range(3, 6), marks=pytest.mark.slow)]


@pytest.mark.filterwarnings("ignore:.*max_samples=")  # 60 rows leave few of a class out
@pytest.mark.filterwarnings("ignore:.*samples contain copies")  # which leave fewer
@pytest.mark.filterwarnings("ignore:.* of \\d+ rows")  # of three trees, some do
@pytest.mark.parametrize("seeds", SEEDS, ids=["seeds 0 to 2", "seeds 3 to 5"])
@pytest.mark.parametrize("name", supported_cases())
def test_engines_agree_with_the_oracle(name, seeds, engines, monkeypatch):
    skipped = 0.0
    for seed in seeds:
        built = build(name, seed)
        for measure in tw.measures():
            if measure in OF_THE_FIT and (built.rows != "oob" or seed > 0):
                continue  # they need the rows of the fit, and their oracle is slow
            results = []
            for engine in engines:
                monkeypatch.setenv(ENGINE_VARIABLE, engine)
                results.append(score_built(built, measure, random_state=seed))
            for result in results[1:]:
                np.testing.assert_array_equal(result.values, results[0].values)
                np.testing.assert_array_equal(result.per_tree, results[0].per_tree)
                np.testing.assert_array_equal(result.mdi, results[0].mdi)
            defined = find_default(built) if measure == "auto" else measure
            expected = score_forest(
                defined,
                built.trees,
                built.dense,
                built.codes,
                built.n_classes,
                draw_donors(built, seed),
                built.sample_weight,
            )
            np.testing.assert_allclose(results[0].values, expected, rtol=1e-12, atol=1e-12, err_msg=measure)
            skipped += results[0].skipped_weight
    # Deep trees on few rows: some nodes are reached by no evaluation row, so the rule that skips them was put to use.
    if not {"max_depth", "max_leaf_nodes", "ccp_alpha"} & set(CASES[name].options):
        assert skipped > 0


def find_default(built):
    """The measure that "auto" stands for."""
    weights = {weight for tree in built.trees for _, weight in tree.evaluation}
    if built.rows == "oob" and len(weights) > 1:
        return "mdi_oob"
    return "ufi" if built.case.is_classifier else "ufi_centered"
