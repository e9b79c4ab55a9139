import numpy as np
import pytest
from toy_trees import StumpForest

import truewood as tw
from truewood.testing import check_adapter

rng = np.random.default_rng(0)
X = rng.standard_normal((300, 4)).round(1)
y = X[:, 2] + 0.5 * rng.standard_normal(300)
forest = StumpForest().fit(X, y)


def test_truewood_reads_the_forest_exactly():
    check_adapter(forest, X, y)


def test_the_informative_column_is_the_only_significant_one():
    result = tw.importance(forest, X, y)
    assert result.rows == "oob"
    assert result.select().tolist() == [False, False, True, False]


def test_a_forest_without_a_fit_is_rejected():
    with pytest.raises(ValueError, match="not fitted"):
        tw.importance(StumpForest(), X, y)
