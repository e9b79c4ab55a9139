from __future__ import annotations

import re

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.text import Text
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

import truewood as tw
from helpers.messages import find_lacking
from truewood._plotting.style import SMALL, UNBIASED

pytestmark = pytest.mark.any_engine

KINDS = ["bar", "compare", "box", "rank", "rank_sets", "classes"]


def find_points(ax):
    return next(drawn for drawn in ax.collections if isinstance(drawn, PathCollection))


def make_result(n_features, **options):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, n_features))
    forest = RandomForestClassifier(6, random_state=0).fit(X, X[:, 1] > 0)
    return tw.importance(forest, X, X[:, 1] > 0, **options)


@pytest.fixture(scope="module")
def result():
    return make_result(30, per_class=True)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_draws_on_a_pyplot_figure_of_its_own(result, kind, tmp_path):
    backend = matplotlib.get_backend()
    plt.figure()
    ax = result.plot(kind)
    assert plt.gcf() is ax.figure
    assert len(plt.get_fignums()) == 2
    ax.figure.savefig(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 5000
    assert matplotlib.get_backend() == backend
    assert ax.get_title()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_draws_on_the_given_axes(result, kind):
    ax = Figure().subplots()
    assert result.plot(kind, ax=ax) is ax
    assert not plt.get_fignums()


def test_a_plot_that_fails_leaves_no_figure_open(result):
    with pytest.raises(ValueError, match="per_class=True"):
        make_result(3).plot("classes")
    with pytest.raises(ValueError, match="alpha"):
        result.plot(alpha=2)
    assert not plt.get_fignums()


def test_bars_and_points_are_the_shares_in_order(result):
    ax = result.plot("bar", top=5)
    shares = 100 * np.sort(result.share)[::-1][:5]
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], shares)
    np.testing.assert_allclose(find_points(ax).get_offsets()[:, 0], shares)
    assert not find_lacking(ax.get_xlabel(), "share", "target", "%", "(UFI)")
    assert [label.get_text() for label in ax.get_yticklabels()] == result.frame()["feature"][:5].tolist()
    assert not find_lacking(ax.get_title().splitlines()[-1], "5", "30")
    assert len(result.plot("bar", top=None).patches) == 30


def test_lines_are_the_rank_sets(result):
    ax = result.plot("rank_sets", top=5, alpha=0.1)
    lines = next(drawn for drawn in ax.collections if isinstance(drawn, LineCollection))
    best, worst = (ranks[result.order[:5]] for ranks in result.rank_sets(0.1))
    np.testing.assert_array_equal([line[:, 0] for line in lines.get_segments()], np.column_stack([best, worst]))
    np.testing.assert_array_equal(find_points(ax).get_offsets()[:, 0], result.frame()["rank"][:5])
    assert not find_lacking(ax.get_title(), "90%", "5", "30")


def test_compare_names_each_feature_on_both_sides(result):
    texts = [text.get_text() for text in result.plot("compare", top=4).texts]
    table = result.frame()[:4]
    assert texts[0] == f"{table['feature'][0]}  {table['mdi_rank'][0]}"
    assert texts[1] == f"{table['rank'][0]}  {table['feature'][0]}"
    assert len(texts) == 8


def test_box_shows_scores_by_tree(result):
    ax = result.plot("box", top=3)
    assert not find_lacking(ax.get_xlabel(), "(UFI)", "share of the variation in the target (%)", "tree")
    assert "6 trees" in ax.get_title()
    medians = [line.get_xdata()[0] for line in ax.lines if to_rgba(line.get_color()) == to_rgba(UNBIASED)]
    scored = result.per_tree[:, result.order[:3]]
    np.testing.assert_allclose(medians, 100 * np.median(scored, axis=0) / result.impurity)


@pytest.mark.parametrize("kind", KINDS)
def test_axes_are_in_the_words_of_readers(result, kind):
    texts = [text.get_text() for part in result.plot(kind).figure.axes for text in part.findobj(Text)]
    assert not [text for text in texts if "Gini" in text or "impurity" in text]


def test_points_show_significance(result):
    alpha = float(np.sort(result.adjusted_p_value())[10])
    ax = result.plot("bar", top=None, alpha=alpha)
    order = np.argsort(-result.values, kind="stable")
    is_found = result.select(alpha)
    is_small = is_found & (result.share < 0.01)
    colors = np.select([is_small, is_found], [SMALL, UNBIASED], "white")[order]
    assert [tuple(fill) for fill in find_points(ax).get_facecolors()] == [to_rgba(color) for color in colors]
    n_large = int(np.count_nonzero(is_found & ~is_small))
    assert 0 < n_large < np.count_nonzero(is_found) < 30
    assert re.match(r"\d+ features? explains? \d+%", ax.get_title())
    assert len(ax.get_legend().get_texts()) == 4
    lines = next(drawn for drawn in ax.collections if isinstance(drawn, LineCollection))
    ends = 100 * np.stack(result.interval(share=True), axis=1)
    assert ends.min() == 0
    np.testing.assert_allclose([line[:, 0] for line in lines.get_segments()], ends[order])


