from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.ensemble import RandomForestClassifier

import truewood as tw

KINDS = ["bar", "compare", "box", "rank"]


def make_result(n_features, **options):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, n_features))
    forest = RandomForestClassifier(6, random_state=0).fit(X, X[:, 1] > 0)
    return tw.importance(forest, X, X[:, 1] > 0, **options)


@pytest.fixture(scope="module")
def result():
    return make_result(30)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_draws_on_an_axes_of_its_own(result, kind, tmp_path):
    import matplotlib

    backend = matplotlib.get_backend()
    ax = result.plot(kind)
    ax.figure.savefig(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 5000
    assert matplotlib.get_backend() == backend
    assert ax.get_title()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_draws_where_it_is_told(result, kind):
    ax = Figure().subplots()
    assert result.plot(kind, ax=ax) is ax


def test_bars_are_the_scores_in_order(result):
    ax = result.plot("bar", top=5)
    widths = [bar.get_width() for bar in ax.patches]
    np.testing.assert_array_equal(widths, np.sort(result.values)[::-1][:5])
    assert [label.get_text() for label in ax.get_yticklabels()] == result.frame()["feature"][:5].tolist()
    assert ax.get_title().endswith("(top 5 of 30)")
    assert len(result.plot("bar", top=None).patches) == 30


def test_compare_names_each_feature_on_both_sides(result):
    texts = [text.get_text() for text in result.plot("compare", top=4).texts]
    table = result.frame()[:4]
    assert texts[0] == f"{table['feature'][0]}  {table['mdi_rank'][0]}"
    assert texts[1] == f"{table['rank'][0]}  {table['feature'][0]}"
    assert len(texts) == 8


def test_box_shows_scores_by_tree(result):
    ax = result.plot("box", top=3)
    assert ax.get_xlabel() == "decrease in Gini impurity, by tree (6 trees)"


def test_names_are_text_not_mathematics(tmp_path):
    result = make_result(3, groups=["$x^{", "a_long_name" * 10, "<b>"])
    for kind in KINDS:
        result.plot(kind).figure.savefig(tmp_path / "picture.png")


@pytest.mark.parametrize("measure", tw.measures())
def test_every_measure_has_a_title(measure):
    assert make_result(3, measure=measure, random_state=0).plot().get_title()


def test_bad_arguments(result):
    with pytest.raises(ValueError, match="kind must be one of bar, compare, box, rank, got 'pie'"):
        result.plot("pie")
    with pytest.raises(ValueError, match="top must be at least 1, or None for all features, got 0"):
        result.plot(top=0)