def test_the_level_of_significance_is_the_readers(result):
    alpha = float(np.sort(result.adjusted_p_value())[10])
    n_found = np.count_nonzero(result.select(alpha))
    assert n_found > np.count_nonzero(result.select())
    ax = result.plot("bar", top=None, alpha=alpha, title="What predicts $y$?")
    lines = ax.get_title().replace("\N{NO-BREAK SPACE}", " ").split("\n")
    assert lines[0] == "What predicts $y$?"
    assert min(map(len, lines[1:])) > max(map(len, lines[1:])) / 2  # no word stands alone
    assert re.search(rf"{100 * alpha:g} ?% false discovery rate", " ".join(lines))
    white = to_rgba("white")
    assert sum(tuple(fill) != white for fill in find_points(ax).get_facecolors()) == n_found
    with pytest.raises(ValueError, match=r"alpha.*\b0\b.*\b1\b.*\b0\b"):
        result.plot(alpha=0)


def test_no_significant_feature_is_reported():
    ax = make_result(3, measure="loss_oob").plot()
    assert "biased downward" in ax.get_title()
    assert ax.get_legend() is None
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((100, 3)), rng.random(100) > 0.5
    noise = tw.importance(RandomForestClassifier(6, random_state=0).fit(X, y), X, y)
    assert not noise.select().any()
    title = noise.plot().get_title().replace("\N{NO-BREAK SPACE}", " ")
    assert re.search(r"\b3 features\b.*5 ?% false discovery rate", title)


def test_ranks_of_boosted_trees_are_drawn_without_shares():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 4))
    y = X[:, 1] > 0
    model = GradientBoostingClassifier(loss="exponential", n_estimators=5, random_state=0).fit(X[:100], y[:100])
    result = tw.importance(model, X[100:], y[100:], rows="heldout")
    assert np.isnan(result.share).all()
    ax = result.plot("rank")
    assert "largest" in ax.get_ylabel()
    for line in ax.lines[:2]:
        assert line.get_ydata().max() == 100
        assert not np.isnan(line.get_ydata()).any()
    label = result.plot().get_xlabel()
    assert not find_lacking(label, "share", "total importance", "%")


def test_ranks_of_error_rates_are_drawn_without_shares():
    ax = make_result(3, measure="permutation", random_state=0).plot("rank")
    assert "largest" in ax.get_ylabel()


def test_names_are_left_out_where_they_cannot_be_read():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 500))
    result = tw.importance(RandomForestClassifier(3, random_state=0).fit(X, X[:, 0] > 0), X, X[:, 0] > 0)
    for kind in ("bar", "compare"):
        for top, is_named in ((200, True), (None, False)):
            ax = result.plot(kind, top=top)
            labels = [label.get_text() for label in ax.get_yticklabels()] + [text.get_text() for text in ax.texts]
            assert any("x0" in label for label in labels) == is_named
            assert ax.figure.get_size_inches()[1] < 35
    ax = Figure(figsize=(3, 2)).subplots()
    assert not any("x0" in label.get_text() for label in result.plot("bar", top=100, ax=ax).get_yticklabels())


def test_long_names_lose_their_middle():
    names = [f"{'a long question of a survey ' * 3}{j}" for j in range(3)]
    ax = make_result(3, feature_groups=names).plot("bar")
    assert sorted(label.get_text()[-1] for label in ax.get_yticklabels()) == ["0", "1", "2"]
    assert all(len(label.get_text()) == 36 for label in ax.get_yticklabels())


@pytest.mark.parametrize("kind", ["bar", "compare", "rank_sets"])
def test_titles_fit_next_to_long_names(kind):
    names = [f"{'a long question of a survey ' * 3}{j}" for j in range(12)]
    ax = make_result(12, feature_groups=names).plot(kind)
    ax.figure.draw_without_rendering()
    title = ax.title.get_window_extent()
    assert title.x0 >= 0
    assert title.x1 <= ax.figure.bbox.x1


def test_names_are_text_not_mathematics(tmp_path):
    result = make_result(3, feature_groups=["$x^{", "a_long_name" * 10, "<b>"], per_class=True)
    for kind in KINDS:
        result.plot(kind).figure.savefig(tmp_path / f"{kind}.png")
    assert sorted(path.stem for path in tmp_path.iterdir()) == sorted(KINDS)


@pytest.mark.filterwarnings("ignore:.* of \\d+ rows")
@pytest.mark.parametrize("measure", tw.measures())
def test_every_measure_has_a_title(measure):
    assert make_result(3, measure=measure, random_state=0).plot().get_title()


def test_bad_arguments(result):
    with pytest.raises(ValueError, match=r"kind.*bar.*compare.*box.*rank.*rank_sets.*classes.*'pie'"):
        result.plot("pie")
    with pytest.raises(ValueError, match=r"top.*\b1\b.*None.*\b0\b"):
        result.plot(top=0)


def test_classes_are_the_columns_of_a_heat_map(result):
    ax = result.plot("classes", top=4)
    parts = 100 * result.per_class[:, result.order[:4]].T / result.impurity
    np.testing.assert_allclose(ax.images[0].get_array(), parts)
    assert ax.figure.axes[1].get_ylabel() == "share of the variation in the target (%)"
    assert [label.get_text() for label in ax.get_xticklabels()] == ["False", "True"]
    with pytest.raises(ValueError, match="per_class=True"):
        make_result(3).plot("classes")
